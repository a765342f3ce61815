"""bulk: one control of many tasks: a loop over the task list, with item ids of (bulk id, task id).

    conditions ─► task index ─► each task: item id ─► accepted ─► outcome
                  (Redis is silent:         (at most `rate`       (store is silent, task is broken:
                   raised, nothing sent)     a second)             the outcome says why, others follow)

A task accepts the item of a bulk control once, however often the loop is repeated: after Ctrl-C, a crash, or an answer
that was lost. Nothing is stored but the items. So a run is resumed from the front.

The cursor is the bulk id, the time of the beginning and a cursor of the task index. The control reaches the tasks whose
status has not changed since the beginning: later tasks, and calls that were made later, are left as they are.

Cost: one read of the index for each page; for each task about six reads and a write of the workspace, and a few
commands to Redis. Eight tasks are controlled at the same time.
"""

import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NamedTuple, cast

from roboco.client.operator.bulk_control import DECISIONS, BulkContent, BulkControl, ControlName
from roboco.client.operator.bulk_report import BulkCounts, BulkOutcome, BulkReport, CountedCalls
from roboco.client.operator.bulk_sender import FindTask, TaskSender, is_fork
from roboco.client.options import BulkOptions, TaskFilterOptions
from roboco.client.task_list import MAX_LIMIT, check_limit, task_filter
from roboco.client.team_lookup import resolve_team
from roboco.domain.ids import check_item_id
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.task_filter import TaskFilter
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import team_as_data
from roboco.errors import RobocoError, TransientError, UsageError
from roboco.ports.task_index import TaskPage
from roboco.settings import Settings

DEFAULT_RATE: Final = 50.0
"""Tasks a second."""
MAX_RATE: Final = 1000.0
PAGE_SIZE: Final = 50
"""Tasks of a page."""
COUNT_READS: Final = 20
"""Reads of the task index for one part of a count."""
PARALLEL: Final = 8
"""Tasks that get their item at the same time."""
MAX_CURSOR_CHARS: Final = 400
"""Characters of a cursor at most."""
CONDITIONS: Final = ("status", "tenant", "team", "since", "until", "text", "what_if")
_MAY_BE_EMPTY: Final = {"tenant", "team", "what_if"}
_CURSOR: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.(\d{16})\.([\x21-\x7e]{0,250})")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class _Position(NamedTuple):
    """A position of a bulk control in the task list."""

    bulk_id: str
    began: datetime
    page: str = ""
    """The cursor of the task index."""

    def __str__(self) -> str:
        return f"{self.bulk_id}.{(self.began - _EPOCH) // timedelta(microseconds=1):016d}.{self.page}"


