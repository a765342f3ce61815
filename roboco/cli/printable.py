"""Text from models, tools and users, made safe for a terminal."""

import re

# ESC [ ... final byte (colours, cursor), ESC ] ... BEL or ESC \ (titles, links, clipboard), and ESC with one character.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
# What remains of control characters, but for tab and newline, and what changes the direction of writing.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text without escape sequences and control characters; tabs and newlines stay.

    Of a sequence that is cut in two by the edge of a piece, harmless letters remain.
    """
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


def escaped(text: str) -> str:
    """The text with its control characters in sight, as JSON writes them; tabs and newlines stay."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
