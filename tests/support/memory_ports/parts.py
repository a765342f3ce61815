"""An engine with other parts."""

from dataclasses import fields, replace
from typing import Any

from roboco.engine.engine import Engine

GROUPS = ("tasks", "workspace", "services", "process")


def with_parts(engine: Engine, **parts: Any) -> Engine:
    """Return the engine with these parts, by name, in whichever groups they are."""
    changed: dict[str, Any] = {}
    for group in GROUPS:
        whole = getattr(engine, group)
        own = {one.name: parts.pop(one.name) for one in fields(whole) if one.name in parts}
        if own:
            changed[group] = replace(whole, **own)
    return replace(engine, **changed, **parts)
