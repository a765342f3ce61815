"""The state of a task that its tools, clients and agents share: named values, folded from the history.

Each step may change some of them, under `state` in its metadata. The last writer of a name counts, and null removes it.
"""

from collections.abc import Mapping
from typing import Any, Final

from roboco.domain.canonical_json import json_bytes, validated_json

STATE: Final = "state"
"""The metadata key of a step for the values that it changes."""
MAX_STATE_BYTES: Final = 32 * 1024
"""The largest state of a task, in bytes of its JSON."""


def changed_state(values: Mapping[str, Any], changes: object) -> dict[str, Any]:
    """Return the values after these changes. Changes that would make them too large are left out as a whole."""
    if not isinstance(changes, dict) or not changes:
        return dict(values)
    changed = {name: value for name, value in (dict(values) | changes).items() if value is not None}
    return changed if json_bytes(changed) <= MAX_STATE_BYTES else dict(values)


def checked_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes as JSON. Raise ValueError if they are none, or make the state too large."""
    checked: dict[str, Any] = validated_json(dict(changes))
    if (size := json_bytes(dict(values) | checked)) > MAX_STATE_BYTES:
        raise ValueError(f"state: has {size} bytes of JSON with this change, at most {MAX_STATE_BYTES} are possible")
    return checked
