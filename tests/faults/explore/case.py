"""Case: a shape and the disturbances of one schedule, as a line such as "manual 12:hold:1 0:stop:0"."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.faults.explore.shapes import SHAPES

PROCESS_FAULTS = {
    "hold": 24,
    "die": 6,
    "die-late": 6,
    "fail": 3,
    "unanswered": 5,
    "fail-late": 5,
    "twice": 5,
}
"""Disturbances of the process that makes the port call, with their weights."""
ENVIRONMENT_FAULTS = {
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
USER_ACTIONS = {
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
KINDS = PROCESS_FAULTS | ENVIRONMENT_FAULTS | USER_ACTIONS
_SCHEDULING = ("hold", "release", "deliver", "again", "sweep", "pass")
LOSSES = ("wipe", "restart", "back")
"""Disturbances in which Redis is restarted or loses data."""
THEMES = (
    tuple(KINDS),
    ("hold", *USER_ACTIONS),
    ("pause", "resume", "step", "send", "interrupt", "stop"),
    (*PROCESS_FAULTS, *_SCHEDULING, "lose", "copy", "send", "stop"),
    (*_SCHEDULING, *LOSSES, "die", "send", "stop", "pause"),
)
"""Each case uses the kinds of one theme: a few kinds in one schedule find more than all of them in each."""
WRITES = (
    *(f"task_store.{method}" for method in ("create", "record_decision", "commit", "reset_logs", "expire")),
    *(f"files.{method}" for method in ("put", "create", "delete", "copy")),
    *("histories.append", "histories.create", "turns.", "calls.", "inbox.", "dispatcher."),
)
"""Calls that change the state of tasks."""
MAX_CHOICE = 7
_LATER_GAPS = (1, 4, 12, 40)
_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10)
GAP_UNTIL_IDLE = 200
"""A gap that lasts until no process has anything left to do: nothing waits for a disturbance then."""
_FIRST_GAPS = (20, 50, 120)
FOLLOWS = {
    "pause": ("resume", "step"),
    "resume": ("send", "interrupt"),
    "restart": ("sweep",),
    "back": ("sweep",),
    "hold": ("stop", "send", "sweep", "deliver"),
}
"""Kinds that often matter shortly after another one."""


@dataclass(frozen=True)
class Disturbance:
    """After `gap` more port calls, or `writes` only, this happens; `choice` selects among its variants."""

    gap: int
    kind: str
    choice: int = 0
    writes: bool = False

    def __str__(self) -> str:
        return f"{'w' * self.writes}{self.gap}:{self.kind}:{self.choice}"

    @classmethod
    def parse(cls, word: str) -> "Disturbance":
        """Return the disturbance of such a word."""
        gap, kind, choice = word.split(":")
        return cls(int(gap.removeprefix("w")), kind, int(choice), gap.startswith("w"))

    def is_due(self, gap: int, name: str) -> bool:
        """Whether it happens at a call of this port, which counts down the rest of the gap otherwise."""
        return gap <= 0 and self.applies_to(name)

    def applies_to(self, name: str) -> bool:
        """Whether calls of this port count."""
        return not self.writes or name.startswith(WRITES)


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
        return cls(shape, tuple(map(Disturbance.parse, words)))

    @classmethod
    def random(
        cls,
        random: Random,
        shapes: Sequence[str] = tuple(SHAPES),
        without: Sequence[str] = (),
        losses: int | None = None,
    ) -> "Case":
        """Draw a case of one theme: a few disturbances, near each other or far apart, with at most so many losses."""
        theme = [kind for kind in random.choice(THEMES) if kind not in without]
        kinds = _limited(_kinds(random, theme, random.choice(_COUNTS)), losses)
        first, *later = kinds
        disturbances = [
            _disturbance(random, first, _FIRST_GAPS),
            *(_disturbance(random, kind, _LATER_GAPS) for kind in later),
        ]
        return cls(random.choice(shapes), tuple(disturbances))


def _disturbance(random: Random, kind: str, gaps: Sequence[int]) -> Disturbance:
    """Draw the gap among all port calls, or among writes, which are a third of them; users often wait."""
    if kind in USER_ACTIONS and gaps is _LATER_GAPS and random.random() < 0.3:
        return Disturbance(GAP_UNTIL_IDLE, kind, random.randint(0, MAX_CHOICE))
    writes, gap = random.random() < 0.5, random.randrange(random.choice(gaps))
    return Disturbance(gap // 3 if writes else gap, kind, random.randint(0, MAX_CHOICE), writes)


def _kinds(random: Random, theme: Sequence[str], count: int) -> list[str]:
    """Draw kinds by their weights or evenly; often one that makes sense after the kind before it."""
    weights = [1 if random.random() < 0.5 else KINDS[kind] for kind in theme]
    kinds: list[str] = []
    while len(kinds) < count:
        follows = [kind for kind in FOLLOWS.get(kinds[-1], ()) if kind in theme] if kinds else []
        often = bool(follows) and random.random() < 0.6
        kinds += [random.choice(follows)] if often else random.choices(theme, weights)
    return kinds


def _limited(kinds: list[str], losses: int | None) -> list[str]:
    """Return the kinds with the losses beyond so many replaced by sweeps."""
    found = [index for index, kind in enumerate(kinds) if kind in LOSSES]
    beyond = set() if losses is None else set(found[losses:])
    return ["sweep" if index in beyond else kind for index, kind in enumerate(kinds)]
