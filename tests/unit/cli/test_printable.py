"""Nothing that a model writes reaches a terminal as a command."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roboco.cli.printable import escaped, one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nwith ünïcode 🎈", "plain\ttext\nwith ünïcode 🎈"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;c2VjcmV0\x1b\\after", "after"),
        ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq~\x1b\\after", "after"),
        ("\x1b(Bafter\x1bc", "after"),
        ("over\rwritten\b\x00\x7f", "overwritten"),
        ("\x9b31mC1", "31mC1"),
        ("file\u202egpj.exe", "filegpj.exe"),
        ("cut in two: \x1b", "cut in two: "),
        ("[31m", "[31m"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b[]();\x07\\\x9b")))
@example("\x1b]0;never ended")
def test_no_control_character_is_left(text: str) -> None:
    left = {character for character in printable(text) if unicodedata.category(character) == "Cc"}
    assert left <= {"\t", "\n"}
    assert printable(printable(text)) == printable(text)


def test_escaped_hides_nothing() -> None:
    assert escaped("grün\n\x1b[31m\u202e\x7f") == "grün\n\\u001b[31m\\u202e\\u007f"


def test_one_line() -> None:
    assert one_line("two\nlines\tand \x1b[1mmore\x1b[0m", 100) == "two lines and more"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
