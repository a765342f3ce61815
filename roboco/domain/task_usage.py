"""TaskUsage: the usage of a task by agent, model, tool and day, as a fold of its history.

    step of an agent            ─► agent, model      turn, tokens, cost
    step of results             ─► agent, tool       calls, cost of the tools, tokens of agents of pydantic-ai
    unfinished replies (either) ─► their agent       tokens, cost (estimates)

Each step counts once, in one task: imported steps and those that a fork has copied count for nothing, and the results
of sub-tasks count as calls only, since each sub-task counts its own steps. A day is that of the step's time, in UTC.
Costs are whole billionths, so that a sum does not depend on the order of its parts.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import ValidationError

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.step import LIMIT, TOOL_EXECUTOR, TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.schema import RecordModel
from roboco.domain.usage import UNFINISHED_USAGE, Usage, billionths, day_of, tool_usage_of, unfinished_usage, usage_of

MAX_MODEL_CHARS: Final = 200
"""Characters of a model's name, which its server reports."""


class UsageCell(RecordModel):
    """The usage of an agent, with a model or a tool, on a day."""

    agent: str
    """The agent; for a tool, the agent that called it."""
    model: str = ""
    """The model, or "" for a tool and for replies without a known model."""
    tool: str = ""
    """The tool, or "" for a model."""
    day: str
    """The day in UTC: YYYY-MM-DD."""
    turns: int = 0
    """Turns of the agent."""
    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 0
    """Tool calls that were run."""
    cost_billionths: int = 0
    """Billionths of the currency of the prices."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Return the agent, model, tool and day."""
        return self.agent, self.model, self.tool, self.day

    def plus(self, more: "UsageCell") -> "UsageCell":
        """Return the sum of both, at the place of this one."""
        return self.model_copy(
            update={
                "turns": self.turns + more.turns,
                "tokens_in": self.tokens_in + more.tokens_in,
                "tokens_out": self.tokens_out + more.tokens_out,
                "calls": self.calls + more.calls,
                "cost_billionths": self.cost_billionths + more.cost_billionths,
            }
        )


class TaskUsage(RecordModel):
    """The usage of a task after some steps of its history."""

    task_id: str
    steps: int = 0
    """The number of steps that are counted, from the first one."""
    last_digest: str = ""
    """The digest of the last of them."""
    last_agent: str = ""
    """The agent of the newest step by an agent: it has made the next calls."""
    cells: tuple[UsageCell, ...] = ()
    """At most one of each place, sorted."""

    def after(self, steps: Iterable[TaskStep]) -> "TaskUsage":
        """Return the usage after the next steps."""
        cells = {cell.place: cell for cell in self.cells}
        count, digest, agent = self.steps, self.last_digest, self.last_agent
        for step in steps:
            count, digest = count + 1, step.digest
            agent = step.agent_name if step.by_agent else agent
            for cell in step_usage(self.task_id, step, agent):
                cells[cell.place] = cells[cell.place].plus(cell) if cell.place in cells else cell
        return TaskUsage(
            task_id=self.task_id,
            steps=count,
            last_digest=digest,
            last_agent=agent,
            cells=tuple(cells[place] for place in sorted(cells)),
        )


def parse_task_usage(data: bytes) -> TaskUsage | None:
    """Return the usage, or None if the bytes are not one, as a full disk or a restore may leave them."""
    try:
        return TaskUsage.model_validate_json(data)
    except ValidationError:
        return None


def step_usage(task_id: str, step: TaskStep, caller: str) -> Iterator[UsageCell]:
    """Yield the usage of a step. `caller` is the agent of the newest step by an agent, up to this one."""
    if step.is_imported or step.step_id != step_id_at(task_id, step.seq):  # a fork has copied it
        return
    day = day_of(step.created_at)
    if step.agent_name == TOOL_EXECUTOR:
        yield from _tools(step, caller, day)
    else:
        yield from _turn(step, day)
    if (broken := unfinished_usage(step.metadata)).tokens:
        agent = str(step.metadata[UNFINISHED_USAGE].get("agent") or caller)
        yield _cell(UsageCell(agent=agent, day=day), broken)


def _turn(step: TaskStep, day: str) -> Iterator[UsageCell]:
    """Yield the usage of a turn's replies and summaries. A turn that a limit has ended is a step of no agent."""
    reported = {"usage": step.metadata.get("usage")}
    used = usage_of(reported)
    if step.by_agent:
        model = step.metadata.get("model")
        name = model[:MAX_MODEL_CHARS] if isinstance(model, str) else ""
        yield _cell(UsageCell(agent=step.agent_name, model=name, day=day, turns=not step.begins_function), used)
    elif used.tokens or used.cost:
        yield _cell(UsageCell(agent=str(step.metadata.get(LIMIT) or step.agent_name), day=day), used)


def _tools(step: TaskStep, caller: str, day: str) -> Iterator[UsageCell]:
    for name, used in tool_usage_of(step.metadata).items():
        own = Usage() if name == DELEGATE else used  # the sub-tasks count their own usage
        is_turn = name == caller and step.answers_function
        place = (
            UsageCell(agent=caller, day=day)
            if is_turn
            else UsageCell(agent=caller, tool=name, day=day, calls=used.calls)
        )
        yield _cell(place, own)


def _cell(place: UsageCell, used: Usage) -> UsageCell:
    counted = {"tokens_in": used.tokens_in, "tokens_out": used.tokens_out, "cost_billionths": billionths(used.cost)}
    return place.model_copy(update=counted)
