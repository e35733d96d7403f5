"""Telegram's rules of text: UTF-16 units, markup of HTML and MarkdownV2, and entities that the server finds itself."""

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from tests.doubles.telegram_faults import Refused, Unimplemented, bad_request


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, in which Telegram counts everything."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_slice(text: str, offset: int, length: int) -> str:
    """Return the part of a text that an entity names."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * offset : 2 * (offset + length)].decode("utf-16-le", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Entity:
    """A marked part of a text; offset and length in UTF-16 units."""

    type: str
    offset: int
    length: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the MessageEntity of the Bot API."""
        return {"type": self.type, "offset": self.offset, "length": self.length, **self.extra}


@dataclass(frozen=True, slots=True)
class Styled:
    """A text without markup, and its entities."""

    text: str
    entities: tuple[Entity, ...] = ()


CHOSEN = {"code", "pre", "text_link", "text_mention", "custom_emoji"}
"""Within these the server looks for nothing."""
FOUND = {
    "bot_command": re.compile(r"(?<![\w/@])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/@])"),
    "mention": re.compile(r"(?<![\w/@])@[A-Za-z0-9_]{4,32}(?!\w)"),
    "url": re.compile(r"https?://[^\s<>]+"),
    "hashtag": re.compile(r"(?<![\w#])#\w*[^\W\d]\w*"),
}
INVISIBLE = dict.fromkeys(map(ord, "\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"))


def find_entities(styled: Styled) -> Styled:
    """Add what the server marks by itself: commands, mentions, addresses and hashtags."""
    taken = [(e.offset, e.offset + e.length) for e in styled.entities if e.type in CHOSEN]
    found = list(styled.entities)
    for kind, pattern in FOUND.items():
        for match in pattern.finditer(styled.text):
            start = utf16_length(styled.text[: match.start()])
            end = start + utf16_length(match[0])
            if not any(start < right and left < end for left, right in taken):
                found.append(Entity(kind, start, end - start))
                taken.append((start, end))
    return replace(styled, entities=in_order(found))


