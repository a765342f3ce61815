"""task_list: lists of tasks from the task index, with the conditions of a caller."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from roboco.client.options import TaskFilterOptions
from roboco.domain.ids import check_tenant
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry, short_reason
from roboco.domain.task_filter import TaskFilter, parse_statuses
from roboco.engine.accept.evidence import current_reason
from roboco.errors import CorruptHistory, Forbidden, UsageError
from roboco.ports.task_index import TaskIndex
from roboco.ports.task_store import TaskStore

MAX_LIMIT = 1000
"""The most tasks of a page."""
_PAGE_SIZE = 500
_MAX_ROUNDS = 10
"""Rounds over the tasks that have changed during the round before."""
_CLOCK_DIFFERENCE = timedelta(minutes=1)
"""The clocks of workers differ by less, as a rule. A round begins that much earlier, so that it misses no change."""


def task_filter(own_tenant: str | None, options: TaskFilterOptions) -> TaskFilter:
    """Return the filter of these options, within the client's own tenant. Raise UsageError if an option is wrong."""
    status, tenant = options.get("status"), options.get("tenant")
    if tenant:
        check_tenant(tenant)
    if own_tenant is not None and tenant not in (None, own_tenant):
        raise Forbidden(
            f"tenant {tenant!r}: this client lists the tasks of tenant {own_tenant!r} alone (ROBOCO_TENANT)"
        )
    names = (status,) if isinstance(status, str) else tuple(status or ())
    team = options.get("team")
    return TaskFilter(
        statuses=parse_statuses(names),
        tenant=tenant if own_tenant is None else own_tenant,
        teams=None if team is None else frozenset((team,) if isinstance(team, str) else team),
        since=_with_zone("since", options.get("since")),
        until=_with_zone("until", options.get("until")),
        text=options.get("text") or "",
        what_if=options.get("what_if"),
    )


def check_limit(limit: int) -> int:
    """Return the limit of a page. Raise UsageError if it is not between 1 and 1,000."""
    if 1 <= limit <= MAX_LIMIT:
        return limit
    raise UsageError(f"limit {limit} is not allowed: a page has 1 to {MAX_LIMIT} tasks")


def iterate(index: TaskIndex, wanted: TaskFilter) -> Iterator[TaskEntry]:
    """Yield each matching task once.

    A task that changes while the pages are read moves to the front, and its old place is empty. So further rounds read
    the latest changes again, until a round finds no new task.
    """
    return (entry for entry in iterate_with_gaps(index, wanted) if entry is not None)


def iterate_with_gaps(index: TaskIndex, wanted: TaskFilter) -> Iterator[TaskEntry | None]:
    """Do the same as `iterate`, and also yield None after each page, which may be empty: a caller can stop there."""
    seen = set[str]()
    for _ in range(_MAX_ROUNDS):
        newest, found = None, False
        for entry in _all_pages(index, wanted):
            if entry is None:
                yield None
                continue
            newest = newest or entry.updated_at
            if entry.task_id not in seen:
                seen.add(entry.task_id)
                found = True
                yield entry
        if newest is None or not found:
            return
        since = newest - _CLOCK_DIFFERENCE
        wanted = replace(wanted, since=since if wanted.since is None else max(since, wanted.since))


def with_current_reason(store: TaskStore, entry: TaskEntry, now: float) -> TaskEntry:
    """Return the entry of a task; of one that should progress, with the reason for which it waits at this moment.

    A state that cannot be read, as one of a newer release, hides no other task: the entry stays as it is.
    Cost: one read of Redis for a queued or running task.
    """
    if entry.waits or entry.status not in (TaskStatus.QUEUED, TaskStatus.RUNNING):
        return entry
    try:
        task = store.load(entry.task_id, 1)
    except (ValueError, KeyError, CorruptHistory):
        return entry
    reason = "" if task is None or task.position.status is not entry.status else current_reason(task, now)
    return entry if reason == entry.reason else entry.model_copy(update={"reason": short_reason(reason)})


def _all_pages(index: TaskIndex, wanted: TaskFilter) -> Iterator[TaskEntry | None]:
    cursor = ""
    while True:
        page = index.page(wanted, cursor, _PAGE_SIZE)
        yield from page.entries
        yield None
        if not (cursor := page.cursor):
            return


def _with_zone(name: str, time: datetime | None) -> datetime | None:
    if time is not None and time.tzinfo is None:
        raise UsageError(f"{name} {time.isoformat()} has no time zone; use datetime.now(UTC), for example")
    return time
