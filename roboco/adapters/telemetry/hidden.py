"""Hidden: texts without the secrets of this process's environment."""

import re
from collections.abc import Mapping

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|HEADERS)$", re.IGNORECASE)
"""Names of variables whose values are secret."""
_SHORTEST = 6
"""Characters of a secret at least: a shorter one would be found in words that are none."""
_IN_URL = re.compile(r"(?<=://)([^\s/:@'\"]*):([^\s/@'\"]+)@")
_MASK = "***"


class Hidden:
    """Replaces values of variables that are secret by their name, or are named as secrets, and passwords in URLs."""

    def __init__(self, environment: Mapping[str, str], variables: tuple[str, ...] = ()) -> None:
        values = {value for name, value in environment.items() if _SECRET.search(name) or name in variables}
        longest_first = sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text without them."""
        text = _IN_URL.sub(rf"\1:{_MASK}@", text) if "://" in text else text
        return text if self._values is None else self._values.sub(_MASK, text)
