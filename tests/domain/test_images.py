"""What a file is, by its first bytes: four kinds of images with their sides, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.images import SIDE_PX, Form, Image, form_of, image_of
from core.domain.messages import Attachment
from tests.doubles.images import FORMS, gif, jpeg, png, webp

CAT = Attachment("image", "cat.png", "image/png")


@pytest.mark.parametrize("mime", FORMS)
def test_an_image_is_known_by_its_bytes_and_tells_its_sides(mime: str) -> None:
    assert form_of(FORMS[mime](123, 45)) == Form(mime, 123, 45)


@pytest.mark.parametrize("form", ["VP8X", "VP8L", "VP8"])
def test_every_form_of_webp_tells_its_sides(form: str) -> None:
    assert form_of(webp(1000, 701, form)) == Form("image/webp", 1000, 701)


@pytest.mark.parametrize("before", [b"", b"\xff\xff\xff\xe0\0\x04ab", b"\xff\xd8", b"\xff\xc4\0\x09tables!"])
def test_a_jpeg_is_read_over_whatever_stands_before_its_frame(before: bytes) -> None:
    assert form_of(jpeg(9, 8, before)) == Form("image/jpeg", 9, 8)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x89PNG\r\n\x1a\n", b"GIF87", b"RIFF....WAVEfmt " + bytes(30), b"<svg/>", b"%PDF-1.7", b"BM" + bytes(99),
        b"\xff\xd8\xff\xe0\0\x02" * 2000, b"\xff\xd8" + b"\xff" * 4_000_000, png()[:20], jpeg()[:9], webp(form="VP9 "),
    ],
)  # fmt: skip
def test_everything_else_is_no_image(data: bytes) -> None:
    assert form_of(data) is None


@pytest.mark.parametrize("data", [gif(0, 10), png(10, 0), png(SIDE_PX + 1, 1), b"MZ an executable"])
def test_an_image_without_a_size_or_with_too_much_of_it_is_refused(data: bytes) -> None:
    assert isinstance(image_of(CAT, data), str)


def test_an_image_is_what_its_bytes_say_and_never_shows_them() -> None:
    image = image_of(CAT, gif())
    assert isinstance(image, Image) and image.mime == "image/gif"
    assert len(image.sha256) == 64 and "GIF89a" not in repr(image)


@given(st.sampled_from([b"", *(make(64, 48)[:12] for make in FORMS.values())]), st.binary(max_size=200))
def test_reading_never_raises(head: bytes, rest: bytes) -> None:
    assert form_of(head + rest) is None or form_of(head + rest)
