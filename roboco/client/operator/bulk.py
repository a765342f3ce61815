"""bulk: one control of many tasks: a loop over pages of the task list, with item ids of (bulk id, task id).

    conditions ─► page of the task index ─► each task: item id ─► accepted ─► outcome ─► cursor
                  (Redis is silent:         (at most `rate`       (store is silent, task is broken:
                   raised, nothing sent)     a second)             the outcome says why, others follow)

A task accepts the item of a bulk control once, however often a page is repeated: after Ctrl-C, a crash, or an answer
that was lost. Nothing is stored but the items. A repetition from the front finds each accepted item again; the cursor,
which holds the bulk id, saves the time for that. A run holds one page in memory.

A decision on calls has the id of its call alone. So its repetition from the front would decide calls that were made
since: it begins with the `start` of its count, which holds the moment of the first beginning.

Only tasks that exist when the bulk control begins get its item. Those that change meanwhile follow in further rounds,
until a round sends no item: each round before reaches a task that no other has reached, so there is a last one.
Cost: one read of the index for each page; for each task about six reads and a write of the workspace, and a few
commands to Redis. Eight tasks are controlled at the same time.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Final, cast

from roboco.client.operator.bulk_control import DECISIONS, BulkContent, BulkControl, ControlName
from roboco.client.operator.bulk_cursor import MAX_ROUNDS, BulkCursor
from roboco.client.operator.bulk_report import BulkCounts, BulkOutcome, BulkReport, CountedCalls
from roboco.client.operator.bulk_sender import FindTask, TaskSender, is_fork
from roboco.client.operator.pace import Pace
from roboco.client.options import BulkOptions, TaskFilterOptions
from roboco.client.task_list import MAX_LIMIT, check_limit, task_filter
from roboco.client.team_lookup import resolve_team
from roboco.domain.ids import check_item_id
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.status import TaskStatus
from roboco.domain.task_filter import TaskFilter
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import team_as_data
from roboco.errors import RobocoError, TransientError, UsageError
from roboco.ports.task_index import TaskPage
from roboco.settings import Settings

DEFAULT_RATE: Final = 50.0
"""Tasks a second."""
PAGE_SIZE: Final = 50
"""Tasks of a page."""
COUNT_READS: Final = 20
"""Reads of the task index for one part of a count."""
PARALLEL: Final = 8
"""Tasks that get their item at the same time."""
MAX_UNAVAILABLE: Final = 2 * PARALLEL
"""Tasks in a row whose server does not answer: then the page fails, since it would fail for all others."""
CONDITIONS: Final = ("status", "tenant", "team", "since", "until", "text", "what_if")
_MAY_BE_EMPTY: Final = {"tenant", "team", "what_if"}
_COUNT: Final = "count:"
"""The prefix of the cursor of a count, with which no run begins."""


class Bulk:
    """A bulk control of the tasks that meet conditions. Creating it reads and sends nothing."""

    def __init__(self, engine: Engine, sender: TaskSender, wanted: TaskFilter) -> None:
        self._engine = engine
        self.sender = sender
        """Sends the control to each task."""
        self._control = sender.control
        self._wanted = wanted
        self._digest = self._control.digest(wanted)
        self._start: BulkCursor | None = None
        self._last: list[BulkOutcome | None] = []
        self.pace = Pace(DEFAULT_RATE)
        """The rate at which tasks get their item."""
        self.on_outcome: Callable[[BulkOutcome], None] = lambda _: None
        """Called with each outcome at once, in several threads: also of a page that is not completed."""
        self.bulk_id = f"bulk_{uuid.uuid4().hex}"
        """The id of the bulk control. Another run with this id sends no task the same item twice."""

    def count(self, cursor: str = "") -> BulkReport:
        """Return how many tasks the bulk control will reach, as of now: all, or those of a part of a long list.

        The cursor is that of the part before, or of the run that is resumed. A run of the same object after the count
        reaches no task that was created after it. Cost: at most 20 reads of the index, each of up to 1,000 tasks. For a
        decision on calls, a part has at most 50 tasks, and their calls are read.
        Raises UsageError if the cursor is wrong, and TransientError if Redis does not answer.
        """
        at = self._position(cursor.removeprefix(_COUNT))
        start = BulkCursor.start(at.bulk_id, at.digest, at.began, at.horizon)
        matching, unreadable, complete = 0, 0, True
        calls, has_calls = Counter[tuple[str, str]](), self._control.name in DECISIONS
        reads, size = (1, PAGE_SIZE) if has_calls else (COUNT_READS, MAX_LIMIT)
        for _ in range(reads):
            read = self._engine.tasks.task_index.page(self._wanted_at(at), at.page, size)
            tasks, complete = self._existing(at, read), complete and read.complete
            at, matching = replace(at, page=read.cursor), matching + len(tasks)
            if not at.page:
                break
        if has_calls:
            with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
                found = list(pool.map(partial(self._counted_calls, start), tasks))
            matching, unreadable = sum(map(bool, found)), found.count(None)
            calls.update(call for of_task in found for call in of_task or ())
        return BulkReport(
            bulk_id=at.bulk_id,
            matching=matching,
            tools=[CountedCalls(tool=tool, effect=effect, calls=n) for (tool, effect), n in sorted(calls.items())],
            unreadable=unreadable,
            start=str(start),
            counts=BulkCounts.of(()),
            outcomes=[],
            cursor=f"{_COUNT}{at}" if at.page else "",
            complete=complete,
        )

    def _counted_calls(self, at: BulkCursor, task_id: str) -> list[tuple[str, str]] | None:
        """Return the tools and effects of the calls that wait for the decision, or None if they cannot be read."""
        try:
            waiting, _ = self.sender.matching_calls(at, task_id)
        except TransientError:
            raise
        except (RobocoError, ValueError):
            return None
        return [(call.tool_name, "client" if spec is None else spec.effect) for _, call, spec in waiting]

    def page(self, cursor: str = "", limit: int = PAGE_SIZE) -> BulkReport:
        """Control the tasks of the next page, and return their outcomes.

        Raises UsageError if the cursor is wrong. Raises TransientError if Redis does not answer, or if a server does
        not answer for sixteen tasks in a row, also of several pages of this object: repeat the page then.
        """
        at = self._position(cursor)
        read = self._engine.tasks.task_index.page(self._wanted_at(at), at.page, check_limit(limit))
        found = self._send_all(at, self._existing(at, read))
        if at.round:  # an earlier round has reported the others
            found = [one for one in found if one.outcome in ("accepted", "failed")]
        following = at.after(read.cursor, any(one.outcome == "accepted" for one in found), self._engine.now())
        is_cut_off = following is not None and following.round == MAX_ROUNDS
        return BulkReport(
            bulk_id=at.bulk_id,
            counts=BulkCounts.of(found),
            outcomes=found,
            cursor="" if following is None or is_cut_off else str(following),
            complete=read.complete and not is_cut_off,
        )

    def pages(self, cursor: str = "", limit: int = PAGE_SIZE) -> Iterator[BulkReport]:
        """Control all tasks from a cursor on, and yield each page. It raises the errors of `page`."""
        while True:
            page = self.page(cursor, limit)
            yield page
            if not (cursor := page.cursor):
                return

    def _send_all(self, at: BulkCursor, task_ids: list[str]) -> list[BulkOutcome]:
        """Send the item to each task. Raise TransientError if servers do not answer for too many tasks in a row."""
        found: list[BulkOutcome | None] = []
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
            for first in range(0, len(task_ids), PARALLEL):
                sent = []
                for task_id in task_ids[first : first + PARALLEL]:
                    self.pace.wait()
                    sent.append(pool.submit(copy_context().run, self._control_one, at, task_id))  # the request, too
                outcomes = [one.result() for one in sent]
                found += outcomes
                self._last = [*self._last, *outcomes][-MAX_UNAVAILABLE:]
                last = [one for one in self._last if one and one.code == TransientError.code]
                if len(last) == MAX_UNAVAILABLE:
                    self._last = []
                    raise TransientError(f"{len(last)} tasks in a row have failed, the last one: {last[-1].cause}")
        return [one for one in found if one is not None]

    def _control_one(self, at: BulkCursor, task_id: str) -> BulkOutcome | None:
        if (outcome := self.sender.send(at, task_id)) is not None:
            self.on_outcome(outcome)
        return outcome

    def _existing(self, at: BulkCursor, read: TaskPage) -> list[str]:
        """Return the ids of the tasks of a page that existed when the bulk control began, apart from its own forks.

        A resolution says what has happened to calls, so it concerns only tasks that have waited since then: the step
        of a call is older than the moment at which its outcome became unknown.
        """
        now, name = self._engine.now(), self._control.name
        return [
            entry.task_id
            for entry in read.entries
            if at.existed(entry.created_at, now)
            and not (name == "resolve" and entry.updated_at > at.began)
            and not (name == "fork" and is_fork(at.bulk_id, entry.task_id))
        ]

    def _position(self, cursor: str) -> BulkCursor:
        """Return the position of the cursor. Raise UsageError if it is that of another bulk control."""
        if not cursor:
            self._start = self._start or self._first_position()
            return replace(self._start, bulk_id=self.bulk_id)
        at = BulkCursor.parse(cursor)
        if at.digest != self._digest:
            raise UsageError("cursor: it is that of another bulk control; repeat the same control and conditions")
        self.bulk_id = at.bulk_id
        return at

    def _first_position(self) -> BulkCursor:
        """Return the position before the first task. It knows the clocks that are ahead: the newest tasks show them."""
        now = self._engine.now()
        newest = replace(self._wanted, statuses=frozenset(TaskStatus), since=None, until=None)
        created = [entry.created_at for entry in self._engine.tasks.task_index.page(newest, "", MAX_LIMIT).entries]
        return BulkCursor.start(self.bulk_id, self._digest, now, max([now, *created]))

    def _wanted_at(self, at: BulkCursor) -> TaskFilter:
        return replace(self._wanted, since=max(at.since, self._wanted.since or at.since))


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
    bulk.pace = Pace(options.get("rate", DEFAULT_RATE))
    if (bulk_id := options.get("bulk_id")) is not None:
        bulk.bulk_id = check_item_id(bulk_id)
    return bulk
