"""log_text: text from models, tools and users, made safe for one line of a log."""

import json
from typing import Final

from roboco.domain.url import without_credentials

READ_MOST: Final = 8192
"""Characters of a text that are read; the rest is cut off before any work on it."""


def log_text(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters, without credentials of addresses.

    Characters that do not show, such as newlines and escape sequences, are written as in JSON.
    """
    line = without_credentials(text[:READ_MOST])
    if not line.isprintable():
        line = "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in line)
    return line if len(line) <= most and len(text) <= READ_MOST else f"{line[: most - 1]}…"
