"""bulk: one control of many tasks: a loop over the task list, with item ids of (bulk id, task id).

    conditions ─► task index ─► each task: item id ─► accepted before? ─► admitted? ─► control ─► outcome
                  (Redis is silent:         (at most `rate` a second)      (store is silent, task is broken:
                   raised, nothing sent)                                    the outcome says why, others follow)

A task accepts the item of a bulk control once, however often the loop is repeated: after Ctrl-C, a crash, or an answer
that was lost. Nothing is stored but the items. So a run is resumed by another one with the same `bulk_id`.

The control reaches the tasks whose status has not changed since `until`, by default its beginning: later tasks, and
calls that were made later, are left as they are. A decision also leaves a call that has one. A call whose tool has
changed waits for no such decision: a person reads each change.

Cost: one read of the index for each page; for each task about six reads and a write of the workspace, and a few
commands to Redis. Eight tasks are controlled at the same time.
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Final, cast

from roboco.client.commands import handle_task_command
from roboco.client.operator.bulk_control import (
    DECISIONS,
    BulkContent,
    BulkControl,
    BulkCounts,
    BulkOutcome,
    BulkReport,
    ControlName,
    CountedCalls,
)
from roboco.client.options import BulkOptions, TaskFilterOptions
from roboco.client.pending_actions import PendingDecision, WaitingCall, waiting_calls
from roboco.client.task_list import MAX_LIMIT, check_limit, task_filter
from roboco.client.team_lookup import resolve_team
from roboco.domain.canonical_json import sha256
from roboco.domain.ids import answer_id, approval_id, check_item_id, qualified_id, retry_id, tenant_of
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.task_filter import TaskFilter
from roboco.domain.team.team import Team
from roboco.engine.accept.accept_item import stored_item
from roboco.engine.engine import Engine
from roboco.engine.workspace_records import team_as_data
from roboco.errors import AlreadyEnded, RobocoError, TransientError, UsageError
from roboco.ports.task_index import TaskPage
from roboco.settings import Settings

DEFAULT_RATE: Final = 50.0
"""Tasks a second."""
MAX_RATE: Final = 1000.0
PAGE_SIZE: Final = 50
"""Tasks of a page."""
PARALLEL: Final = 8
"""Tasks that get their item at the same time."""
MAX_CAUSE_CHARS: Final = 500
CONDITIONS: Final = ("status", "tenant", "team", "since", "until", "text", "what_if")
_MAY_BE_EMPTY: Final = {"tenant", "team", "what_if"}


class Bulk:
    """A bulk control of the tasks that meet conditions. Creating it reads and sends nothing."""

    def __init__(
        self, engine: Engine, settings: Settings, control: BulkControl, team: Team | None, find: Callable[[str], object]
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._control = control
        self._team = team
        self._find = find
        self._decides = control.name in DECISIONS
        self.wanted = TaskFilter()
        """The conditions on the tasks."""
        self.until = engine.now()
        """The time since which the status of a task, and the calls for which it waits, must not have changed."""
        self.rate = DEFAULT_RATE
        """Tasks a second that get their item, at most."""
        self.bulk_id = f"bulk_{uuid.uuid4().hex}"
        """The id of the bulk control. Another run with this id sends no task the same item twice."""
        self.admit: Callable[[str], None] = lambda _: None
        """Called with the id of a task before it gets its item, and with that of a new task before a fork or retry.

        It raises RobocoError if the caller may not do this.
        """
        self.team_of_fork: Callable[[Team, Team | None], Team | None] = lambda _, wanted: wanted
        """Returns the team of a fork from that of its source and the wanted one, or None for that of the source."""
        self.on_outcome: Callable[[BulkOutcome], None] = lambda _: None
        """Called with each outcome at once, in several threads: also of a page that is not completed."""

    def count(self, cursor: str = "") -> BulkReport:
        """Return how many tasks of a long list the control will reach, and of a decision their calls, by tool.

        The cursor is that of the report before. Raises TransientError if Redis does not answer.
        """
        tasks, read = self._tasks(cursor, PAGE_SIZE if self._decides else MAX_LIMIT)
        if not self._decides:
            return self._report((), read).model_copy(update={"matching": len(tasks)})
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
            found = list(pool.map(self._counted_calls, tasks))
        calls = Counter(call for of_task in found for call in of_task or ())
        tools = [CountedCalls(tool=tool, effect=effect, calls=n) for (tool, effect), n in sorted(calls.items())]
        counted = {"matching": sum(map(bool, found)), "tools": tools, "unreadable": found.count(None)}
        return self._report((), read).model_copy(update=counted)

    def page(self, cursor: str = "", limit: int = PAGE_SIZE) -> BulkReport:
        """Control the tasks of the next page, and return their outcomes.

        A task whose status changes before its page is left as it is. Raises UsageError if the cursor is wrong. Raises
        TransientError if Redis does not answer, or if a server does not answer for eight tasks: repeat the page then.
        """
        tasks, read = self._tasks(cursor, check_limit(limit))
        return self._report(self._send_all(tasks), read)

    def pages(self, limit: int = PAGE_SIZE) -> Iterator[BulkReport]:
        """List all tasks, control them, and yield a report for each page. Raises the errors of `page`."""
        tasks, read = self._tasks("", MAX_LIMIT)
        complete = read.complete
        while read.cursor:
            found, read = self._tasks(read.cursor, MAX_LIMIT)
            tasks, complete = tasks + found, complete and read.complete
        for first in range(0, max(1, len(tasks)), check_limit(limit)):
            outcomes = self._send_all(tasks[first : first + limit])
            yield self._report(outcomes, replace(read, complete=complete))

    def _tasks(self, cursor: str, limit: int) -> tuple[list[str], TaskPage]:
        """Return the ids of the tasks of a page, apart from the forks of this bulk control."""
        read = self._engine.tasks.task_index.page(replace(self.wanted, until=self.until), cursor, limit)
        forks = _fork_prefix(self.bulk_id) if self._control.name == "fork" else "/"
        tasks = [entry.task_id for entry in read.entries]
        return [task_id for task_id in tasks if not task_id.rpartition(":")[2].startswith(forks)], read

    def _report(self, outcomes: list[BulkOutcome] | tuple[()], read: TaskPage) -> BulkReport:
        return BulkReport(
            bulk_id=self.bulk_id,
            until=self.until,
            counts=BulkCounts.of(outcomes),
            outcomes=list(outcomes),
            cursor=read.cursor,
            complete=read.complete,
        )

    def _send_all(self, tasks: list[str]) -> list[BulkOutcome]:
        """Send the control to each task. Raise TransientError if it fails for all at a time."""
        found: list[BulkOutcome] = []
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
            for first in range(0, len(tasks), PARALLEL):
                sent = []
                for task_id in tasks[first : first + PARALLEL]:
                    time.sleep(1 / self.rate)
                    sent.append(pool.submit(copy_context().run, self._send, task_id))  # the request, too
                outcomes = [outcome for one in sent if (outcome := one.result()) is not None]
                silent = [one for one in outcomes if one.code == TransientError.code]
                if len(silent) == PARALLEL:
                    raise TransientError(f"{PARALLEL} tasks have failed, the last one: {silent[-1].cause}")
                found += outcomes
        return found

    def _send(self, task_id: str) -> BulkOutcome | None:
        """Send the control to the task, and return the outcome, or None if no call waits for the decision."""
        found: dict[str, Any] = {"task_id": task_id, "outcome": "accepted"}  # calls decided before a failure stay
        try:
            self._find(task_id)
            self._control_one(task_id, found)
        except AlreadyEnded:
            found["outcome"] = "ended"
        except (RobocoError, ValueError) as error:
            code = error.code if isinstance(error, RobocoError) else "error"
            found |= {"outcome": "failed", "code": code, "cause": str(error)[:MAX_CAUSE_CHARS]}
        if found.get("calls") == [] and found["outcome"] == "accepted":
            return None
        outcome = BulkOutcome.model_validate(found)
        self.on_outcome(outcome)
        return outcome

    def _control_one(self, task_id: str, found: dict[str, Any]) -> None:
        match self._control.name:
            case "fork":
                self._fork(task_id, found)
            case "retry":
                self._retry(task_id, found)
            case name if name in DECISIONS:
                self._decide(task_id, found)
            case _:
                item_id = found["item_id"] = bulk_item_id(self.bulk_id, task_id)
                if stored_item(self._engine.workspace, task_id, item_id) is not None:
                    found["outcome"] = "repeated"
                else:
                    self.admit(task_id)
                self._command(task_id=task_id, item_id=item_id)

    def _fork(self, task_id: str, found: dict[str, Any]) -> None:
        new_id = fork_id(self.bulk_id, task_id)
        if self._engine.workspace.summaries.get(new_id) is None:
            self.admit(new_id)
        team = self.team_of_fork(self._engine.workspace.frozen_teams.get(task_id), self._team)
        if not self._command(task_id=new_id, source=task_id, team=None if team is None else team_as_data(team)):
            found["outcome"] = "repeated"
        found["new_task_id"] = new_id

    def _retry(self, task_id: str, found: dict[str, Any]) -> None:
        failed = self._engine.workspace.summaries.require(task_id)
        found["new_task_id"] = failed.retried_as or retry_id(task_id, failed.steps)
        if not failed.retried_as:
            self.admit(found["new_task_id"])
        if failed.retried_as or not self._command(task_id=task_id, item_id=bulk_item_id(self.bulk_id, task_id)):
            found["outcome"] = "repeated"

    def _decide(self, task_id: str, found: dict[str, Any]) -> None:
        found["calls"] = []
        if waiting := self._waiting_calls(task_id):
            self.admit(task_id)
        for _, call, _ in waiting:
            item_id = self._decision_id(task_id, call.id)
            named = {"item_id": item_id} if self._control.name == "resolve" else {}
            self._command(task_id=task_id, call_id=call.id, **named)
            found["calls"].append(call.id)

    def _waiting_calls(self, task_id: str) -> list[WaitingCall]:
        """Return the calls of the task that wait for the decision.

        Cost: a read of Redis or two, of the newest step, and two reads of the workspace for each call.
        """
        return [
            (step, call, tool)
            for step, call, tool in waiting_calls(self._engine, task_id, cast(PendingDecision, self._control.name))
            if step.created_at <= self.until
            and self._control.tool in (None, call.tool_name)
            and stored_item(self._engine.workspace, task_id, self._decision_id(task_id, call.id)) is None
        ]

    def _counted_calls(self, task_id: str) -> list[tuple[str, str]] | None:
        """Return the tools and effects of the calls that wait for the decision, or None if they cannot be read."""
        try:
            waiting = self._waiting_calls(task_id)
        except TransientError:
            raise
        except (RobocoError, ValueError):
            return None
        return [(call.tool_name, "client" if spec is None else spec.effect) for _, call, spec in waiting]

    def _command(self, **names_of: Any) -> bool | None:
        """Handle the command of the control, as for one task. Return True if it has created a task."""
        arguments = self._control.arguments() | names_of
        return handle_task_command(self._engine, self._settings, self._control.command, arguments, "")

    def _decision_id(self, task_id: str, call_id: str) -> str:
        if self._control.name == "resolve":
            return bulk_item_id(self.bulk_id, f"{task_id}/{call_id}")
        return answer_id(call_id) if self._control.name == "answer" else approval_id(call_id)


def create_bulk(
    engine: Engine, find: Callable[[str], object], name: ControlName, settings: Settings, options: BulkOptions
) -> Bulk:
    """Return the bulk control with these options, of the client's own tenant if it has one.

    `find` raises UsageError if there is no task of an id. Raise UsageError if an option is wrong, or if there is no
    condition and `all_tasks` is not set.
    """
    given = {key: value for key, value in options.items() if value is not None}
    conditions = {key: given[key] for key in CONDITIONS if given.get(key) or key in given.keys() & _MAY_BE_EMPTY}
    if not any(value is not False for value in conditions.values()) and not options.get("all_tasks"):
        raise UsageError("no condition is given: name tenant, team, status, time or title, or choose all tasks")
    wanted_team = options.get("new_team")
    team = None if wanted_team is None else resolve_team(settings, wanted_team)
    content = {key: value for key, value in given.items() if key in BulkContent.model_fields or key == "by"}
    content |= {} if team is None else {"new_team": team_as_data(team)}
    control = parse_arguments(BulkControl, {"name": name, **content})
    control.check()
    bulk = Bulk(engine, settings, control, team, find)
    wanted = task_filter(settings.tenant, cast(TaskFilterOptions, conditions))
    bulk.wanted = control.wanted(wanted, "status" in conditions)
    bulk.until = min(bulk.until, wanted.until or bulk.until)
    bulk.rate = options.get("rate", DEFAULT_RATE)
    if not 0 < bulk.rate <= MAX_RATE:
        raise UsageError(f"rate {bulk.rate:g} is not allowed: use more than 0, and at most {MAX_RATE:g} a second")
    if (bulk_id := options.get("bulk_id")) is not None:
        bulk.bulk_id = check_item_id(bulk_id)
    return bulk


def bulk_item_id(bulk_id: str, name: str) -> str:
    """Return the id of the item that a bulk control sends to a task, or to a call: TASK/CALL."""
    return f"b_{sha256(f'{bulk_id}/{name}')[:32]}"


def fork_id(bulk_id: str, task_id: str) -> str:
    """Return the id of the fork of a task that a bulk control makes."""
    name = f"{_fork_prefix(bulk_id)}{sha256(f'{bulk_id}/{task_id}')[:24]}"
    return qualified_id(tenant_of(task_id) or None, name)


def _fork_prefix(bulk_id: str) -> str:
    return f"fork-{sha256(bulk_id)[:8]}-"
