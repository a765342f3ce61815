"""what_if: start runs that continue a recorded task differently, without any effect of its tools, and compare them.

    source's steps ─► recorded results ─► for each run: fork (its team has the rule, its files the record)

Each run is a task like any other: workers run its turns, and everyone may follow and stop it. If the client dies
between two forks, the runs that exist end within their limits, and the same request starts the missing ones.
"""

import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol, TypedDict

from roboco.client.team_lookup import resolve_team
from roboco.domain.decision.what_if import effects_to_keep
from roboco.domain.history.lineage import fork_prefix
from roboco.domain.history.recorded_calls import MAX_RECORD_BYTES, RecordedCalls
from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import RUN_PREFIX, check_task_id, qualified_id, tenant_of
from roboco.domain.inbox.item import Stop
from roboco.domain.limits import Limits, UsageLimits
from roboco.domain.recorded.recorded_call import recorded_calls_of
from roboco.domain.recorded.run_comparison import RunRow, WhatIfReport, row_of_run, row_of_task
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.team.what_if import MAX_RUNS, WhatIf
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.accept.accept_task import check_prompts
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.workspace_records import team_as_data
from roboco.errors import NotFound, StateConflict, UsageError
from roboco.settings import Settings
from roboco.team_files.file import parse_team

DEFAULT_SECONDS: Final = 600.0
"""The default of `max_seconds`."""
MIN_STEPS = 20
"""The least number of steps that a run may add by default. It may add twice as many as its task did."""
COST_FACTOR = 3
"""How much more than its task a run may cost by default."""
_POLL_INTERVAL: Final = 0.3
"""Seconds between two reads of the runs."""
_STOP_ITEM: Final = "stop-of-comparison"
"""The id of the item that stops a run: a second stop is the same one."""


class WhatIfOptions(TypedDict, total=False):
    """Options of `what_if`."""

    team: Team | str | Path | None
    """The team of the runs; by default that of the task."""
    model: str | None
    """The model profile of agents that name none."""
    prompts: Mapping[str, str]
    """Other prompts, by the names of their agents."""
    runs: int
    """The number of runs, 1 to 20; by default 1."""
    max_steps: int | None
    """The most steps of each run; by default twice as many as the task did after the shared ones, and at least 20."""
    max_cost: float | None
    """The most cost of each run; by default three times that of the task's steps after the shared ones."""
    max_seconds: float
    """The most seconds of each run; by default 600."""
    unrecorded: Literal["run", "refuse"]
    """Whether pure tools run if there is no recorded result, or are refused as others are; by default they run."""
    what_if: str | None
    """The id of the comparison: the same id with the same options again is the same one."""
    by: str | None
    """The identity of the caller."""


class RecordedRun(Protocol):
    """A task whose status and history can be read."""

    def summary(self) -> TaskSummary:
        """Return the summary of the task as it is now."""
        ...

    def history(self) -> list[TaskStep]:
        """Return its steps."""
        ...

    def team(self) -> Team:
        """Return its frozen team."""
        ...


