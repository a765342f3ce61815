"""A case: a shape and the disturbances of one schedule, as a line such as "manual 12:hold:1 0:stop:0"."""

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
    "drain": 3,
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
    "refuse": 2,
    "stale": 2,
    "retain": 2,
}
"""Disturbances by other workers, the broker, time, Redis and the store."""
USER_ACTIONS = {
    "send": 8,
    "interrupt": 4,
    "halt": 4,
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
    "retry": 3,
    "erase": 2,
    "off": 2,
    "on": 2,
    "bulk": 2,
    "export": 1,
}
"""Actions of users."""
KINDS = PROCESS_FAULTS | ENVIRONMENT_FAULTS | USER_ACTIONS
_SCHEDULING = ("hold", "release", "deliver", "again", "sweep", "pass")
LOSSES = ("wipe", "restart", "back")
"""Disturbances in which Redis is restarted or loses data."""
THEMES = (
    tuple(KINDS),
    ("hold", *USER_ACTIONS),
    ("pause", "resume", "step", "send", "interrupt", "halt", "stop"),
    (*PROCESS_FAULTS, *_SCHEDULING, "lose", "copy", "send", "stop"),
    (*_SCHEDULING, *LOSSES, "die", "send", "stop", "pause"),
    (*_SCHEDULING, "die", "die-late", "wipe", "refuse", "stale", "retry", "erase", "send", "stop"),
    (*_SCHEDULING, "die", "wipe", "drain", "off", "on", "bulk", "send", "stop"),
    (*_SCHEDULING, "die", "wipe", "refuse", "retry", "erase", "retain", "export", "stop"),
)
"""Each case uses the kinds of one theme: a few kinds in one schedule find more than all of them in each."""
WRITES = (
    *(f"task_store.{method}" for method in ("create", "record_decision", "commit", "reset_logs", "expire")),
    *(f"task_store.{method}" for method in ("add_items", "remove_item", "clear_cancellation")),
    *(f"files.{method}" for method in ("put", "create", "delete", "copy")),
    *("histories.append", "histories.create", "dispatcher."),
    *(
        f"leases.{work}"
        for work in (
            "claim",
            "emit",
            "renew",
            "cancel",
            "defer",
            "release",
            "restart",
            "count_redelivery",
            "record",
            "end",
        )
    ),
)
"""Calls that change the state of tasks."""
MAX_CHOICE = 7
_LATER_GAPS = (1, 4, 12, 40)
_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10)
GAP_UNTIL_IDLE = 200
"""A gap that lasts until all processes are idle."""
_FIRST_GAPS = (20, 50, 120)
FOLLOWS = {
    "pause": ("resume", "step"),
    "resume": ("send", "interrupt"),
    "halt": ("send", "resume"),
    "restart": ("sweep",),
    "back": ("sweep",),
    "off": ("on", "stop"),
    "refuse": ("refuse", "sweep"),
    "retry": ("send", "erase", "stop"),
    "retain": ("retain", "sweep"),
    "bulk": ("bulk", "stop", "sweep"),
    "stale": ("wipe", "send", "stop"),
    "hold": ("stop", "halt", "send", "sweep", "deliver"),
}
"""Kinds that often matter shortly after another one."""


UNCOUNTED_CALLS = ("task_index.", "rates.count_day", "rates.reserve_for_caller")
"""The beginnings of names of port calls that no decision about a step reads."""


@dataclass(frozen=True)
class Disturbance:
    """A disturbance after `gap` more port calls, or writes if `writes` is set. `choice` selects among its variants."""

    gap: int
    kind: str
    choice: int = 0
    writes: bool = False

    def __str__(self) -> str:
        return f"{'w' * self.writes}{self.gap}:{self.kind}:{self.choice}"

    @classmethod
    def parse(cls, word: str) -> "Disturbance":
        """Return the disturbance that a word of a line describes."""
        gap, kind, choice = word.split(":")
        return cls(int(gap.removeprefix("w")), kind, int(choice), gap.startswith("w"))

    def is_due(self, gap: int, name: str) -> bool:
        """Return True if the disturbance happens at a call with this name, when `gap` calls are left."""
        return gap <= 0 and self.applies_to(name)

    def applies_to(self, name: str) -> bool:
        """Return True if calls with this name count down the gap.

        Those of the task index and of budgets do not, so that recorded cases keep their meaning.
        """
        return not name.startswith(UNCOUNTED_CALLS) and (not self.writes or name.startswith(WRITES))


@dataclass(frozen=True)
class Case:
    """One schedule."""

    shape: str
    disturbances: tuple[Disturbance, ...]

    def __str__(self) -> str:
        return " ".join([self.shape, *map(str, self.disturbances)])

    @classmethod
    def parse(cls, line: str) -> "Case":
        """Return the case that a line describes."""
        shape, *words = line.split()
        return cls(shape, tuple(map(Disturbance.parse, words)))

    @classmethod
    def random(
        cls,
        random: Random,
        shapes: Sequence[str] = tuple(SHAPES),
        without: Sequence[str] = (),
    ) -> "Case":
        """Return a random case of one theme: a few disturbances, near or far apart."""
        theme = [kind for kind in random.choice(THEMES) if kind not in without]
        first, *later = _kinds(random, theme, random.choice(_COUNTS))
        disturbances = [
            _disturbance(random, first, _FIRST_GAPS),
            *(_disturbance(random, kind, _LATER_GAPS) for kind in later),
        ]
        return cls(random.choice(shapes), tuple(disturbances))


def _disturbance(random: Random, kind: str, gaps: Sequence[int]) -> Disturbance:
    """Return a disturbance after a random gap of port calls, or of writes, a third of the calls. Users often wait."""
    if kind in USER_ACTIONS and gaps is _LATER_GAPS and random.random() < 0.3:
        return Disturbance(GAP_UNTIL_IDLE, kind, random.randint(0, MAX_CHOICE))
    writes, gap = random.random() < 0.5, random.randrange(random.choice(gaps))
    return Disturbance(gap // 3 if writes else gap, kind, random.randint(0, MAX_CHOICE), writes)


def _kinds(random: Random, theme: Sequence[str], count: int) -> list[str]:
    """Return random kinds, weighted or evenly drawn; often one that FOLLOWS lists for the previous kind."""
    weights = [1 if random.random() < 0.5 else KINDS[kind] for kind in theme]
    kinds: list[str] = []
    while len(kinds) < count:
        follows = [kind for kind in FOLLOWS.get(kinds[-1], ()) if kind in theme] if kinds else []
        often = bool(follows) and random.random() < 0.6
        kinds += [random.choice(follows)] if often else random.choices(theme, weights)
    return kinds
