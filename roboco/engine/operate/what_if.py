"""what_if: start runs that continue a recorded task differently, without any effect of its tools.

    source's steps ─► recorded results ─► for each run: fork (its team has the rule, its files the record)

Each run is a task like any other: workers run its turns, and everyone may follow and stop it. If the client dies
between two forks, the runs that exist end within their limits, and the same request starts the missing ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roboco.domain.decision.what_if import effects_to_keep
from roboco.domain.history.lineage import fork_prefix
from roboco.domain.history.recorded_calls import MAX_RECORD_BYTES, RecordedCalls
from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import check_task_id
from roboco.domain.limits import Limits, UsageLimits
from roboco.domain.recorded.recorded_call import recorded_calls_of
from roboco.domain.team.team import Team
from roboco.domain.team.what_if import WhatIf
from roboco.engine.accept.accept_task import check_prompts
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import NotFound, UsageError

MIN_STEPS = 20
"""The least number of steps that a run may add by default. It may add twice as many as its task did."""
COST_FACTOR = 3
"""How much more than its task a run may cost by default."""


@dataclass(frozen=True)
class WhatIfRequest:
    """A request for runs of a task."""

    source: str
    """The id of the task."""
    seq: int | None
    """The position of the last shared step; None for the message with which the task began."""
    group: str
    """The id of the comparison."""
    runs: int
    """The number of runs."""
    unrecorded: Literal["run", "refuse"]
    """Whether pure tools run if there is no recorded result."""
    team: Team | None
    """The team of the runs; None for that of the task."""
    limits: UsageLimits
    """Limits of each run, which count its own steps alone: max_steps, max_cost, max_seconds. None is the default."""
    by: str | None = None
    """The identity of the caller."""


def first_message(workspace: WorkspaceRecords, source: str, steps: Sequence[TaskStep]) -> int:
    """Return the position of the message with which the task began: after imported steps, or after those of a fork."""
    origin = workspace.frozen_teams.own_fork_of(source, steps[0])
    return fold(steps).imported if origin is None else min(origin.seq, len(steps) - 1)


def run_ids(group: str, runs: int) -> list[str]:
    """Return the ids of the runs of a comparison."""
    return [check_task_id(f"{group}-{number}") for number in range(1, runs + 1)]


def start_runs(engine: Engine, request: WhatIfRequest) -> list[str]:
    """Start the runs, and return their ids. A repetition of the request changes nothing.

    Raise UsageError if the task is unknown, if it has no such step, or if its record is too large. Raise Overloaded if
    too many turns wait. Cost: one read of the task's history for each run, and one write of its record.
    """
    source = request.source
    steps = list(engine.workspace.histories.read(check_task_id(source)))
    if not steps:
        raise NotFound(f"no task {source!r} in this workspace")
    asked = first_message(engine.workspace, source, steps) if request.seq is None else request.seq
    shared = fork_prefix(steps, asked)
    seq = shared[-1].seq
    record = _checked_record(recorded_calls_of(steps, seq))
    source_team = engine.workspace.frozen_teams.get(source)
    team = request.team or source_team
    limits = _limits_of_run(team.limits, request.limits, shared, steps)
    rule = WhatIf(source=source, seq=seq, group=request.group, runs=request.runs, unrecorded=request.unrecorded)
    team = _with_rule(team, rule, source_team).model_copy(update={"limits": limits})
    started = run_ids(rule.group, rule.runs)
    team = _team_of_repetition(engine.workspace, started[0], team) or team
    check_prompts(team, started[0], steps[0])
    for task_id in started:
        fork(engine, ForkRequest(source, task_id, asked, team=team, by=request.by, recorded=record))
    return started


def _team_of_repetition(workspace: WorkspaceRecords, task_id: str, team: Team) -> Team | None:
    """Return the team of a run that an earlier request has started, if only limits differ: its task may have grown."""
    known = workspace.frozen_teams.find(task_id)
    same = known is not None and known.model_copy(update={"limits": team.limits}) == team
    return known if same else None


def _checked_record(record: RecordedCalls) -> RecordedCalls:
    if (size := len(record.model_dump_json().encode())) > MAX_RECORD_BYTES:
        raise UsageError(
            f"the results of the task's tools have {size} bytes, at most {MAX_RECORD_BYTES} are possible; "
            "begin at a later step"
        )
    return record


def _with_rule(team: Team, rule: WhatIf, source: Team) -> Team:
    """Return the team with the rule, also in the teams to which it delegates: a sub-task of a run is one, too."""
    teams = {name: _with_rule(inner, rule, source) for name, inner in team.teams.items()}
    own = rule.model_copy(update={"effects": effects_to_keep(team, source)})
    return team.model_copy(update={"what_if": own, "teams": teams})


def _limits_of_run(limits: Limits, asked: UsageLimits, shared: Sequence[TaskStep], steps: Sequence[TaskStep]) -> Limits:
    """Return the limits of a run: those of its team, the asked ones, and the defaults. The lowest of each counts.

    The limits of a task count the shared steps too, so these are added. The caps hold even if a shared step has raised
    the limits. A run that reaches a limit ends: no person waits for it.
    """
    spent, whole = fold(shared), fold(steps)
    more_steps = asked.max_steps or max(MIN_STEPS, 2 * (len(steps) - len(shared)))
    more_cost = asked.max_cost or COST_FACTOR * (whole.cost - spent.cost) or None
    caps = UsageLimits(
        max_steps=len(shared) - spent.imported + more_steps,
        max_cost=None if more_cost is None else max(1e-9, round(spent.cost + more_cost, 9)),
        max_seconds=asked.max_seconds,
    )
    return limits.model_copy(update={**limits.lowered_to(caps), "caps": caps, "at_limit": "end"})
