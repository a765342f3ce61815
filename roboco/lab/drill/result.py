"""DrillResult: what a drill has shown, for its report and its JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from roboco.lab.drill.promises import PROMISES
from roboco.lab.drill.weaknesses import Weakness

FaultOutcome = Literal["held", "broken", "not hit", "does not apply", "not run"]


@dataclass(frozen=True)
class FaultResult:
    """Effect of a fault. An outcome "held" means that it struck, and that each promise it concerns was kept."""

    name: str
    group: str
    text: str
    outcome: FaultOutcome
    why: str = ""
    """Why it was not hit, does not apply, or was not run."""
    hit: str = ""
    """The process or server that was struck."""
    status: str = ""
    seconds: float = 0.0
    effects: Sequence[str] = ()
    """The effect of the fault on the task, in words."""
    executions: dict[str, int] = field(default_factory=dict)
    """How often each irreversible tool ran."""
    irreversible_calls: dict[str, int] = field(default_factory=dict)
    """How many calls of each irreversible tool there were."""
    repeated: dict[str, int] = field(default_factory=dict)
    """How many calls of each other tool ran more than once."""
    broken: Sequence[str] = ()
    """The broken promises, each with what is wrong."""
    promises: dict[str, bool] = field(default_factory=dict)
    """For each promise that was checked, whether it was kept."""
    tasks: Sequence[str] = ()


@dataclass
class DrillResult:
    """All of a drill. `interrupted` is True if a signal ended it before its time."""

    team: str
    seed: int
    model: str
    stand_ins: list[str] = field(default_factory=list)
    real_tools: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[FaultResult] = field(default_factory=list)
    weaknesses: list[Weakness] = field(default_factory=list)
    interrupted: bool = False
    error: str = ""
    """Why the drill ended before its time, or ""."""
    seconds: float = 0.0

    def count(self, outcome: FaultOutcome) -> int:
        """Return the number of faults with this outcome."""
        return sum(fault.outcome == outcome for fault in self.faults)

    @property
    def struck(self) -> int:
        """The number of faults that struck."""
        return sum(bool(fault.hit) for fault in self.faults)

    @property
    def applicable(self) -> int:
        """The number of faults that the team can meet."""
        return sum(fault.outcome != "does not apply" and fault.group != "baseline" for fault in self.faults)

    @property
    def unchecked(self) -> list[str]:
        """The promises that no run has checked."""
        return [name for name, (_, checked) in self.promises().items() if not checked]

    def promises(self) -> dict[str, tuple[int, int]]:
        """Return for each promise in how many runs it was kept, and in how many it was checked."""
        judged = {name: [fault.promises[name] for fault in self.faults if name in fault.promises] for name in PROMISES}
        return {name: (sum(kept), len(kept)) for name, kept in judged.items()}

    def failed(self, strict: bool) -> bool:
        """Return True if the exit code is not 0: a promise is broken, or no fault struck at all.

        With `strict` also if there is a weakness, or a fault that did not strike.
        """
        incomplete = self.count("not hit") + self.count("not run")
        if self.error or self.count("broken") or not self.struck:
            return True
        return strict and bool(self.weaknesses or incomplete)

    def record(self, strict: bool) -> dict[str, Any]:
        """Return the result as JSON."""
        promises = {
            name: {"text": PROMISES[name], "held": kept, "checked": checked}
            for name, (kept, checked) in self.promises().items()
        }
        return asdict(self) | {"promises": promises, "failed": self.failed(strict)}
