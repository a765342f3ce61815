"""Case: a shape and the disturbances of one schedule, as a line such as "manual 12:hold:1 0:stop:0"."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.faults.explore.shapes import SHAPES

PROCESS = {
    "hold": 24,
    "die": 6,
    "die-late": 6,
    "fail": 3,
    "unanswered": 5,
    "fail-late": 5,
    "twice": 5,
}
"""Disturbances of the process that makes the port call, with their weights."""
AROUND = {
    "release": 6,
    "deliver": 10,
    "again": 3,
    "lose": 3,
    "copy": 3,
    "sweep": 8,
    "pass": 3,
    "beat": 1,
    "deaf": 1,
    "wipe": 4,
    "restart": 4,
    "back": 4,
}
"""Disturbances by other workers, the broker, time and Redis."""
USERS = {
    "send": 8,
    "interrupt": 4,
    "stop": 6,
    "pause": 5,
    "resume": 6,
    "step": 3,
    "approve": 3,
    "deny": 1,
    "answer": 4,
    "raise": 2,
    "fork": 1,
    "submit": 1,
}
"""Actions of users."""
KINDS = PROCESS | AROUND | USERS
_SCHEDULING = ("hold", "release", "deliver", "again", "sweep", "pass")
_LOSSES = ("wipe", "restart", "back")
THEMES = (
    tuple(KINDS),
    ("hold", *USERS),
    (*PROCESS, *_SCHEDULING, "lose", "copy", "send", "stop"),
    (*_SCHEDULING, *_LOSSES, "die", "send", "stop", "pause"),
)
"""Each case uses the kinds of one theme: a few kinds in one schedule find more than all of them in each."""
LARGEST = 7
_SPREADS = (1, 4, 12, 40)


@dataclass(frozen=True)
class Disturbance:
    """After `gap` more port calls this happens; `choice` selects among its variants."""

    gap: int
    kind: str
    choice: int = 0

    def __str__(self) -> str:
        return f"{self.gap}:{self.kind}:{self.choice}"


@dataclass(frozen=True)
class Case:
    """One schedule."""

    shape: str
    disturbances: tuple[Disturbance, ...]

    def __str__(self) -> str:
        return " ".join([self.shape, *map(str, self.disturbances)])

    @classmethod
    def parse(cls, line: str) -> "Case":
        """Return the case of such a line."""
        shape, *words = line.split()
        parts = (word.split(":") for word in words)
        return cls(shape, tuple(Disturbance(int(gap), kind, int(choice)) for gap, kind, choice in parts))

    @classmethod
    def random(cls, random: Random, shapes: Sequence[str] = tuple(SHAPES), without: Sequence[str] = ()) -> "Case":
        """Draw a case of one theme: a few disturbances, near each other or far apart."""
        count = random.randint(1, 10)
        theme = [kind for kind in random.choice(THEMES) if kind not in without]
        evenly = random.random() < 0.5
        kinds = random.choices(theme, [1 if evenly else KINDS[kind] for kind in theme], k=count)
        gaps = [random.randrange(120), *(random.randrange(random.choice(_SPREADS)) for _ in range(count - 1))]
        pairs = zip(gaps, kinds, strict=True)
        return cls(
            random.choice(shapes),
            tuple(Disturbance(gap, kind, random.randint(0, LARGEST)) for gap, kind in pairs),
        )
