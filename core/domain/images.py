"""Images that a model may look at: what their first bytes say they are. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from core.domain.messages import Attachment

IMAGES_MOST = 4
IMAGE_BYTES = 5 * 2**20 * 3 // 4
"""The largest image, 4 MB in round numbers: providers count 5 MiB of base64, which is a third longer than the bytes."""
NO_SIGHT = "not shown: this model reads no images"
"""The note in place of an image where the model has no eyes."""
SIDE_PX = 8_000
"""The longest side that providers take."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model. Its bytes live only in memory: what is stored of it is its hash.

    `source` says what people see of it; `mime` is what its bytes are, whatever it was called.
    """

    source: Attachment
    mime: str
    data: bytes = field(repr=False)
    sha256: str


@dataclass(frozen=True, slots=True)
class Form:
    """What a file turned out to be, with its sides in pixels."""

    mime: str
    width: int
    height: int


def image_of(source: Attachment, data: bytes) -> Image | str:
    """Return a file as an image, or why it is none that a model may be given."""
    form = form_of(data)
    if form is None or not (form.width and form.height):
        return "it is no PNG, JPEG, WebP or GIF"
    if max(form.width, form.height) > SIDE_PX:
        return f"it is larger than {SIDE_PX} pixels"
    return Image(source, form.mime, data, sha256(data).hexdigest())


def form_of(data: bytes) -> Form | None:
    """Return what a file is by its first bytes; None for anything but PNG, JPEG, WebP and GIF."""
    for begins, (mime, sides) in _FORMS.items():
        if data.startswith(begins):
            found = sides(data)
            return None if found is None else Form(mime, *found)
    return None


def _png(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or len(data) < 33:
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif(data: bytes) -> tuple[int, int] | None:
    if data[3:6] not in (b"87a", b"89a") or len(data) < 13:
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})
"""Marks between 0xC0 and 0xCF that begin tables and not the picture."""
_SEGMENTS_MOST = 1_000
"""More than any picture has: who writes more wants us to count them."""
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Marks that have no length behind them."""


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Return the sides from the first frame header; segments before it are passed over by their length."""
    at = 2
    for _ in range(_SEGMENTS_MOST):
        if at + 9 > len(data) or data[at] != 0xFF:
            return None
        mark = data[at + 1]
        if 0xC0 <= mark <= 0xCF and mark not in _NO_FRAME:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        if mark == 0xFF:
            at += 1
        elif mark in _BARE:
            at += 2
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[8:12] != b"WEBP" or len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            packed = int.from_bytes(data[21:25], "little")
            return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
        case b"VP8 ":
            sides = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
            return next(sides), next(sides)
        case _:
            return None


_FORMS: Mapping[bytes, tuple[str, Callable[[bytes], tuple[int, int] | None]]] = {
    b"\x89PNG\r\n\x1a\n": ("image/png", _png),
    b"\xff\xd8\xff": ("image/jpeg", _jpeg),
    b"GIF8": ("image/gif", _gif),
    b"RIFF": ("image/webp", _webp),
}
