"""Redaction: removes the secrets of this process's environment from texts."""

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"(KEYS?|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS|HEADERS|AUTH)$", re.IGNORECASE
)
"""Names of environment variables whose values are secret."""
_SEPARATOR = re.compile(r"\s*,\s*")
_NAME_PREFIX = re.compile(r"^[A-Za-z0-9_.@-]+[:=]\s*")
"""The name before a secret in a value such as `authorization=...` or `user:...`."""
_MIN_SECRET_CHARS = 6
"""Characters of a secret at least: shorter ones would also match ordinary words."""
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/:@'\"]*):([^\s/@'\"]+)@")
_MASK = "***"


class Redactor:
    """Masks the values of secret environment variables, and passwords in URLs.

    A variable is secret by its name, or because `variables` lists it. Each value of a comma-separated list is masked,
    and of a value such as `authorization=...` also the part after its name.
    """

    def __init__(self, environment: Mapping[str, str], variables: tuple[str, ...] = ()) -> None:
        whole = {value for name, value in environment.items() if _SECRET_NAME.search(name) or name in variables}
        values = whole | {_NAME_PREFIX.sub("", one) for value in whole for one in _SEPARATOR.split(value)}
        longest_first = sorted((value for value in values if len(value) >= _MIN_SECRET_CHARS), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return the text with its secrets masked."""
        text = _URL_PASSWORD.sub(rf"\1:{_MASK}@", text) if "://" in text else text
        return text if self._values is None else self._values.sub(_MASK, text)
