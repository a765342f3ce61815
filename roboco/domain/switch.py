"""switch: what an operator has switched off, as data. `Switches` finds the switch that holds a turn or call back."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from roboco.domain.canonical_json import well_formed
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.errors import UsageError

MAX_SWITCHES: Final = 200
"""Things that are switched off at the same time at most."""
MAX_NAME_CHARS: Final = 160
"""Characters of the name of such a thing at most."""
MAX_REASON_CHARS: Final = 300
"""Characters of the reason at most."""
QUEUES: Final = ("agents", "tools")
"""The queues that can be switched off. Controls, such as a stop, pass through the third one."""

SWITCHED_OFF: Final = " is switched off: "
"""A part of the reason of each task whose work waits because it is switched off."""


class SwitchKind(StrEnum):
    """The kind of a thing that can be switched off."""

    QUEUE = "queue"
    TENANT = "tenant"
    TEAM = "team"
    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"


@dataclass(frozen=True)
class SwitchableWork:
    """The names of a turn or tool call by which it can be switched off."""

    queue: str
    tenant: str
    """The tenant of the task, or ""."""
    team: str
    agent: str
    models: tuple[str, ...] = ()
    """The models that a turn may call."""
    tool: str = ""
    """The tool of a call."""

    def targets(self) -> Iterator[str]:
        """Yield the targets that switch it off. An agent has two: its name in any team, and in its own."""
        yield f"{SwitchKind.QUEUE}:{self.queue}"
        yield f"{SwitchKind.TENANT}:{self.tenant}"
        yield f"{SwitchKind.TEAM}:{self.team}"
        yield f"{SwitchKind.AGENT}:{self.agent}"
        yield f"{SwitchKind.AGENT}:{self.team}/{self.agent}"
        for model in self.models:
            yield f"{SwitchKind.MODEL}:{model}"
        if self.tool:
            yield f"{SwitchKind.TOOL}:{self.tool}"


class Switch(RecordModel):
    """A thing that an operator has switched off."""

    target: str
    """Its kind and name, such as `model:gpt-4o`. `agent:TEAM/NAME` is the agent of one team, `agent:NAME` of all."""
    reason: str
    since: datetime
    interrupt: bool = False
    """True if running turns and calls of it are interrupted. Calls of irreversible tools end by themselves."""
    by: RecordedCaller = None
    """The caller that switched it off, if a gateway named one."""

    @property
    def cause(self) -> str:
        """Why its turns and calls wait, for people."""
        return f"{self.target}{SWITCHED_OFF}{self.reason}"


class Switches(RecordModel):
    """All things that are switched off."""

    revision: int = 0
    """A number that each change increases. A higher one replaces a lower one."""
    off: tuple[Switch, ...] = ()

    def blocking(self, work: SwitchableWork, interrupting: bool = False) -> Switch | None:
        """Return a switch that holds the work back, or with `interrupting` one that interrupts it. None if none does.

        Cost: O(targets of the work), however many switches there are.
        """
        found = (self._by_target.get(target) for target in work.targets()) if self.off else ()
        return next((switch for switch in found if switch and (switch.interrupt or not interrupting)), None)

    def with_off(self, switch: Switch, revision: int) -> "Switches":
        """Return the switches with this one, in place of an earlier one of its target. UsageError if it is too many."""
        others = self._without(switch.target)
        if len(others) >= MAX_SWITCHES:
            raise UsageError(
                f"{len(others)} things are switched off already, which is the most; switch one on, or a team or queue "
                "off in place of many"
            )
        return Switches(revision=revision, off=(*others, switch))

    def with_on(self, target: str, revision: int) -> "Switches":
        """Return the switches without the one of this target."""
        return Switches(revision=revision, off=self._without(target))

    def find(self, target: str) -> Switch | None:
        """Return the switch of this target, or None if it is not switched off."""
        return self._by_target.get(target)

    @cached_property
    def _by_target(self) -> dict[str, Switch]:
        return {switch.target: switch for switch in self.off}

    def _without(self, target: str) -> tuple[Switch, ...]:
        return tuple(switch for switch in self.off if switch.target != target)


def check_target(text: str) -> str:
    """Return the target in its normal form. UsageError if it is not KIND:NAME with a known kind.

    The name is not looked up: a model or tool may be switched off before a team that uses it exists.
    """
    kind, _, name = text.partition(":")
    kinds = ", ".join(SwitchKind)
    if kind not in list(SwitchKind) or not name:
        raise UsageError(f"{text[:80]!r} is nothing that can be switched: write KIND:NAME, with a kind of {kinds}")
    if len(name) > MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
        raise UsageError(f"the name in {text[:80]!r} must be 1 to {MAX_NAME_CHARS} printable characters")
    if kind == SwitchKind.QUEUE:
        name = name.removeprefix("roboco.")
        if name not in QUEUES:
            raise UsageError(
                f"queue {name[:80]!r} cannot be switched off; possible are {' and '.join(QUEUES)}: a stop, and each "
                "other control, passes through the queue of the coordinators"
            )
    return f"{kind}:{name}"


def check_reason(text: str) -> str:
    """Return the reason on one line. UsageError if it is empty or too long."""
    reason = " ".join(well_formed(text).split())
    if not reason or len(reason) > MAX_REASON_CHARS or not reason.isprintable():
        raise UsageError(f"reason: must be 1 to {MAX_REASON_CHARS} printable characters (found {len(reason)})")
    return reason
