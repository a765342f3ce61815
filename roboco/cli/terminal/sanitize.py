"""Text from models, tools and users, made safe for a terminal."""

import json
import re
import unicodedata

# ESC [ ... final byte (colours, cursor), ESC ] ... BEL or ESC \ (titles, links, clipboard), and ESC with one character.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")
# What remains of control characters, but for tab and newline, what changes the direction of writing, and what never
# shows. Joiners and variation selectors stay: words of some languages, and emoji, need them.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
# Letters and marks that show nothing, though Unicode counts them to other categories than the invisible ones.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_SPACE = re.compile(r"[ \t\r\n]+")
_VARIATION = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def printable(text: str) -> str:
    """Running text without escape sequences and control characters; tabs and newlines stay.

    Of a sequence that is cut in two by the edge of a piece, harmless letters remain.
    """
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


def escaped(text: str) -> str:
    """The text with all in sight that shows nothing or changes what is shown, as JSON writes it.

    Only space and newline stay. Two texts that differ never look alike because of a character that does not show.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(_in_json(sign) if _is_unseen(sign) else sign for sign in text)


def _is_unseen(sign: str) -> bool:
    if sign in " \n":
        return False
    return unicodedata.category(sign) in _UNSEEN or sign in _BLANK or _VARIATION.match(sign) is not None


def _in_json(sign: str) -> str:
    return json.dumps(sign)[1:-1] if sign != "\x7f" else "\\u007f"


def one_line(text: str, width: int) -> str:
    """The text on one line of at most `width` characters; what does not show is escaped."""
    line = escaped(_SPACE.sub(" ", text).strip(" "))
    return line if len(line) <= width else f"{line[: width - 1]}…"
