"""Cut a file of a source into chunks by its structure. Pure; a chunk's text is its lines, word for word."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from core.domain.sources import ChunkId, SourceId, file_name

TARGET_CHARS = 1_200
"""Neighbouring pieces are put together up to this size."""
MOST_CHARS = 2_000
MOST_LINES = 60
SYMBOL_CHARS = 200
HEADING_STEP = " > "
"""Stands between the headings of a path, as in `Setup > Linux`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines of a file. Lines count from 1 and both ends are inside.

    `symbol`: the path of headings, or the names that are defined here, empty for neither. A line too long for one
    chunk stands in several that name this line alone; joined without anything between they give it.
    """

    line_start: int
    line_end: int
    text: str
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines `start` up to but not `end`, from 0, that belong together.

    `opens`: never put behind what came before. `leads`: a heading or signature, kept with what follows.
    `parts`: what it consists of, for when it is too large for one chunk.
    """

    start: int
    end: int
    symbol: str = ""
    opens: bool = False
    leads: bool = False
    parts: tuple["Block", ...] = field(default=())


Cutter = Callable[[Sequence[str]], Sequence[Block]]
"""Turns the lines of a file into blocks that follow each other without a gap."""


def split_lines(text: str) -> list[str]:
    """Return the lines as an editor numbers them: only a line feed ends one, a last one without words is none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def chunk_lines(lines: Sequence[str], blocks: Sequence[Block]) -> tuple[Chunk, ...]:
    """Return the blocks as chunks: small neighbours together, large ones cut at the next lower structure."""
    return tuple(_pack(lines, blocks))


def fits(lines: Sequence[str], start: int, end: int, chars: int = MOST_CHARS) -> bool:
    """Return whether these lines are small enough for one chunk of so many characters."""
    return end - start <= MOST_LINES and sum(len(line) + 1 for line in lines[start:end]) - 1 <= chars


def paragraphs(
    lines: Sequence[str],
    start: int,
    end: int,
    symbol: str = "",
    whole: Sequence[tuple[int, int]] = (),
) -> list[Block]:
    """Return blocks that end behind blank lines; what is between the ends of a pair in `whole` is not cut."""
    cuts = [start]
    inside = dict(whole)
    at = start
    while at < end:
        if at in inside:
            cuts += [at, min(inside[at], end)]
            at = min(inside[at], end)
            continue
        if at > start and lines[at].strip() and not lines[at - 1].strip():
            cuts.append(at)
        at += 1
    edges = sorted({*cuts, end})
    return _blank_joined(lines, [Block(one, two, symbol) for one, two in pairwise(edges)])


def _blank_joined(lines: Sequence[str], blocks: list[Block]) -> list[Block]:
    """Put blank lines that stand alone behind what comes before them."""
    joined: list[Block] = []
    for block in blocks:
        if joined and not any(line.strip() for line in lines[block.start : block.end]):
            last = joined[-1]
            joined[-1] = Block(last.start, block.end, last.symbol)
        else:
            joined.append(block)
    return joined


def _pack(lines: Sequence[str], blocks: Sequence[Block]) -> Iterator[Chunk]:
    held: list[Block] = []
    for block in blocks:
        if held and not _goes_with(lines, held, block):
            yield from _emit(lines, held)
            held = []
        held.append(block)
    if held:
        yield from _emit(lines, held)


def _goes_with(lines: Sequence[str], held: Sequence[Block], block: Block) -> bool:
    if all(each.leads for each in held):
        return fits(lines, held[0].start, block.end, MOST_CHARS)
    return not block.opens and fits(lines, held[0].start, block.end, TARGET_CHARS)


def _emit(lines: Sequence[str], held: Sequence[Block]) -> Iterator[Chunk]:
    start, end = held[0].start, held[-1].end
    if fits(lines, start, end):
        yield Chunk(start + 1, end, "\n".join(lines[start:end]), _symbol_of(held))
        return
    (block,) = held  # several together always fit
    if block.parts:
        yield from _pack(lines, block.parts)
        return
    smaller = paragraphs(lines, start, end, block.symbol)
    if len(smaller) == 1:
        smaller = [Block(at, at + 1, block.symbol) for at in range(start, end)]
    if len(smaller) > 1:
        yield from _pack(lines, smaller)
    else:
        for piece in _pieces(lines[start]):
            yield Chunk(start + 1, end, piece, block.symbol)


def _pieces(line: str) -> Iterator[str]:
    """Cut one long line behind a space where there is one in the last fifth, else where it must be."""
    while len(line) > MOST_CHARS:
        at = line.rfind(" ", TARGET_CHARS * 4 // 5, TARGET_CHARS) + 1 or TARGET_CHARS
        yield line[:at]
        line = line[at:]
    yield line


def _symbol_of(held: Sequence[Block]) -> str:
    names = dict.fromkeys(block.symbol for block in held if block.symbol)
    deepest = [name for name in names if not any(other.startswith(name + HEADING_STEP) for other in names)]
    shown = ", ".join(deepest)
    return shown if len(shown) <= SYMBOL_CHARS else shown[: SYMBOL_CHARS - 1] + "…"


def locator_of(source: str, path: str, blob_hash: str, line_start: int, line_end: int) -> str:
    """Return how a passage names where it stands: `handbook:docs/setup.md@1f0c2ab#L10-L42`."""
    return f"{source}:{path}@{blob_hash[:7]}#L{line_start}-L{line_end}"


_PLAIN_PATH = re.compile(r"[\w./ +-]+")


def cited_as(source: str, path: str, line_start: int, line_end: int, commit: str, blob_hash: str) -> str:
    """Return how a passage is named to people. `commit`: empty where there is none; then the file's hash names it."""
    lines = f"line {line_start}" if line_start == line_end else f"lines {line_start}-{line_end}"
    # What would be read as markup stands as code.
    named = path if _PLAIN_PATH.fullmatch(path) and "__" not in path else f"`{path.replace('`', '')}`"
    made = f"at commit {commit[:7]}" if commit else f"in version {blob_hash[:7]}"
    return f"{source}: {named}, {lines} {made}"


