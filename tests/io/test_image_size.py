"""Sizes of images from their first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.io.image_size import encoded_size, image_size
from tests.support.cases import cases
from tests.support.images import JPEG, MAKERS, SAMPLES, WEBP, encoded, jpeg, webp


@cases(40)
@given(st.sampled_from([*MAKERS]), st.integers(1, 16_383), st.integers(1, 16_383), st.booleans())
def test_an_image_has_the_size_that_it_begins_with(kind: str, width: int, height: int, is_url: bool) -> None:
    data = encoded(MAKERS[kind](width, height))
    assert encoded_size(f"data:{kind};base64,{data}" if is_url else data, kind) == (width, height)


@pytest.mark.parametrize("kind", [b"X", b"L", b" "])
def test_each_kind_of_webp_has_its_size(kind: bytes) -> None:
    assert image_size(webp(1234, 77, kind), WEBP) == (1234, 77)


@pytest.mark.parametrize(("media_type", "data", "size"), SAMPLES)
def test_what_is_damaged_or_misnamed_has_no_size(
    media_type: str, data: str, size: tuple[int | None, int | None]
) -> None:
    assert encoded_size(data, media_type) == (None if size == (None, None) else size)


@cases(200)
@given(st.sampled_from([*MAKERS, "", "text/plain"]), st.binary(max_size=200), st.integers(0, 60))
def test_no_bytes_are_an_error(kind: str, data: bytes, cut: int) -> None:
    begins = MAKERS[kind](3, 5) if kind in MAKERS else b""
    size = image_size(begins[:cut] + data, kind)
    assert size is None or all(0 < side < 2**16 for side in size)


@cases(100)
@given(st.text(max_size=40), st.text(max_size=20))
def test_no_text_is_an_error(data: str, media_type: str) -> None:
    for text in (data, f"data:{data}", f"data:image/png;base64,{data}"):
        assert encoded_size(text, media_type) is None


def test_line_breaks_in_base64_are_skipped() -> None:
    data = encoded(jpeg(640, 480))
    assert encoded_size("\n".join(data[i : i + 76] for i in range(0, len(data), 76)), JPEG) == (640, 480)


def test_the_size_of_a_jpeg_is_looked_for_in_its_beginning_only() -> None:
    assert encoded_size("/9j/" * 2**22) is None
