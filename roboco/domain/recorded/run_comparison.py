"""run_comparison: the runs of `what-if` beside their task."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, zip_longest
from typing import Literal

from roboco.domain.builtin_tools import GOAL_PREFIX, HANDOFF
from roboco.domain.decision.what_if import refusal_reason, takes_recorded_result
from roboco.domain.history.part import ToolCall
from roboco.domain.history.recorded_calls import RecordedCalls, call_key, places_of_calls
from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep, last_text
from roboco.domain.schema import RecordModel
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team

MAX_RESULT_CHARS = 2000
"""The most characters of a result in a comparison. The history of the run holds all of it."""


class Difference(RecordModel):
    """The first step of a run that differs from the step of its task at the same position."""

    seq: int
    what: Literal["agent", "calls", "results", "text", "end"]
    """What differs: who acts, the calls of tools, their results, the text, or that only one of both has this step."""


class CallCounts(RecordModel):
    """How the tool calls after the shared steps got their results. Hand-offs and goals are no calls of tools."""

    recorded: int = 0
    run: int = 0
    refused: int = 0


class RunRow(RecordModel):
    """One run, or the task itself. Numbers concern the steps after the shared ones."""

    task_id: str
    status: str
    reason: str = ""
    route: tuple[str, ...] = ()
    """The agents in the order of their turns; one that acts several times in a row is named once."""
    result: str = ""
    """The newest text of an agent, at most 2,000 characters."""
    difference: Difference | None = None
    """The first step that differs from the task's, or None."""
    route_differs_at: int | None = None
    """The first step at which another agent acts, or other tools are called, or None."""
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    """Money in the currency of the prices. A call that a run did not run costs nothing."""
    seconds: float = 0.0
    """Seconds from the fork to the newest step; of the task itself, from the last shared step."""
    calls: CallCounts = CallCounts()


class WhatIfReport(RecordModel):
    """The runs of a comparison beside their task."""

    what_if: str
    """The id of the comparison."""
    seq: int
    """The position of the last step that all share."""
    task: RunRow
    runs: tuple[RunRow, ...]


def row_of_task(summary: TaskSummary, steps: Sequence[TaskStep], seq: int) -> RunRow:
    """Return the row of the task itself: all its calls were run."""
    names = [call for step in steps[seq + 1 :] if _next_results(steps, step) for call in step.calls]
    calls = CallCounts(run=sum(1 for call in names if _is_tool(call)))
    return _row(summary, steps, seq, steps[seq].created_at).model_copy(update={"calls": calls})


def row_of_run(
    summary: TaskSummary, steps: Sequence[TaskStep], team: Team, record: RecordedCalls, source: Sequence[TaskStep]
) -> RunRow:
    """Return the row of a run beside the steps of its task. `team` is the team of the run, with its rule."""
    seq = 0 if team.what_if is None else team.what_if.seq
    differences = list(_differences(steps[seq + 1 :], source[seq + 1 :]))
    updates = {
        "calls": _count_calls(team, record, steps, seq),
        "difference": next(iter(differences), None),
        "route_differs_at": next((one.seq for one in differences if one.what in ("agent", "calls", "end")), None),
    }
    return _row(summary, steps, seq, summary.created_at).model_copy(update=updates)


def _row(summary: TaskSummary, steps: Sequence[TaskStep], seq: int, started: datetime) -> RunRow:
    own, shared, whole = steps[seq + 1 :], fold(steps[: seq + 1]), fold(steps)
    return RunRow(
        task_id=summary.task_id,
        status=summary.status,
        reason=summary.reason,
        route=tuple(name for name, _ in groupby(step.agent_name for step in own if step.by_agent)),
        result=last_text(own)[:MAX_RESULT_CHARS],
        steps=len(own),
        seconds=max(0.0, round((own[-1].created_at - started).total_seconds(), 3)) if own else 0.0,
        tokens_in=whole.tokens_in - shared.tokens_in,
        tokens_out=whole.tokens_out - shared.tokens_out,
        cost=round(whole.cost - shared.cost, 9),
    )


def _next_results(steps: Sequence[TaskStep], step: TaskStep) -> bool:
    return step.seq + 1 < len(steps) and bool(steps[step.seq + 1].results)


def _is_tool(call: ToolCall) -> bool:
    return call.tool_name != HANDOFF and not call.tool_name.startswith(GOAL_PREFIX)


def _count_calls(team: Team, record: RecordedCalls, steps: Sequence[TaskStep], seq: int) -> CallCounts:
    places = places_of_calls(steps[seq + 1 :])
    counts: Counter[str] = Counter()
    for step in steps[seq + 1 :]:
        for call in step.calls:
            if _is_tool(call) and _next_results(steps, step):
                counts[_answered_by(team, record, step, call, places[step.seq, call.id])] += 1
    return CallCounts(recorded=counts["recorded"], run=counts["run"], refused=counts["refused"])


def _answered_by(team: Team, record: RecordedCalls, step: TaskStep, call: ToolCall, place: tuple[str, int]) -> str:
    if takes_recorded_result(team, step, call) and record.outcome(call, *place) is not None:
        return "recorded"
    return "run" if refusal_reason(team, step, call) is None else "refused"


def _differences(own: Sequence[TaskStep], others: Sequence[TaskStep]) -> Iterator[Difference]:
    """Yield the positions at which the steps differ, each with the first thing that does."""
    for mine, theirs in zip_longest(own, others):
        if mine is None or theirs is None:
            yield Difference(seq=(mine or theirs).seq, what="end")
            return
        aspects = (
            ("agent", mine.agent_name != theirs.agent_name),
            ("calls", [call_key(one) for one in mine.calls] != [call_key(one) for one in theirs.calls]),
            (
                "results",
                [(one.result, one.error) for one in mine.results]
                != [(one.result, one.error) for one in theirs.results],
            ),
            ("text", mine.text != theirs.text),
        )
        if what := next((name for name, differs in aspects if differs), None):
            yield Difference.model_validate({"seq": mine.seq, "what": what})