class Bulk:
    """A bulk control of the tasks that meet conditions. Creating it reads and sends nothing."""

    def __init__(self, engine: Engine, sender: TaskSender, wanted: TaskFilter) -> None:
        self._engine = engine
        self.sender = sender
        """Sends the control to each task."""
        self._control = sender.control
        self._wanted = wanted
        self._began: datetime | None = None
        self.rate = DEFAULT_RATE
        """Tasks a second that get their item, at most."""
        self.on_outcome: Callable[[BulkOutcome], None] = lambda _: None
        """Called with each outcome at once, in several threads: also of a page that is not completed."""
        self.bulk_id = f"bulk_{uuid.uuid4().hex}"
        """The id of the bulk control. Another run with this id sends no task the same item twice."""

    def count(self, cursor: str = "") -> BulkReport:
        """Return how many tasks the bulk control will reach: all, or those of a part of a long list.

        The cursor is that of the part before. A run of the same object after the count, or one that begins with its
        `start`, reaches no later task or call. Cost: at most 20 reads of the index, each of up to 1,000 tasks. For a
        decision on calls, a part has at most 50 tasks, and their calls are read.
        Raises UsageError if the cursor is wrong, and TransientError if Redis does not answer.
        """
        at = self._position(cursor)
        matching, unreadable, complete = 0, 0, True
        calls, has_calls = Counter[tuple[str, str]](), self._control.name in DECISIONS
        reads, size = (1, PAGE_SIZE) if has_calls else (COUNT_READS, MAX_LIMIT)
        for _ in range(reads):
            tasks, read = self._tasks(at, size)
            at, matching, complete = at._replace(page=read.cursor), matching + len(tasks), complete and read.complete
            if not at.page:
                break
        if has_calls:
            with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
                found = list(pool.map(partial(self._counted_calls, at.began), tasks))
            matching, unreadable = sum(map(bool, found)), found.count(None)
            calls.update(call for of_task in found for call in of_task or ())
        return BulkReport(
            bulk_id=at.bulk_id,
            matching=matching,
            tools=[CountedCalls(tool=tool, effect=effect, calls=n) for (tool, effect), n in sorted(calls.items())],
            unreadable=unreadable,
            start=str(at._replace(page="")),
            counts=BulkCounts.of(()),
            outcomes=[],
            cursor=str(at) if at.page else "",
            complete=complete,
        )

    def _counted_calls(self, began: datetime, task_id: str) -> list[tuple[str, str]] | None:
        """Return the tools and effects of the calls that wait for the decision, or None if they cannot be read."""
        try:
            waiting = self.sender.matching_calls(self.bulk_id, began, task_id)
        except TransientError:
            raise
        except (RobocoError, ValueError):
            return None
        return [(call.tool_name, "client" if spec is None else spec.effect) for _, call, spec in waiting]

    def page(self, cursor: str = "", limit: int = PAGE_SIZE) -> BulkReport:
        """Control the tasks of the next page, and return their outcomes.

        A task whose status changes before its page is left as it is. Raises UsageError if the cursor is wrong. Raises
        TransientError if Redis does not answer, or if a server does not answer for eight tasks: repeat the page then.
        """
        at = self._position(cursor)
        tasks, read = self._tasks(at, check_limit(limit))
        return self._send_all(at, tasks, at._replace(page=read.cursor) if read.cursor else None, read.complete)

    def pages(self, cursor: str = "", limit: int = PAGE_SIZE) -> Iterator[BulkReport]:
        """List all tasks from a cursor on, control them, and yield a report for each page. Raises the errors of `page`.

        The cursor of each report but the last one repeats all of them.
        """
        start = at = self._position(cursor)
        tasks, read = self._tasks(at, MAX_LIMIT)
        complete = read.complete
        while read.cursor:
            at = at._replace(page=read.cursor)
            found, read = self._tasks(at, MAX_LIMIT)
            tasks, complete = tasks + found, complete and read.complete
        for first in range(0, max(1, len(tasks)), check_limit(limit)):
            left = start if first + limit < len(tasks) else None
            yield self._send_all(start, tasks[first : first + limit], left, complete)

    def _send_all(self, at: _Position, tasks: list[str], left: _Position | None, complete: bool) -> BulkReport:
        """Send the item to each task, and return the report. Raise TransientError if it fails for all at a time."""
        found: list[BulkOutcome] = []
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
            for first in range(0, len(tasks), PARALLEL):
                sent = []
                for task_id in tasks[first : first + PARALLEL]:
                    time.sleep(1 / self.rate)
                    sent.append(pool.submit(copy_context().run, self._control_one, at, task_id))  # the request, too
                outcomes = [outcome for one in sent if (outcome := one.result()) is not None]
                silent = [one for one in outcomes if one.code == TransientError.code]
                if len(silent) == PARALLEL:
                    raise TransientError(f"{PARALLEL} tasks have failed, the last one: {silent[-1].cause}")
                found += outcomes
        return BulkReport(
            bulk_id=at.bulk_id,
            counts=BulkCounts.of(found),
            outcomes=found,
            cursor="" if left is None else str(left),
            complete=complete,
        )

    def _control_one(self, at: _Position, task_id: str) -> BulkOutcome | None:
        if (outcome := self.sender.send(at.bulk_id, at.began, task_id)) is not None:
            self.on_outcome(outcome)
        return outcome

    def _tasks(self, at: _Position, limit: int) -> tuple[list[str], TaskPage]:
        """Return the ids of the tasks of a page, apart from the forks of this bulk control."""
        wanted = replace(self._wanted, until=min(at.began, self._wanted.until or at.began))
        read = self._engine.tasks.task_index.page(wanted, at.page, limit)
        tasks = [entry.task_id for entry in read.entries]
        if self._control.name == "fork":
            tasks = [task_id for task_id in tasks if not is_fork(at.bulk_id, task_id)]
        return tasks, read

    def _position(self, cursor: str) -> _Position:
        if not cursor:
            self._began = self._began or self._engine.now()
            return _Position(self.bulk_id, self._began)
        if (found := _CURSOR.fullmatch(cursor)) is None:
            raise UsageError(f"cursor {cursor[:80]!r} is not one of a bulk control; leave it out to begin at the front")
        self.bulk_id = found[1]
        return _Position(found[1], _EPOCH + timedelta(microseconds=int(found[2])), found[3])


def create_bulk(engine: Engine, find: FindTask, name: ControlName, settings: Settings, options: BulkOptions) -> Bulk:
    """Return the bulk control with these options, of the client's own tenant if it has one.

    Raise UsageError if an option is wrong, or if there is no condition and `all_tasks` is not set.
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
    wanted = control.wanted(task_filter(settings.tenant, cast(TaskFilterOptions, conditions)), "status" in conditions)
    bulk = Bulk(engine, TaskSender(engine, settings, find, control, team), wanted)
    bulk.rate = options.get("rate", DEFAULT_RATE)
    if not 0 < bulk.rate <= MAX_RATE:
        raise UsageError(f"rate {bulk.rate:g} is not allowed: use more than 0, and at most {MAX_RATE:g} a second")
    if (bulk_id := options.get("bulk_id")) is not None:
        bulk.bulk_id = check_item_id(bulk_id)
    return bulk
