"""Text from models, tools and users, made safe for a terminal."""

import json
import re
import unicodedata

# ESC [ ... final byte (colours, cursor), ESC ] ... BEL or ESC \ (titles, links, clipboard), and ESC with one character.
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
# Other control characters except tab and newline, characters that change the direction of writing, and characters that
# are always invisible. Joiners and variation selectors stay: words of some languages, and emoji, need them.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
# Invisible letters and marks that Unicode does not list in its invisible categories.
_BLANK_CHARACTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_WHITESPACE = re.compile(r"[ \t\r\n]+")
_VARIATION_SELECTOR = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def strip_control(text: str) -> str:
    """Return running text without escape sequences and control characters; tabs and newlines stay.

    If two pieces of a stream split a sequence, harmless letters of it remain.
    """
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))


def escape_invisible(text: str) -> str:
    """Return the text with invisible and formatting characters escaped as in JSON; space and newline stay.

    So two texts that differ only in an invisible character look different.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(_json_escape(sign) if _is_invisible(sign) else sign for sign in text)


def _is_invisible(sign: str) -> bool:
    if sign in " \n":
        return False
    return (
        unicodedata.category(sign) in _INVISIBLE_CATEGORIES
        or sign in _BLANK_CHARACTERS
        or _VARIATION_SELECTOR.match(sign) is not None
    )


def _json_escape(sign: str) -> str:
    return json.dumps(sign)[1:-1] if sign != "\x7f" else "\\u007f"


def one_line(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, with invisible characters escaped."""
    line = escape_invisible(_WHITESPACE.sub(" ", text).strip(" "))
    return line if len(line) <= width else f"{line[: width - 1]}…"
