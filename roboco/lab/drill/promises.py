"""promises: what a run has shown of each promise of `docs/design.md`. Pure: it judges records, doctored ones too."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.team.context_policy import BudgetContext, RecentContext, SummaryContext
from roboco.domain.team.team import Agent, Team
from roboco.lab.drill.executions import Execution
from roboco.lab.transcript import Transcript

PROMISES: Final = {
    "P1": "no step is lost, and none is committed twice",
    "P2": "the task reaches an end or a named waiting state",
    "P3": "the workspace alone is enough: no committed step is lost with Redis",
    "P4": "no irreversible tool call runs twice",
    "P5": "a stream is complete, for a live and for a late reader",
    "P6": "stop stops: the model's connection is closed",
    "P7": "the history is valid model input: each call has one result",
    "P8": "the coordinator enforces: each decision follows from the record",
    "P9": "the history is tamper-evident: each digest is right",
    "P10": "a prompt keeps to the agent's context policy",
}


@dataclass
class ObservedTask:
    """Records that a run left of one task."""

    task_id: str
    team: Team
    status: TaskStatus | None
    """The status in which the task came to rest, or None if it did not in time."""
    reason: str = ""
    steps: Sequence[TaskStep] = ()
    chain_error: str = ""
    """Why the digests do not verify, or ""."""
    steps_before: Sequence[str] = ()
    """The ids of the steps that were committed when the fault struck."""
    live: Transcript | None = None
    late: Transcript | None = None
    live_error: str = ""
    wrong_decisions: Sequence[str] = ()
    """The positions at which a replay of the decisions differs."""

    @property
    def last_error(self) -> str:
        """The newest error of the task, else the reason of its status."""
        return next((step.error.message for step in reversed(self.steps) if step.error), self.reason)


@dataclass
class ObservedRun:
    """Records that a run left: its tasks, the executions of tools, and the requests that the model server refused."""

    tasks: list[ObservedTask]
    settle_timeout: float = 0.0
    executions: Sequence[Execution] = ()
    irreversible: frozenset[str] = frozenset()
    """The tools whose calls must not run twice."""
    invalid_requests: Sequence[str] = ()
    redis_lost: bool = False
    interrupted: bool = False
    """True if a user interrupted or stopped a turn while the model answered."""
    closed_after: float | None = None
    """Seconds until the model's connection was closed, or None if it was not."""
    prompts: Mapping[str, bool] = field(default_factory=dict)
    """For each agent that acted after an interruption, whether its first prompt held the user's message."""
    hit: str = ""
    """The process, server or call that the fault struck, or ""."""
    notes: Sequence[str] = ()
    """The observations of the fault itself."""
    seconds: float = 0.0


def judge(run: ObservedRun) -> dict[str, list[str]]:
    """Return for each promise that the run concerns a sentence for each way in which it was not kept.

    P3 needs a loss of Redis, P4 an irreversible call, P6 an interruption.
    """
    checks = (_p1, _p2, _p3, _p4, _p5, _p6, _p7, _p8, _p9, _p10)
    effects = any(one.tool in run.irreversible for one in run.executions)
    concerned = {"P3": run.redis_lost, "P4": effects, "P6": run.interrupted}
    judged = zip(PROMISES, checks, strict=True)
    return {name: list(check(run)) for name, check in judged if concerned.get(name, True)}


