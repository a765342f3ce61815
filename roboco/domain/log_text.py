"""log_text: text from models, tools and users, made safe for one line of a log."""

import json
from typing import Final

from roboco.domain.url import without_credentials

READ_MOST: Final = 8192
"""The number of characters of a text that are processed. The rest is dropped first, which bounds the work."""


def log_text(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters, without credentials in URLs.

    Unprintable characters, such as newlines and escape sequences, are escaped as in JSON.
    """
    line = without_credentials(text if len(text) <= READ_MOST else _beginning(text))
    if not line.isprintable():
        line = "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in line)
    return line if len(line) <= most and len(text) <= READ_MOST else f"{line[: most - 1]}…"


def _beginning(text: str) -> str:
    """Return the characters that are processed. A URL across their end is cut before a password in it."""
    head = text[:READ_MOST]
    last = max(map(len, head.split()[-1:]), default=0) if not head[-1].isspace() else 0
    place = head.find("://", len(head) - last)
    return head if place < 0 else head[: place + 3]
