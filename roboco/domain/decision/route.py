"""Route: the next agent of a task, as a router has chosen it."""

from dataclasses import asdict, dataclass
from typing import Any

WORKER_LOST_RULE = "worker_lost"
"""The rule of a route to no agent, of a router whose workers were lost."""


@dataclass(frozen=True)
class Route:
    """The next agent, "USER" or "END", with the rule that chose it and the candidates."""

    to: str
    router: str
    rule: str
    reason: str
    candidates: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the route as JSON for a step's `metadata.routing`."""
        return asdict(self) | {"candidates": list(self.candidates)}
