"""RunRecord: what one run has left, for the judgement and the report."""

from dataclasses import dataclass, field

from roboco.lab.drill.promises import ObservedRun
from roboco.lab.drill.scene import Scene


@dataclass
class RunRecord:
    """A run, for the judgement and the report."""

    observed: ObservedRun
    scene: Scene
    seconds: float
    pause_seconds: float = 0.0
    """The longest time after the strike in which a live reader received nothing."""
    restarts: int = 0
    """Turns that were begun again."""
    unknown: int = 0
    """Tool calls whose outcome remained unknown."""
    resets: int = 0
    """Times at which the streams began again, after a loss of Redis."""
    prompts: dict[str, bool] = field(default_factory=dict)
    """For each agent that acted after an interruption, whether its first prompt held the user's message."""
    dead_letters: int = 0
