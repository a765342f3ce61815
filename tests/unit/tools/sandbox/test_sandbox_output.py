"""OutputBuffer: the beginning and the end of an output."""

import pytest

from roboco.tools.sandbox.supervisor import OutputBuffer


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