class RunningComparison:
    """The runs of a comparison. The runs are tasks: `task_ids` names them, and every command accepts them."""

    def __init__(
        self, engine: Engine, record: Callable[[str], RecordedRun], source: str, group: str, task_ids: Sequence[str]
    ) -> None:
        self.what_if = group
        self.task_ids = tuple(task_ids)
        self._source = source
        self._engine = engine
        self._record = record

    def report(self) -> WhatIfReport:
        """Return the runs beside their task, as they are now. Cost: one read of the history of each."""
        rule = _rule_of(self._engine.workspace, self.task_ids[0])
        task = self._record(self._source)
        steps = tuple(task.history())
        rows = tuple(self._row(task_id, steps) for task_id in self.task_ids)
        return WhatIfReport(
            what_if=self.what_if, seq=rule.seq, task=row_of_task(task.summary(), steps, rule.seq), runs=rows
        )

    def _row(self, task_id: str, source: Sequence[TaskStep]) -> RunRow:
        run = self._record(task_id)
        record = self._engine.workspace.frozen_teams.recorded_calls_of(task_id)
        return row_of_run(run.summary(), tuple(run.history()), run.team(), record, source)

    def wait(self, timeout: float | None = None) -> list[str]:
        """Wait until no run continues by itself, at most `timeout` seconds. Return the ids of those that still do."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        moving = list(self.task_ids)
        while True:
            moving = [task_id for task_id in moving if self._continues(task_id)]
            left = until - time.monotonic()
            if not moving or left <= 0:
                return moving
            time.sleep(min(_POLL_INTERVAL, left))

    def stop(self, reason: str = "the comparison has ended", task_ids: Sequence[str] | None = None) -> None:
        """Stop the runs that have not ended, or those of them that `task_ids` names. A repetition changes nothing."""
        for task_id in self.task_ids if task_ids is None else task_ids:
            with suppress(StateConflict, NotFound):  # it has ended, or a client that died has not started it
                if not self._record(task_id).summary().status.ended:
                    item = Stop(item_id=_STOP_ITEM, created_at=self._engine.now(), reason=reason)
                    accept_item(self._engine, task_id, item)

    def _continues(self, task_id: str) -> bool:
        status = self._record(task_id).summary().status
        return not (status.ended or status.waiting)


def start(
    engine: Engine, settings: Settings, source: str, seq: int | None, options: WhatIfOptions
) -> tuple[str, list[str]]:
    """Start the runs of a task, and return the ids of the comparison and of the runs.

    `seq` is the last shared step, or None for the message with which the task began. A repetition changes nothing.
    Raise UsageError if an option is wrong, if the task is unknown, if it has no such step, or if its record is too
    large. Raise Overloaded if too many turns wait. Cost: one read of the task's history for each run, and one write of
    its record.
    """
    runs, group = options.get("runs", 1), comparison_id(source, options.get("what_if"))
    if not 1 <= runs <= MAX_RUNS:
        raise UsageError(f"runs: 1 to {MAX_RUNS} are possible (found {runs})")
    asked_limits = UsageLimits(
        max_steps=options.get("max_steps"),
        max_cost=options.get("max_cost"),
        max_seconds=options.get("max_seconds", DEFAULT_SECONDS),
    )
    workspace = engine.workspace
    team = _team_of_runs(workspace, settings, source, options)
    steps = list(workspace.histories.read(source))
    if not steps:
        raise NotFound(f"no task {source!r} in this workspace")
    asked = _first_message(workspace, source, steps) if seq is None else seq
    shared = fork_prefix(steps, asked)
    record = _checked_record(recorded_calls_of(steps, shared[-1].seq))
    limits = _limits_of_run(team.limits, asked_limits, shared, steps)
    rule = WhatIf(
        source=source, seq=shared[-1].seq, group=group, runs=runs, unrecorded=options.get("unrecorded", "run")
    )
    team = _with_rule(team, rule, workspace.frozen_teams.get(source)).model_copy(update={"limits": limits})
    started = _run_ids(group, runs)
    team = _team_of_repetition(workspace, started[0], team) or team
    check_prompts(team, started[0], steps[0])
    for task_id in started:
        fork(engine, ForkRequest(source, task_id, asked, team=team, by=options.get("by"), recorded=record))
    return group, started


def find(workspace: WorkspaceRecords, source: str, group: str) -> tuple[str, list[str]]:
    """Return the ids of a task's comparison and of its runs. Raise NotFound if there is none."""
    try:
        rule = _rule_of(workspace, _run_ids(comparison_id(source, group), 1)[0])
    except UsageError:
        rule = None
    if rule is None or rule.source != source:
        raise NotFound(f"task {source!r} has no comparison {group[:80]!r}")
    return rule.group, _run_ids(rule.group, rule.runs)


def _rule_of(workspace: WorkspaceRecords, task_id: str) -> WhatIf:
    team = workspace.frozen_teams.find(task_id)
    if team is None or team.what_if is None:
        raise NotFound(f"task {task_id!r} is no run of what-if")
    return team.what_if


def comparison_id(source: str, named: str | None) -> str:
    """Return the id of a comparison with the tenant of its task: the named one, or a new one."""
    name = (named or uuid.uuid4().hex[:12]).rpartition(":")[2].removeprefix(RUN_PREFIX)
    if not name or len(name) > 64 or not set(name) <= set("0123456789abcdef"):
        raise UsageError(f"what_if: 1 to 64 hexadecimal digits are possible, in lower case (found {named!r:.80})")
    return qualified_id(tenant_of(check_task_id(source)) or None, f"{RUN_PREFIX}{name}")


def _team_of_runs(workspace: WorkspaceRecords, settings: Settings, source: str, options: WhatIfOptions) -> Team:
    """Return the team of the runs with the chosen model and prompts, validated, and without a rule."""
    wanted = options.get("team")
    if wanted is None:
        team = workspace.frozen_teams.find(source)
        if team is None:
            raise NotFound(f"no task {source!r} in this workspace")
        team = team.model_copy(update={"what_if": None})
    else:
        team = resolve_team(settings, wanted)
    if (model := options.get("model")) is not None:
        team = team.with_profile(model)
    prompts = options.get("prompts") or {}
    for name in prompts:
        team.check_agent(name)
    agents = tuple(
        agent.model_copy(update={"prompt": prompts[agent.name]}) if agent.name in prompts else agent
        for agent in team.agents
    )
    if not prompts:
        return team
    return parse_team(team_as_data(team.model_copy(update={"agents": agents})), "the team with these prompts")


def _first_message(workspace: WorkspaceRecords, source: str, steps: Sequence[TaskStep]) -> int:
    """Return the position of the message with which the task began: after imported steps, or after those of a fork."""
    origin = workspace.frozen_teams.own_fork_of(source, steps[0])
    return fold(steps).imported if origin is None else min(origin.seq, len(steps) - 1)


def _run_ids(group: str, runs: int) -> list[str]:
    """Return the ids of the runs of a comparison."""
    return [check_task_id(f"{group}-{number}") for number in range(1, runs + 1)]


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
