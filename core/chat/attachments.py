"""Files of a turn, fetched before its model is asked: images to see, texts to read, a note on all others."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import structlog

from core.domain.errors import BotError
from core.domain.ids import RoomKey
from core.domain.images import IMAGE_BYTES, IMAGES_MOST, NO_SIGHT, Image, image_of
from core.domain.messages import Attachment
from core.domain.prompt import RequestContext
from core.ports import FrontEnd
from core.store.engine import transaction_is_open

log = structlog.get_logger()

TEXTS_MOST = 4
TEXT_BYTES = 256 * 1024
FETCH_S = 20.0
"""How long one file may take, whatever its front end allows; they come side by side."""
NOT_HERE = "not read: this process cannot fetch it"
NO_TEXT = "not read: it is no text"

_SHOWN_MIMES = frozenset({"image/png", "image/jpeg", "image/jpg", "image/webp", "image/gif", ""})
_TEXT_MIMES = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml",
     "application/javascript", "application/x-javascript", "application/x-sh", "application/sql"}
)  # fmt: skip
_TEXT_SUFFIXES = frozenset(
    {
        ".txt", ".md", ".rst", ".log", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg",
        ".conf", ".xml", ".html", ".css", ".diff", ".patch", ".tex", ".py", ".js", ".ts", ".jsx", ".tsx", ".java",
        ".kt", ".c", ".h", ".cpp", ".hpp", ".cs", ".go", ".rs", ".rb", ".php", ".pl", ".lua", ".r", ".sql", ".sh",
        ".bat", ".ps1",
    }
)  # fmt: skip
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class _Text:
    """A file that was read as text."""

    source: Attachment
    words: str

    def block(self) -> str:
        """Return the words between lines that say what they are."""
        return f"{replace(self.source, note='read as text').line()}\n{self.words.strip()}\n[end of the file]"


_Found = Image | _Text | str


async def with_files(
    context: RequestContext, files: Sequence[Attachment], room: RoomKey, front_end: FrontEnd | None, *, vision: bool
) -> RequestContext:
    """Return the context with what the turn's files hold; where nothing can be had, their lines say why.

    Args:
        context: What the reply is made from; its turn's text has a line for each file.
        files: Those of the turn that may be fetched, in the order of the messages.
        room: Where they were said.
        front_end: The platform's connection; None where another process holds it.
        vision: Whether any model that may be asked reads images.
    """
    if not files:
        return context
    if transaction_is_open():
        raise AssertionError("a file is fetched while a transaction is open")
    plan = _plan(files, front_end is not None, vision=vision)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_found(file, refused, room, front_end)) for file, refused in plan]
    found = [task.result() for task in tasks]
    texts = [each for each in found if isinstance(each, _Text)]
    notes = [replace(file, note=each).line() for file, each in zip(files, found, strict=True) if isinstance(each, str)]
    words = _without_lines(context.turn.text, files)
    turn = replace(
        context.turn,
        text="\n".join(filter(None, (words, *(each.block() for each in texts)))),
        notes=(*context.turn.notes, *notes),
    )
    return replace(context, turn=turn, images=tuple(each for each in found if isinstance(each, Image)))


def _plan(files: Sequence[Attachment], reachable: bool, *, vision: bool) -> list[tuple[Attachment, str]]:
    """Return each file with why it is not even fetched; empty if it is."""
    images = texts = 0
    plan = []
    for file in files:
        refused = _refusal(file, vision=vision)
        if not refused and not reachable:
            refused = NOT_HERE
        if not refused and _is_image(file):
            images += 1
            refused = f"not shown: over the {IMAGES_MOST} images of a question" if images > IMAGES_MOST else ""
        elif not refused:
            texts += 1
            refused = f"not read: over the {TEXTS_MOST} files of a question" if texts > TEXTS_MOST else ""
        plan.append((file, refused))
    return plan


def _refusal(file: Attachment, *, vision: bool) -> str:
    """Return what speaks against a file before anybody has seen it; empty if nothing does."""
    if _is_image(file):
        if not vision:
            return NO_SIGHT
        if file.mime.partition(";")[0].lower() not in _SHOWN_MIMES:
            return "not shown: it is no PNG, JPEG, WebP or GIF"
        return f"not shown: {_over(IMAGE_BYTES)}" if file.size_bytes > IMAGE_BYTES else ""
    if not _may_be_text(file):
        return NO_TEXT
    return f"not read: {_over(TEXT_BYTES)}" if file.size_bytes > TEXT_BYTES else ""


def _over(limit_bytes: int) -> str:
    size = f"{limit_bytes / 1e6:.0f} MB" if limit_bytes > 10**6 else f"{limit_bytes // 1024} KB"
    return f"over the {size} limit"


def _is_image(file: Attachment) -> bool:
    return file.kind == "image" or file.mime.lower().startswith("image/")


def _may_be_text(file: Attachment) -> bool:
    mime = file.mime.partition(";")[0].strip().lower()
    named = PurePosixPath(file.name.lower()).suffix in _TEXT_SUFFIXES
    return mime.startswith("text/") or mime in _TEXT_MIMES or named


async def _found(file: Attachment, refused: str, room: RoomKey, front_end: FrontEnd | None) -> _Found:
    """Return what a file holds, or the note in its place."""
    if refused or front_end is None:
        return refused or NOT_HERE
    image = _is_image(file)
    missed = "not shown" if image else "not read"
    try:
        async with asyncio.timeout(FETCH_S):
            data = await front_end.fetch(room, file.handle, IMAGE_BYTES if image else TEXT_BYTES)
    except BotError as exc:
        log.info("attachment.unread", front_end=front_end.name, kind=file.kind, error=type(exc).__name__)
        return f"{missed}: {exc.attributes.get('why', 'it could not be fetched')}"
    except TimeoutError:
        log.info("attachment.unread", front_end=front_end.name, kind=file.kind, error="TimeoutError")
        return f"{missed}: it did not come in time"
    except Exception as exc:  # a file is never worth an answer
        log.exception("attachment.unread", front_end=front_end.name, kind=file.kind, error=type(exc).__name__)
        return f"{missed}: it could not be fetched"
    if not image:
        words = _words_of(data)
        return NO_TEXT if words is None else _Text(file, words)
    seen = image_of(file, data)
    return f"{missed}: {seen}" if isinstance(seen, str) else seen


def _words_of(data: bytes) -> str | None:
    """Return a file's text; None if its bytes are none."""
    try:
        words = data.decode("utf-16" if data.startswith(_UTF16_MARKS) else "utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in words else words


def _without_lines(text: str, files: Sequence[Attachment]) -> str:
    """Return the turn's text without the lines of its files, which say more now and stand elsewhere."""
    lines = text.split("\n")
    for file in reversed(files):
        if file.line() in lines:
            del lines[len(lines) - 1 - lines[::-1].index(file.line())]
    return "\n".join(lines)
