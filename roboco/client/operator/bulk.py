"""bulk: one control of many tasks, page by page.

    conditions ─► page of the task index ─► each task: item id of (bulk id, task id) ─► accepted ─► outcome ─► cursor
                  (Redis is silent:         (at most `rate` a second)          (store is silent, task is broken:
                   raised, nothing sent)                                        the outcome says why, others follow)

The item id is derived, so a task accepts the item of a bulk control once, however often a page is repeated: after
Ctrl-C, a crash, or an answer that was lost. Nothing is stored but the items. A repetition from the front finds each
accepted item again; the cursor, which holds the bulk id, saves the time for that. A run holds one page in memory.

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
from datetime import datetime
from typing import Final, cast

from roboco.client.operator.bulk_control import DECISIONS, BulkControl, ControlName
from roboco.client.operator.bulk_cursor import BulkCursor
from roboco.client.operator.bulk_report import BulkCount, BulkOutcome, BulkPage, CountedCalls
from roboco.client.operator.bulk_sender import FindTask, TaskSender, is_fork
from roboco.client.operator.pace import Pace
from roboco.client.options import BulkOptions, TaskFilterOptions
from roboco.client.task_list import MAX_LIMIT, check_limit, task_filter
from roboco.client.team_lookup import resolve_team
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.ids import check_item_id
from roboco.domain.inbox.submission import parse_arguments
from roboco.domain.status import TaskStatus
from roboco.domain.task_filter import TaskFilter
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import team_as_data
from roboco.errors import TransientError, UsageError
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
"""Tasks in a row whose server does not answer: then the bulk control ends, since it would fail for all others."""
CONDITIONS: Final = ("status", "tenant", "team", "since", "until", "text", "what_if")
CONTENT: Final = (
    *("by", "reason", "limits", "tool", "result", "error", "declined", "happened"),
    *("message", "agent", "if_busy", "model"),
)
"""The options of a bulk control that each task gets; some controls take some of them."""


class Bulk:
    """A bulk control of the tasks that meet conditions. Creating it reads and sends nothing."""

    def __init__(self, engine: Engine, sender: TaskSender, control: BulkControl, wanted: TaskFilter) -> None:
        self._engine = engine
        self._control = control
        self.sender = sender
        """Sends the control to each task."""
        self._wanted = wanted
        self._digest = control.digest(wanted)
        self._count_digest = sha256(f"count of {self._digest}")[:8]
        self._start: BulkCursor | None = None
        self._unavailable = 0
        self.pace = Pace(DEFAULT_RATE)
        """The rate at which tasks get their item."""
        self.on_outcome: Callable[[BulkOutcome], None] = lambda _: None
        """Called with each outcome at once, in several threads: also of a page that is not completed."""
        self.bulk_id = f"bulk_{uuid.uuid4().hex}"
        """The id of the bulk control. Another run with this id sends no task the same item twice."""

    def count(self, cursor: str = "") -> BulkCount:
        """Return how many tasks the bulk control will reach, as of now: all, or those of a part of a long list.

        The cursor is that of the part before, or of the run that is resumed. A run of the same object after the count
        reaches no task that was created after it. Cost: at most 20 reads of the index, each of up to 1,000 tasks. For a
        decision on calls, a part has at most 50 tasks, and their calls are read.
        Raises UsageError if the cursor is wrong, and TransientError if Redis does not answer.
        """
        at, found, complete = self._position(cursor, (self._digest, self._count_digest)), 0, True
        if self._control.name in DECISIONS:
            return self._count_calls(at)
        for _ in range(COUNT_READS):
            read = self._engine.task_index.page(self._wanted_at(at), at.page, MAX_LIMIT)
            found += len(self._existing(at, read))
            at, complete = replace(at, page=read.cursor, digest=self._count_digest), complete and read.complete
            if not read.cursor:
                break
        cursor = str(at) if at.page else ""
        start = str(at.beginning(self._digest))
        return BulkCount(bulk_id=at.bulk_id, matching=found, start=start, cursor=cursor, complete=complete)

    def _count_calls(self, at: BulkCursor) -> BulkCount:
        """Return the calls of the next page of tasks that wait for the decision."""
        read = self._engine.task_index.page(self._wanted_at(at), at.page, PAGE_SIZE)
        task_ids = self._existing(at, read)
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="roboco-bulk") as pool:
            found = list(pool.map(lambda task_id: self.sender.waiting_calls(at, task_id), task_ids))
        calls = Counter((call.tool, call.effect) for one in found for call in one or ())
        following = replace(at, page=read.cursor, digest=self._count_digest)
        return BulkCount(
            bulk_id=at.bulk_id,
            matching=sum(bool(one) for one in found),
            tools=[CountedCalls(tool=tool, effect=effect, calls=n) for (tool, effect), n in sorted(calls.items())],
            unreadable=found.count(None),
            start=str(at.beginning(self._digest)),
            cursor=str(following) if read.cursor else "",
            complete=read.complete,
        )

    def page(self, cursor: str = "", limit: int = PAGE_SIZE) -> BulkPage:
        """Control the tasks of the next page, and return their outcomes.

        Raises UsageError if the cursor is wrong. Raises TransientError if Redis does not answer, or if a server does
        not answer for sixteen tasks in a row: repeat the page then.
        """
        at = self._position(cursor, (self._digest,))
        read = self._engine.task_index.page(self._wanted_at(at), at.page, check_limit(limit))
        found = self._send_all(at, self._existing(at, read))
        if at.round:  # an earlier round has reported the others
            found = [one for one in found if one.outcome in ("accepted", "failed")]
        has_sent = any(one.outcome == "accepted" for one in found)
        following = at.after(read.cursor, has_sent, self._now())
        complete = read.complete and not at.is_cut_off(read.cursor, has_sent)
        if following is None or (self._wanted.until is not None and following.since > self._wanted.until):
            cursor = ""
        else:
            cursor = str(following)
        return BulkPage(bulk_id=at.bulk_id, outcomes=found, cursor=cursor, complete=complete)

    def pages(self, cursor: str = "", limit: int = PAGE_SIZE) -> Iterator[BulkPage]:
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
                some, sent = task_ids[first : first + PARALLEL], []
                for task_id in some:
                    self.pace.wait()
                    sent.append(pool.submit(copy_context().run, self._control_one, at, task_id))  # the request, too
                found += (one.result() for one in sent)
                self._check_availability(found[-len(some) :])
        return [one for one in found if one is not None]

    def _control_one(self, at: BulkCursor, task_id: str) -> BulkOutcome | None:
        outcome = self.sender.send(at, task_id)
        if outcome is not None:
            self.on_outcome(outcome)
        return outcome

    def _check_availability(self, found: list[BulkOutcome | None]) -> None:
        cause = ""
        for one in found:
            is_silent = one is not None and one.code == TransientError.code
            self._unavailable = self._unavailable + 1 if is_silent else 0
            cause = "" if one is None else one.cause
        if self._unavailable >= MAX_UNAVAILABLE:
            count, self._unavailable = self._unavailable, 0
            raise TransientError(f"{count} tasks in a row have failed, the last one: {cause}")

    def _existing(self, at: BulkCursor, read: TaskPage) -> list[str]:
        """Return the ids of the tasks of a page that existed when the bulk control began.

        A resolution says what has happened to calls, so it concerns only tasks that have waited since then: the step
        of a call is older than the moment at which its outcome became unknown.
        """
        now = self._now()
        found = [entry for entry in read.entries if at.existed(entry.created_at, now)]
        if self._control.name == "resolve":
            found = [entry for entry in found if entry.updated_at <= at.began]
        if self._control.name == "fork":
            found = [entry for entry in found if not is_fork(at.bulk_id, entry.task_id)]
        return [entry.task_id for entry in found]

    def _position(self, cursor: str, digests: tuple[str, ...]) -> BulkCursor:
        """Return the position of the cursor. Raise UsageError if it is that of another bulk control."""
        if not cursor:
            self._start = self._start or self._first_position()
            return replace(self._start, bulk_id=self.bulk_id)
        at = BulkCursor.parse(cursor)
        if at.digest == self._count_digest not in digests:
            raise UsageError("cursor: it is that of a count; leave it out to begin with the first task")
        if at.digest not in digests:
            raise UsageError("cursor: it is that of another bulk control; repeat the same control and conditions")
        self.bulk_id = at.bulk_id
        return at

    def _first_position(self) -> BulkCursor:
        """Return the position before the first task. It knows the clocks that are ahead: the newest tasks show them."""
        now = self._now()
        newest = replace(self._wanted, statuses=frozenset(TaskStatus), since=None, until=None)
        read = self._engine.task_index.page(newest, "", MAX_LIMIT)
        horizon = max((entry.created_at for entry in read.entries), default=now)
        return BulkCursor.start(self.bulk_id, self._digest, now, horizon)

    def _now(self) -> datetime:
        return self._engine.now()

    def _wanted_at(self, at: BulkCursor) -> TaskFilter:
        since = at.since if self._wanted.since is None else max(at.since, self._wanted.since)
        return replace(self._wanted, since=since)


def create_bulk(engine: Engine, find: FindTask, name: ControlName, settings: Settings, options: BulkOptions) -> Bulk:
    """Return the bulk control with these options, of the client's own tenant if it has one.

    Raise UsageError if an option is wrong, or if there is no condition and `all_tasks` is not set.
    """
    conditions = {key: options[key] for key in CONDITIONS if options.get(key) is not None}
    conditions = {key: value for key, value in conditions.items() if value or key in ("tenant", "team", "what_if")}
    if not any(value is not False for value in conditions.values()) and not options.get("all_tasks"):
        raise UsageError("no condition is given: name tenant, team, status, time or title, or choose all tasks")
    content = {key: options[key] for key in CONTENT if options.get(key) is not None}
    wanted_team = options.get("new_team")
    team = None if wanted_team is None else resolve_team(settings, wanted_team)
    digest = {} if team is None else {"new_team": sha256(canonical_json(team_as_data(team)))}
    control = parse_arguments(BulkControl, {"name": name, **content, **digest})
    control.check()
    given = task_filter(settings.tenant, cast(TaskFilterOptions, conditions))
    wanted = control.wanted(given, "status" in conditions)
    bulk = Bulk(engine, TaskSender(engine, settings, find, control, team), control, wanted)
    bulk.pace = Pace(options.get("rate", DEFAULT_RATE))
    if (bulk_id := options.get("bulk_id")) is not None:
        bulk.bulk_id = check_item_id(bulk_id)
    return bulk
