"""The HTTP gateway: clients of any language start, follow, steer and stop tasks. Extra `roboco[gateway]`.

`roboco serve` runs it. `create_app` returns the ASGI application, which a shop can mount in its own. Both names are
imported at their first use, and `__init__.pyi` declares them for type checkers.
"""

import importlib
from typing import Any, Final

_MODULES: Final = {"create_app": "roboco.gateway.app", "GatewaySettings": "roboco.gateway.settings"}


def __getattr__(name: str) -> Any:
    """Import the module of a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(_MODULES)