_REF = re.compile(r"(\d{1,18})/(\d{1,18})@(\w{0,7})#L(\d{1,9})-L(\d{1,9})")


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """A passage as receipts keep it: numbers alone, so that no receipt names what was closed since."""

    source: SourceId
    chunk: ChunkId
    version: str
    line_start: int
    line_end: int

    def __str__(self) -> str:
        return f"{self.source}/{self.chunk}@{self.version}#L{self.line_start}-L{self.line_end}"

    @classmethod
    def read(cls, text: str) -> "ChunkRef | None":
        """Return the reference that `text` is; None if it is none."""
        if (found := _REF.fullmatch(text)) is None:
            return None
        source, chunk, version, line_start, line_end = found.groups()
        return cls(SourceId(int(source)), ChunkId(int(chunk)), version, int(line_start), int(line_end))


_LEAST_STEM = 4
_ENDING = 2


def telling_lines(text: str, question: str, most_chars: int) -> tuple[int, int]:
    """Return which lines of `text`, from 0 and without the last, say most about the question in so many characters.

    Words are compared by their beginnings. Of equal stretches the first one counts, at least one line is taken.
    """
    lines = text.split("\n")
    stems = {word[: max(_LEAST_STEM, len(word) - _ENDING)] for word in _words_of(question)}
    held = [{stem for stem in stems for word in _words_of(line) if word.startswith(stem)} for line in lines]
    best, most = (0, 1), -1
    for start, line in enumerate(lines):
        if not line.strip():
            continue
        end, chars, said = start, -1, set[str]()
        while end < len(lines) and (end == start or chars + 1 + len(lines[end]) <= most_chars):
            chars += 1 + len(lines[end])
            said |= held[end]
            end += 1
        if len(said) > most:
            best, most = (start, end), len(said)
    start, end = best
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return start, end


def _words_of(text: str) -> list[str]:
    return [word.casefold() for name in _NAME.findall(text) for word in (*split_name(name), name) if len(word) > 2]


# What is found by name. Postgres keeps `a.b` and `a/b` whole and does not see the humps of camelCase.

_NAME = re.compile(r"\w[\w./:#-]*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


def split_name(name: str) -> list[str]:
    """Return the words of a path or identifier: cut at `/`, `.`, `_`, other signs, and at humps of camelCase."""
    return [word for part in _SEPARATOR.split(name) if part for word in _HUMP.split(part)]


def name_words(path: str, symbol: str) -> str:
    """Return what is indexed beside a chunk's own text: its file's name, the path and the symbol in words."""
    return " ".join(dict.fromkeys([file_name(path), *split_name(path), symbol, *split_name(symbol)]))


def inner_words(text: str) -> str:
    """Return the words within the compound names of `text`, each once; empty if it has none."""
    found: dict[str, None] = {}
    for name in dict.fromkeys(_NAME.findall(text)):
        words = split_name(name)
        if len(words) > 1:
            found.update(dict.fromkeys(words))
    return " ".join(found)