def in_order(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    """Return the entities by offset, the longer of two first, without empty ones."""
    return tuple(sorted((e for e in entities if e.length > 0), key=lambda e: (e.offset, -e.length)))


def trim(styled: Styled) -> Styled:
    """Drop white space at both ends, as the server does; at the front only up to the first entity.

    A text of nothing but white space and invisible characters becomes empty.
    """
    if not styled.text.translate(INVISIBLE).strip():
        return Styled("")
    text = styled.text.rstrip()
    blank = len(text) - len(text.lstrip())
    front = min([blank, *(e.offset for e in styled.entities)])
    text = text[front:]
    end = utf16_length(text)
    moved = (replace(e, offset=e.offset - front, length=min(e.length, end - e.offset + front)) for e in styled.entities)
    return Styled(text, in_order(moved))


def check_bounds(styled: Styled) -> Styled:
    """Return the text as it is, or refuse it if an entity leaves it or cuts a symbol in two."""
    edges = set(accumulate((utf16_length(symbol) for symbol in styled.text), initial=0))
    end = max(edges)
    for entity in styled.entities:
        last = entity.offset + entity.length
        if entity.offset < 0 or last > end:
            raise bad_request(
                f"entity beginning at UTF-16 offset {entity.offset} ends after the end of the text "
                f"at UTF-16 offset {end}"
            )
        if not {entity.offset, last} <= edges:
            raise bad_request(f"entity at UTF-16 offset {entity.offset} cuts a UTF-16 symbol in two")
    return styled


def parse(text: str, parse_mode: str | None) -> Styled:
    """Return the text that remains when its markup is read; no mode leaves it as it is."""
    match (parse_mode or "").lower():
        case "":
            return Styled(text)
        case "html":
            return HtmlParser(text).parse()
        case "markdownv2":
            return MarkdownParser(text).parse()
        case "markdown":
            raise Unimplemented("parse_mode Markdown")
        case _:
            raise bad_request("unsupported parse_mode")


def cannot_parse(why: str) -> Refused:
    """Return the refusal of broken markup."""
    return bad_request(f"can't parse entities: {why}")


@dataclass(slots=True)
class Open:
    """A mark that has begun and not ended; `start` counts UTF-16 units of the plain text."""

    mark: str
    type: str
    start: int
    source: int
    extra: dict[str, Any] = field(default_factory=dict)


class Plain:
    """The text that grows while markup is read."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        self.entities: list[Entity] = []

    def add(self, text: str) -> None:
        """Add text without markup."""
        self._parts.append(text)
        self.length += utf16_length(text)

    def close(self, opened: Open) -> None:
        """Make an entity of everything since the mark."""
        self.entities.append(Entity(opened.type, opened.start, self.length - opened.start, opened.extra))

    def styled(self) -> Styled:
        """Return what was read."""
        return Styled("".join(self._parts), in_order(self.entities))


class HtmlParser:
    """Reads the tags that Telegram supports; anything else refuses the whole text."""

    TAG = re.compile(
        r"<(?P<end>/?)(?P<name>[a-zA-Z][\w-]*)(?P<attributes>(?:\s+[\w-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'))?)*)\s*>"
    )
    ATTRIBUTE = re.compile(r"([\w-]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'))?")
    TYPES: Mapping[str, str] = {
        **dict.fromkeys(("b", "strong"), "bold"),
        **dict.fromkeys(("i", "em"), "italic"),
        **dict.fromkeys(("u", "ins"), "underline"),
        **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
        **dict.fromkeys(("span", "tg-spoiler"), "spoiler"),
        "a": "text_link",
        "code": "code",
        "pre": "pre",
        "blockquote": "blockquote",
        "tg-emoji": "custom_emoji",
    }
    # Telegram knows four names and numbers; any other `&` is just a character.
    CHARACTER = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);")

    def __init__(self, source: str) -> None:
        self._source = source
        self._plain = Plain()
        self._open: list[Open] = []

    def parse(self) -> Styled:
        """Return the plain text and its entities."""
        at = 0
        while (found := self._source.find("<", at)) >= 0:
            self._add(self._source[at:found])
            tag = self.TAG.match(self._source, found)
            name = tag["name"].lower() if tag else ""
            if tag is None or name not in self.TYPES:
                raise cannot_parse(f'Unsupported start tag "{name}" at byte offset {self._bytes(found)}')
            if tag["end"]:
                self._end(name, found)
            else:
                self._begin(name, tag["attributes"], found)
            at = tag.end()
        self._add(self._source[at:])
        if self._open:
            raise cannot_parse(f'Can\'t find end tag corresponding to start tag "{self._open[-1].mark}"')
        return self._plain.styled()

    def _begin(self, name: str, attributes: str, at: int) -> None:
        values = {key.lower(): html.unescape(a or b) for key, a, b in self.ATTRIBUTE.findall(attributes)}
        kind, extra = self.TYPES[name], dict[str, Any]()
        match name:
            case "span" if values.get("class") != "tg-spoiler":
                raise cannot_parse(f'Tag "span" must have class "tg-spoiler" at byte offset {self._bytes(at)}')
            case "a":
                extra = {"url": values.get("href", "")}
            case "tg-emoji":
                extra = {"custom_emoji_id": values.get("emoji-id", "")}
            case "code" if values.get("class", "").startswith("language-"):
                extra = {"language": values["class"].removeprefix("language-")}
            case "blockquote" if "expandable" in values:
                kind = "expandable_blockquote"
        self._open.append(Open(name, kind, self._plain.length, at, extra))

    def _end(self, name: str, at: int) -> None:
        if not self._open:
            raise cannot_parse(f"Unexpected end tag at byte offset {self._bytes(at)}")
        opened = self._open.pop()
        if opened.mark != name:
            raise cannot_parse(
                f'Unmatched end tag at byte offset {self._bytes(at)}, expected "</{opened.mark}>", found "</{name}>"'
            )
        outer = self._open[-1] if self._open else None
        if name == "code" and outer is not None and outer.mark == "pre" and outer.start == opened.start:
            outer.extra.update(opened.extra)
            return
        if name == "code":
            opened.extra.clear()
        self._plain.close(opened)

    def _add(self, text: str) -> None:
        self._plain.add(self.CHARACTER.sub(lambda found: html.unescape(found[0]), text))

    def _bytes(self, at: int) -> int:
        return len(self._source[:at].encode())


class MarkdownParser:
    """Reads MarkdownV2: what is reserved must be escaped, marks must end. Quotes by `>` are not in the double."""

    RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
    MARKS: Mapping[str, str] = {
        "||": "spoiler", "__": "underline", "*": "bold", "_": "italic", "~": "strikethrough",
    }  # fmt: skip
    PRE = re.compile(r"```(?:(?P<language>[^\s`\\]+)\n)?(?P<body>(?:\\.|[^`\\])*)```", re.DOTALL)
    CODE = re.compile(r"`(?P<body>(?:\\.|[^`\\])+)`", re.DOTALL)
    TARGET = re.compile(r"\]\((?P<url>(?:\\.|[^)\\])*)\)")
    ESCAPE = re.compile(r"\\([\x01-\x7e])")

    def __init__(self, source: str) -> None:
        self._source = source
        self._plain = Plain()
        self._open: list[Open] = []

    def parse(self) -> Styled:
        """Return the plain text and its entities."""
        at = 0
        while at < len(self._source):
            at = self._step(at)
        if self._open:
            last = self._open[-1]
            where = len(self._source[: last.source].encode())
            raise cannot_parse(f"Can't find end of {last.type.title()} entity at byte offset {where}")
        return self._plain.styled()

    def _step(self, at: int) -> int:
        """Read one character, mark or block and return where the next begins."""
        source, character = self._source, self._source[at]
        if escaped := self.ESCAPE.match(source, at):
            self._plain.add(escaped[1])
            return escaped.end()
        for pattern, kind in ((self.PRE, "pre"), (self.CODE, "code")):
            if block := pattern.match(source, at):
                return self._block(block, kind)
        if character == "[":
            self._open.append(Open("[", "text_link", self._plain.length, at))
            return at + 1
        if self._open and self._open[-1].mark == "[" and (target := self.TARGET.match(source, at)):
            link = self._open.pop()
            link.extra["url"] = self.ESCAPE.sub(r"\1", target["url"])
            self._plain.close(link)
            return target.end()
        for mark, kind in self.MARKS.items():
            if source.startswith(mark, at):
                return self._mark(mark, kind, at)
        if character == ">":
            raise Unimplemented("quotes in MarkdownV2")
        if character in self.RESERVED:
            raise cannot_parse(f"Character '{character}' is reserved and must be escaped with the preceding '\\'")
        self._plain.add(character)
        return at + 1

    def _block(self, block: re.Match[str], kind: str) -> int:
        language = block.groupdict().get("language")
        opened = Open("`", kind, self._plain.length, block.start(), {"language": language} if language else {})
        self._plain.add(self.ESCAPE.sub(r"\1", block["body"]))
        self._plain.close(opened)
        return block.end()

    def _mark(self, mark: str, kind: str, at: int) -> int:
        if self._open and self._open[-1].mark == mark:
            self._plain.close(self._open.pop())
        else:
            self._open.append(Open(mark, kind, self._plain.length, at))
        return at + len(mark)