def _p1(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        if [step.seq for step in task.steps] != list(range(len(task.steps))):
            yield f"{task.task_id}: the positions are {[step.seq for step in task.steps]}"
        yield from (
            f"{task.task_id}: step {twice} is stored twice" for twice in _repeated(s.step_id for s in task.steps)
        )
        items = (str(step.metadata["item_id"]) for step in task.steps if "item_id" in step.metadata)
        yield from (f"{task.task_id}: message {twice} became two steps" for twice in _repeated(items))
        yield from _lost(task)


def _lost(task: ObservedTask) -> Iterator[str]:
    kept = [step.step_id for step in task.steps[: len(task.steps_before)]]
    if kept != list(task.steps_before):
        count = sum(one not in kept for one in task.steps_before)
        yield f"{task.task_id}: {count} of {len(task.steps_before)} steps from before the fault are lost or moved"


def _p2(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        if task.status is None:
            yield f"{task.task_id}: it neither ended nor waited within {run.settle_timeout:g} s ({task.reason})"


def _p3(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        yield from _lost(task)


def _p4(run: ObservedRun) -> Iterator[str]:
    counts = Counter(one.key for one in run.executions if one.tool in run.irreversible)
    tools = {one.key: one.tool for one in run.executions}
    yield from (f"tool {tools[key]!r}: call {key} ran {count} times" for key, count in counts.items() if count > 1)


def _p5(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        if task.live_error:
            yield f"{task.task_id}: the live reader failed: {task.live_error}"
        readers = {"live": None if task.live_error else task.live, "late": task.late}
        for name, transcript in readers.items():
            if transcript is not None:
                yield from (f"{task.task_id}, {name} reader: {wrong}" for wrong in _reader(task.steps, transcript))


def _reader(steps: Sequence[TaskStep], transcript: Transcript) -> Iterator[str]:
    if transcript.finals != list(range(len(steps))):
        yield f"it received the steps {transcript.finals} of {len(steps)}"
    expected = {step.step_id: step.text for step in steps if step.by_agent and step.text}
    texts = {step_id: text for step_id, text in transcript.texts.items() if text}
    if texts != expected:
        wrong = [step.seq for step in steps if texts.get(step.step_id, "") != expected.get(step.step_id, "")]
        strays = len(texts.keys() - expected.keys())
        yield f"its texts differ from the history: steps {wrong}, and {strays} texts of no step"


def _p6(run: ObservedRun) -> Iterator[str]:
    if run.closed_after is None:
        yield "the connection to the model was not closed"


def _p7(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        for step, after in zip(task.steps, [*task.steps[1:], None], strict=True):
            calls = sorted(call.id for call in step.calls)
            results = sorted(result.tool_call_id for result in after.results) if after is not None else []
            open_at_rest = after is None and task.status is not None and task.status.waiting
            if calls != results and not open_at_rest:
                yield f"{task.task_id}: step {step.seq} has {len(calls)} calls, the next one {len(results)} results"
    yield from (f"the model refused a request: {wrong}" for wrong in run.invalid_requests)


def _p8(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        yield from (f"{task.task_id}: {wrong}" for wrong in task.wrong_decisions)
        for step in task.steps:
            if step.by_agent and not task.team.has_agent(step.agent_name):
                yield f"{task.task_id}: step {step.seq} is by {step.agent_name!r}, who is not in the team"
    known = {call.id: (task.team, step) for task in run.tasks for step in task.steps for call in step.calls}
    for execution in run.executions:
        yield from _unauthorized(execution, known.get(execution.call_id), {task.task_id for task in run.tasks})


def _unauthorized(execution: Execution, source: tuple[Team, TaskStep] | None, tasks: set[str]) -> Iterator[str]:
    if execution.task_id not in tasks:
        return
    if source is None:
        yield f"tool {execution.tool!r} ran for call {execution.call_id}, which is in no history"
    elif not source[0].may_call(source[0].agent(source[1].agent_name), execution.tool):
        yield f"tool {execution.tool!r} ran for {source[1].agent_name!r}, who may not call it"


def _p9(run: ObservedRun) -> Iterator[str]:
    yield from (f"{task.task_id}: {task.chain_error}" for task in run.tasks if task.chain_error)


def _p10(run: ObservedRun) -> Iterator[str]:
    for task in run.tasks:
        for step in task.steps:
            report = step.metadata.get("context")
            if step.by_agent and isinstance(report, dict) and task.team.has_agent(step.agent_name):
                yield from _beyond_policy(task, step, report)


def _beyond_policy(task: ObservedTask, step: TaskStep, report: dict[str, Any]) -> Iterator[str]:
    agent: Agent = task.team.agent(step.agent_name)
    count = sum(last - first + 1 for first, last in report.get("included") or [])
    match agent.context:
        case RecentContext(steps=limit) | SummaryContext(steps=limit):
            # The first messages are always kept, a summary grows to twice its steps, and results stay with their calls.
            allowed = 2 * limit + 2
        case BudgetContext():
            return
    if count > allowed:
        yield f"{task.task_id}: the prompt of step {step.seq} holds {count} steps, its policy allows {limit}"


def _repeated(names: Iterator[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
