"""Control sequences in the text of a model do not reach the terminal."""

import json
import unicodedata
from io import StringIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roboco.cli.terminal.sanitize import escape_invisible, one_line, strip_control
from roboco.cli.terminal.screen import Screen


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
def test_control_sequences_are_stripped(text: str, shown: str) -> None:
    assert strip_control(text) == shown


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b[]();\x07\\\x9b")))
@example("\x1b]0;never ended")
def test_no_control_character_is_left(text: str) -> None:
    left = {character for character in strip_control(text) if unicodedata.category(character) == "Cc"}
    assert left <= {"\t", "\n"}
    assert strip_control(strip_control(text)) == strip_control(text)


def test_invisible_characters_are_escaped_and_others_kept() -> None:
    assert escape_invisible("grün\n\x1b[31m\u202e\x7f") == "grün\n\\u001b[31m\\u202e\\u007f"


def test_an_invisible_character_is_escaped() -> None:
    characters = (
        *"\t\r\x00\x1b\x7f\x85\x9b",
        *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
        *"\xad\u034f\u180e\u200b\u200c\u200d\u2060\u2061\u2064\u206f\ufeff\ufff9",
        *"\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000",
        *"\u115f\u1160\u17b4\u2800\u3164\uffa0\ue000\ufdd0\ud800",
        *"\u180b\ufe00\ufe0f\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef",
    )
    for character in characters:
        shown = escape_invisible(f"a{character}b")
        assert shown.isascii()
        assert shown.isprintable()
        assert json.loads(f'"{shown}"') == f"a{character}b"
        assert one_line(f"a{character}b", 40) == ("a b" if character in "\t\r" else shown)
        out = StringIO()
        Screen(out).line(f"a{character}b", (f"a{character}b", "bold"))
        assert out.getvalue() == f"{shown}{shown}\n"


@pytest.mark.parametrize("text", ["größer\nals ö", "漢字 и кириллица", "\U0001f388 – “quotes” …", "e\u0301 हिन्दी"])
def test_visible_text_is_not_escaped(text: str) -> None:
    assert escape_invisible(text) == text


def test_one_line_is_escaped_and_shortened() -> None:
    assert one_line("two\nlines\tand \x1b[1mmore\x1b[0m", 100) == "two lines and \\u001b[1mmore\\u001b[0m"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
