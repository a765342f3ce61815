"""OutputBuffer: the beginning and the end of an output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.tools.sandbox.supervisor import OutputBuffer


@given(st.binary(min_size=41, max_size=300))
def test_the_output_of_any_bytes_is_limited(data: bytes) -> None:
    output = OutputBuffer(40)
    output.append(data)
    assert len(output.text().encode()) < 40 * 3 + 60
    assert "bytes of output left out here" in output.text()


@pytest.mark.parametrize("shift", range(4))
def test_truncation_splits_no_character(shift: int) -> None:
    output = OutputBuffer(64)
    output.append(b"x" * shift + "🐟".encode() * 100)
    text = output.text()
    assert "�" not in text
    assert text.startswith("x" * shift + "🐟")
    assert text.endswith("🐟")


def test_a_truncated_output_says_how_much_is_missing() -> None:
    output = OutputBuffer(10)
    output.append(b"12345" + b"-" * 90 + b"67890")
    assert output.text() == "12345\n[... 90 bytes of output left out here ...]\n67890"
