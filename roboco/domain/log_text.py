"""log_text: text from models, tools and users, made safe for one line of a log."""

import json
from typing import Final

from roboco.domain.url import strip_credentials

MAX_PROCESSED_CHARS: Final = 8192
"""The number of characters of a text that are processed. The rest is dropped first, which bounds the work."""


def log_text(text: str, max_chars: int) -> str:
    """Return the text on one line of at most `max_chars` characters, without credentials in URLs.

    Unprintable characters, such as newlines and escape sequences, are escaped as in JSON.
    """
    line = strip_credentials(text if len(text) <= MAX_PROCESSED_CHARS else _processed_part(text))
    if not line.isprintable():
        line = "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in line)
    return line if len(line) <= max_chars and len(text) <= MAX_PROCESSED_CHARS else f"{line[: max_chars - 1]}…"


def _processed_part(text: str) -> str:
    """Return the characters that are processed. A URL across their end is cut before a password in it."""
    head = text[:MAX_PROCESSED_CHARS]
    last = max(map(len, head.split()[-1:]), default=0) if not head[-1].isspace() else 0
    place = head.find("://", len(head) - last)
    return head if place < 0 else head[: place + 3]
