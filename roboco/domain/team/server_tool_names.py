"""server_tool_names: the names of an MCP server's tools that models accept.

A server may call a tool `files.read`, or use 128 characters. Models accept 64 letters, digits, `_` and `-`, with the
prefix of the server. Each tool has a short name for that: its own name if it is possible, else one without the
other characters, cut to the remaining length. Two tools never share one.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

MAX_NAME_CHARS = 64
"""The largest number of characters of a tool's name in the chat completions protocol."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OTHER_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8


def is_plain(name: str) -> bool:
    """Return True if models accept the name of a tool."""
    return _PLAIN.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def short_names(prefix: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the short name of each tool by the server's own name. A tool without a possible one is missing.

    A short name that two tools want belongs to the tool whose own name it is. Any other gets a digest at its end.
    """
    wanted = {name: _shortened(prefix, name) for name in names}
    count = Counter(wanted.values())
    found: dict[str, str] = {name: short for name, short in wanted.items() if name == short}
    for name, short in wanted.items():
        unique = short if count[short] == 1 else _with_digest(prefix, name)
        if name != short and unique not in found.values():
            found[name] = unique
    return MappingProxyType({name: short for name, short in found.items() if is_plain(prefix + short)})


@lru_cache(maxsize=1024)
def names_by_short_name(prefix: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the server's own name of each tool by its short name."""
    return MappingProxyType({short: name for name, short in short_names(prefix, names).items()})


def _shortened(prefix: str, name: str) -> str:
    short = _OTHER_CHARS.sub("_", name)
    if not prefix and not is_plain(short[:1]):
        short = f"_{short}"
    return short if len(prefix + short) <= MAX_NAME_CHARS else _with_digest(prefix, name)


def _with_digest(prefix: str, name: str) -> str:
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
    room = MAX_NAME_CHARS - len(prefix) - _DIGEST_CHARS - 1
    return f"{_OTHER_CHARS.sub('_', name)[: max(room, 0)]}_{digest}"
