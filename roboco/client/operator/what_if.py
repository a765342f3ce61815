"""WhatIf: the runs of a comparison, as the caller that started them sees them."""

import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol, TypedDict

from roboco.client.team_lookup import resolve_team
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import RUN_PREFIX, check_task_id, qualified_id, tenant_of
from roboco.domain.inbox.item import Stop
from roboco.domain.limits import UsageLimits
from roboco.domain.recorded.run_comparison import RunRow, WhatIfReport, row_of_run, row_of_task
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.team.what_if import MAX_RUNS, WhatIf
from roboco.engine.accept.accept_item import accept_item
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.operate.what_if import WhatIfRequest, run_ids, start_runs
from roboco.engine.workspace_records import team_as_data
from roboco.errors import NotFound, StateConflict, UsageError
from roboco.settings import Settings
from roboco.team_files.file import parse_team

DEFAULT_SECONDS: Final = 600.0
"""The default of `max_seconds`."""
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

    `seq` is the last shared step, or None for the message with which the task began.
    """
    runs, group = options.get("runs", 1), comparison_id(source, options.get("what_if"))
    if not 1 <= runs <= MAX_RUNS:
        raise UsageError(f"runs: 1 to {MAX_RUNS} are possible (found {runs})")
    limits = UsageLimits(
        max_steps=options.get("max_steps"),
        max_cost=options.get("max_cost"),
        max_seconds=options.get("max_seconds", DEFAULT_SECONDS),
    )
    team = _team_of_runs(engine.workspace, settings, source, options)
    unrecorded, by = options.get("unrecorded", "run"), options.get("by")
    request = WhatIfRequest(source, seq, group, runs, unrecorded, team, limits, by)
    return group, start_runs(engine, request)


def find(workspace: WorkspaceRecords, source: str, group: str) -> tuple[str, list[str]]:
    """Return the ids of a task's comparison and of its runs. Raise NotFound if there is none."""
    try:
        rule = _rule_of(workspace, run_ids(comparison_id(source, group), 1)[0])
    except UsageError:
        rule = None
    if rule is None or rule.source != source:
        raise NotFound(f"task {source!r} has no comparison {group[:80]!r}")
    return rule.group, run_ids(rule.group, rule.runs)


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
