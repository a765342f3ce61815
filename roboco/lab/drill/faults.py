"""The faults of a drill. Each strikes once, at a named moment of a task, and heals by itself.

`FAULTS` lists them in the order in which a drill runs them. A fault applies only to teams that can reach its moment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from roboco.errors import UsageError
from roboco.lab.drill import strikes
from roboco.lab.drill.scene import INTERRUPTION, Baseline, Moment, Scene, Strike
from roboco.lab.drill.strikes import MID_TURN, at, model_fails, tool_fails, user_acts
from roboco.lab.servers.chat_protocol import ChatReply

INTERRUPTING: Final = "user-interrupts"
Need = Literal["", "calls", "tools", "store", "scripted"]


@dataclass(frozen=True)
class Fault:
    """A fault. `needs` names the condition of its moment: "calls" are tool calls, "tools" calls of stand-ins."""

    name: str
    group: Literal["baseline", "workers", "redis", "store", "model", "tools", "user"]
    text: str
    strike: Callable[[Scene], Strike]
    needs: Need = ""

    def why_not(self, baseline: Baseline) -> str:
        """Return why the fault does not apply to this team, or "" if it does."""
        if self.needs == "tools" and not baseline.tools:
            return "the team called no tool that has a stand-in"
        if self.needs == "calls" and not baseline.calls:
            return "the team called no tool"
        if self.needs == "store" and baseline.without_store:
            return f"the store is a folder here: {baseline.without_store}"
        if self.needs == "scripted" and baseline.real_model:
            return "only the scripted model can be silent in time"
        return ""


_MOMENTS: Final[dict[str, tuple[Moment, Need]]] = {
    "mid-turn": (MID_TURN, ""),
    "commit": (Moment("after a step was stored, before Redis has it", "agents", "commit"), ""),
    "outcome": (Moment("after a tool has run, before Redis has its result", "tools", "record_outcome"), "calls"),
    "running": (Moment("while a tool runs", "tools"), "tools"),
    "next": (Moment("before it reads the task that it has to continue", "coordinator", "load"), ""),
    "results": (Moment("after tool results were stored, before Redis has them", "coordinator", "commit"), "calls"),
}
_SIGNALS: Final = {
    "kill": (strikes.kill_worker, "is killed (SIGKILL)"),
    "stop": (strikes.suspend_worker, "is suspended for longer than its lease (SIGSTOP)"),
    "terminate": (strikes.terminate_worker, "is terminated (SIGTERM)"),
}
_CUT_OFF: Final = ChatReply(text="This reply breaks off in its middle.", break_after=3)
_REFUSED: Final = ChatReply(
    status=429, text="too many requests", code="rate_limit_exceeded", headers={"Retry-After": "1"}
)
_SILENT: Final = ChatReply(text="This reply falls silent.", hang_after=2)
_GARBAGE: Final = ChatReply(text="This reply ends in nonsense.", garbage=b'data: {"choices": [{"delta": \n\n')
_FAILING: Final = ChatReply(status=500, text="internal error")


def _worker_faults() -> Iterator[Fault]:
    for name, (moment, needs) in _MOMENTS.items():
        for verb, (act, text) in _SIGNALS.items():
            named = f"the {moment.pool} worker {text} {moment.text}"
            yield Fault(f"{moment.pool}-{verb}-{name}", "workers", named, at(moment, act), needs)


FAULTS: Final = (
    *_worker_faults(),
    Fault("redis-emptied", "redis", "Redis is emptied in the middle of a turn", at(MID_TURN, strikes.empty_redis)),
    Fault(
        "redis-restarted",
        "redis",
        "Redis is killed and restarted in the middle of a turn",
        at(MID_TURN, strikes.restart_redis),
    ),
    Fault("redis-set-back", "redis", "Redis restarts on its data of an earlier moment", strikes.set_redis_back),
    Fault("store-slow", "store", "each request to the store takes 0.3 s longer", strikes.store_slow, "store"),
    Fault(
        "store-refuses",
        "store",
        "the store refuses everything for 3 s when a step is stored",
        strikes.store_refuses,
        "store",
    ),
    Fault(
        "store-late",
        "store",
        "the store stores a step, and answers after the time-out",
        strikes.store_answers_late,
        "store",
    ),
    Fault("model-cut-off", "model", "the model's connection breaks in the middle of a reply", model_fails(_CUT_OFF)),
    Fault("model-429", "model", "the model's server answers 429", model_fails(_REFUSED)),
    Fault("model-500", "model", "the model's server answers 500", model_fails(_FAILING)),
    Fault("model-silent", "model", "the model falls silent in the middle of a reply", model_fails(_SILENT), "scripted"),
    Fault("model-malformed", "model", "the model's reply ends in nonsense", model_fails(_GARBAGE)),
    Fault("tool-hangs", "tools", "a tool has its effect, and hangs", tool_fails("hang"), "tools"),
    Fault("tool-raises", "tools", "a tool raises an exception", tool_fails("raise"), "tools"),
    Fault("tool-dies", "tools", "a tool has its effect, and its process dies", tool_fails("die"), "tools"),
    Fault(
        INTERRUPTING,
        "user",
        "the user interrupts a turn with a message",
        user_acts("a message interrupted a reply of the model", lambda task: task.interrupt(INTERRUPTION)),
    ),
    Fault(
        "user-stops",
        "user",
        "the user stops the task in the middle of a turn",
        user_acts("the stop was sent during a reply of the model", lambda task: task.stop("stopped by the drill")),
    ),
)


def select(patterns: tuple[str, ...]) -> tuple[Fault, ...]:
    """Return the faults whose name or group matches one of the patterns, all without one.

    Raise UsageError if a pattern matches none.
    """
    for pattern in patterns:
        if not any(_matches(fault, pattern) for fault in FAULTS):
            raise UsageError(f"--only: no fault matches {pattern!r}; `roboco drill --list` lists all")
    return tuple(fault for fault in FAULTS if not patterns or any(_matches(fault, one) for one in patterns))


def _matches(fault: Fault, pattern: str) -> bool:
    return fault.group == pattern or fnmatchcase(fault.name, pattern)
