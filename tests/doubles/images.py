"""The beginnings of image files, as far as anybody reads them before a model does."""

from collections.abc import Callable, Mapping


def png(width: int = 64, height: int = 48, rest: bytes = b"rest") -> bytes:
    """Return a PNG's header with its sides, and other bytes instead of a picture."""
    sides = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + sides + b"\x08\x02\0\0\0\0\0\0\0" + rest


def gif(width: int = 64, height: int = 48) -> bytes:
    return b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little") + b"\0\0\0;"


def jpeg(width: int = 64, height: int = 48, before: bytes = b"\xff\xe1\0\x06Exif") -> bytes:
    """Return a JPEG as cameras write it: other segments stand before the frame that tells the sides."""
    return b"\xff\xd8" + before + b"\xff\xc2\0\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\3"


def webp(width: int = 64, height: int = 48, form: str = "VP8X") -> bytes:
    match form:
        case "VP8X":
            body = b"\x0a\0\0\0" + bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case "VP8L":
            packed = (width - 1) | (height - 1) << 14
            body = b"\x0a\0\0\0\x2f" + packed.to_bytes(4, "little") + bytes(6)
        case _:
            body = b"\x0a\0\0\0\0\0\0\x9d\x01\x2a" + width.to_bytes(2, "little") + height.to_bytes(2, "little")
    return b"RIFF\x20\0\0\0WEBP" + form.ljust(4).encode() + body


FORMS: Mapping[str, Callable[[int, int], bytes]] = {
    "image/png": png,
    "image/gif": gif,
    "image/jpeg": jpeg,
    "image/webp": webp,
}
