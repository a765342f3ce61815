"""credential_mask: texts without the credentials of a tenant.

value ─► the value, its long lines, the part after "Bearer " ─► each as it is, and as repr and JSON escape it ─► "***"
         the value, the part after "Bearer " ─► as base64, also within other bytes, and as URLs escape it       ─► "***"
"""

import json
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Set
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, quote_plus

MAX_VALUES: Final = 16
"""Values of a tenant that are masked although no call gets them any more; the oldest are forgotten first."""
MAX_LINES: Final = 64
"""Lines of a value that are masked alone."""
_MIN_CHARS = 6
"""Characters of a value from which on it is masked: a shorter one would be part of ordinary words."""
_MIN_LINE_CHARS = 16
"""Characters of a line from which on it is masked alone: the lines of keys are longer."""
_MASK = "***"
_AFTER_SCHEME = re.compile(r"[A-Za-z][\w-]* +(\S+)")


class CredentialMask:
    """Replaces the values of one tenant. `mask` removes the other secrets of the process.

    The values that occur in a text are found first, each in one fast search, so that most of a text is not copied.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self._mask = mask
        self._seen: OrderedDict[str, tuple[tuple[str, str], ...]] = OrderedDict()
        self._texts: tuple[tuple[str, str], ...] = ()
        """The masked texts, longest first, each with its form in JSON."""

    def remember(self, value: str, served: Set[str]) -> None:
        """Mask the value from now on. Forget the oldest ones that are not `served`. Not for two threads at a time."""
        if value in self._seen:
            self._seen.move_to_end(value)
            return
        self._seen[value] = tuple((text, _json_form(text)) for text in secret_texts(value))
        former = [old for old in self._seen if old not in served and old != value]
        for old in former[: max(0, len(former) - MAX_VALUES)]:
            del self._seen[old]
        texts = {pair for known in self._seen.values() for pair in known}
        self._texts = tuple(sorted(texts, key=lambda pair: (-len(pair[0]), pair)))

    def __call__(self, text: str) -> str:
        """Return the text with "***" in place of the secrets."""
        return self._replaced(text, [secret for secret, _ in self._texts if secret in text])

    def mask_json(self, value: Any) -> Any:
        """Return the JSON value with all of its texts masked. Keys that become equal get more asterisks."""
        whole = json.dumps(value, ensure_ascii=False) if self._texts else ""
        return self._masked(value, [secret for secret, form in self._texts if form in whole])

    def mask_bytes(self, data: bytes) -> bytes:
        """Return the bytes with "***" in place of the tenant's values."""
        for secret, _ in self._texts:
            data = data.replace(secret.encode(errors="replace"), _MASK.encode())
        return data

    def _masked(self, value: Any, found: list[str]) -> Any:
        match value:
            case str():
                return self._replaced(value, found)
            case list():
                return [self._masked(one, found) for one in value]
            case dict():
                masked: dict[str, Any] = {}
                for name, one in value.items():
                    key = self._replaced(name, found)
                    while key in masked:
                        key += "*"
                    masked[key] = self._masked(one, found)
                return masked
            case _:
                return value

    def _replaced(self, text: str, found: list[str]) -> str:
        for secret in found:
            text = text.replace(secret, _MASK)
        return self._mask(text)


def secret_texts(value: str) -> tuple[str, ...]:
    """Return the texts by which the value may appear, each of six characters or more."""
    value = value.strip()
    lines = islice((line for line in value.splitlines() if len(line) >= _MIN_LINE_CHARS), MAX_LINES)
    found = _AFTER_SCHEME.fullmatch(value)
    whole = [text for text in (value, found[1] if found else "") if len(text) >= _MIN_CHARS]
    forms = (
        *(form for text in (*whole, *lines) for form in _forms(text)),
        *(form for text in whole for form in _encoded(text)),
    )
    return tuple(dict.fromkeys(forms))


def _encoded(text: str) -> Iterator[str]:
    """Yield the text as URLs have it, and as base64 has it in other bytes, without the digits that depend on those."""
    yield from (quote(text, safe=""), quote(text), quote_plus(text))
    data = text.encode(errors="replace")
    for before in range(3):
        packed = b64encode(bytes(before) + data).decode()[-(-before * 4 // 3) : (before + len(data)) * 4 // 3]
        yield from (packed, packed.translate({ord("+"): "-", ord("/"): "_"}))


def _forms(text: str) -> Iterator[str]:
    """Yield the text as it is, and as repr and JSON escape it. repr escapes an apostrophe only beside a quote."""
    yield text
    escaped = repr(f"{text}'\"")[1:-4]
    yield escaped
    yield escaped.replace("\\'", "'")
    yield _json_form(text)
    yield json.dumps(text)[1:-1]


def _json_form(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
