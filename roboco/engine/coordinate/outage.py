"""outage: a model server refuses a turn, fails or cannot be reached.

    refused ─► deferred 1, 2, 4, ... 60 s ─► refused until the timeout ─► paused ─► the model answers another task
               (no thread waits; ended as    (coordinator's pass)         (inbox item)   ─► resumed (by the sweeper)
               soon as the model answers
               another task)
                                                                             ▲                      │
                                     paused again, until a user resumes it ──┴── refused again ◄────┘

Only an error for which no retry can succeed ends a task. A task that was resumed because its model had answered another
one, and is refused again, has another cause: others do not resume it a second time. If a worker dies between two
of these steps, the turn stays deferred, or the task stays paused. The user, or the next answer of the model, resumes
it.
"""

import logging
from collections.abc import Iterable

from roboco.domain.canonical_json import well_formed
from roboco.domain.inbox.item import Item, Pause, Resume
from roboco.domain.paths import RESUME_PREFIX, applied_folder
from roboco.domain.rate_report import NEXT_ATTEMPT
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.url import strip_credentials
from roboco.engine.accept.accept_item import accept_item, stored_item, stored_pauses
from roboco.engine.engine import Engine, Services, WorkspaceRecords
from roboco.errors import ModelError, UsageError
from roboco.ports.snapshot import Phase, Snapshot

_log = logging.getLogger(__name__)

MAX_BACKOFF = 60.0
"""The most seconds for which a turn is deferred if the server sends no Retry-After."""
MAX_RETRY_AFTER = 900.0
"""The most seconds for which a turn is deferred, whatever Retry-After the server sends."""
OUTAGE_TIMEOUT = 900.0
"""Seconds for which a turn is retried, unless its model profile says otherwise."""
FALLBACK_TIME = 120.0
"""Seconds for which the other profiles of a turn are tried after its own profile is out, before the task is paused."""
MAX_ERROR_CHARS = 400
"""The most characters of an error in the reason of a wait."""


def retry_delay(error: ModelError, refusals: int) -> float:
    """Return the seconds until the next request: twice as many after each refusal, and at least the Retry-After."""
    backoff = min(MAX_BACKOFF, 2.0 ** min(refusals, 10))
    return min(MAX_RETRY_AFTER, max(backoff, error.retry_after or 0.0))


def wait_reason(agent: str, error: ModelError, seconds: float) -> str:
    """Return why the turn waits."""
    message = strip_credentials(well_formed(error.message))[:MAX_ERROR_CHARS]
    return f"{agent} waits: {message}{NEXT_ATTEMPT}{seconds:.0f} s"


def is_timeout_exceeded(team: Team, task: Snapshot) -> bool:
    """Return True if the deferred turn was refused for longer than its model profile allows."""
    if task.attempt.claimed or not task.refusals.count:
        return False
    profile = team.profile(team.agent(task.position.agent))
    return task.refusals.seconds >= _timeout(profile) + (FALLBACK_TIME if profile.fallback else 0)


def seconds_to_fallback(team: Team, task: Snapshot) -> float | None:
    """Return the seconds of refusals after which another profile answers the turn, or None if there is none."""
    profile = team.profile(team.agent(task.position.agent))
    return _timeout(profile) - task.refusals.seconds if profile.fallback else None


def _timeout(profile: ModelProfile) -> float:
    return OUTAGE_TIMEOUT if profile.outage_timeout is None else profile.outage_timeout


def pause_task(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Pause the task until the user resumes it or the model's server answers another request.

    Return False if that pause has been set and ended since this refusal: then the turn is tried once more.
    """
    item_id = f"outage-{task.position.seq}-{task.position.epoch}-{task.refusals.count}"
    item = stored_item(engine.workspace, task_id, item_id)
    if item is not None and item.applied_at_seq is not None:
        return False
    if item is None:
        cause = task.position.reason.rpartition(NEXT_ATTEMPT)[0] or task.position.reason
        again = _was_resumed_by_answer(engine.workspace, task_id, task.position.seq)
        until = (
            "It was resumed before because the model had answered another task, and was refused again: it continues "
            "when you resume it"
            if again
            else "The task continues when it is resumed, or when the model answers another task"
        )
        why = f"{cause}; this has lasted {task.refusals.seconds:.0f} s. {until}"
        _log.warning("task %s is paused: %s", task_id, why)
        item = Pause(item_id=item_id, created_at=engine.now(), outage="" if again else task.position.agent, reason=why)
    accept_item(engine, task_id, item, enforce_capacity=False)
    return True


def _was_resumed_by_answer(workspace: WorkspaceRecords, task_id: str, seq: int) -> bool:
    """Return True if the turn at this position was paused by an outage before, and an answer has resumed it."""
    prefix = f"resumed-outage-{seq}-"
    return any(name.startswith(prefix) for name in workspace.files.names(applied_folder(task_id)))


def register_for_answer(services: Services, task_id: str, team: Team, pending_items: Iterable[Item]) -> None:
    """If an outage has paused the task, register it for the next answer of the model. Redis may have lost that."""
    for item in pending_items:
        if isinstance(item, Pause) and item.outage:
            services.rate_limiter.add_waiting_task(team.profile(team.agent(item.outage)), task_id)


def schedule_resumptions(engine: Engine, profile: ModelProfile, tenant: str) -> None:
    """Let the sweeper resume tasks that await an answer to the tenant's key, up to a hundred for one answer."""
    tasks = engine.services.rate_limiter.waiting_tasks(profile, tenant)
    for task_id in tasks:
        engine.tasks.schedule.set(f"{RESUME_PREFIX}{task_id}")
    engine.services.rate_limiter.remove_waiting_tasks(profile, tenant, tasks)


def resume_task(engine: Engine, task_id: str) -> None:
    """Resume the task if an outage has paused it, or end its delay. A pause that the user has set remains."""
    ends = tuple(sorted(item.item_id for item in stored_pauses(engine.workspace, task_id) if item.outage))
    if not ends:
        _end_delay(engine, task_id)
        return
    item_id = f"resumed-{ends[-1]}"
    resumption = Resume(item_id=item_id, created_at=engine.now(), supersedes=ends)
    item = stored_item(engine.workspace, task_id, item_id) or resumption
    try:
        accept_item(engine, task_id, item, enforce_capacity=False)
    except UsageError as error:
        _log.info("task %s is not resumed after an outage: %s", task_id, error)


def _end_delay(engine: Engine, task_id: str) -> None:
    """Dispatch a turn that the model's server has refused, and that waits for its next attempt."""
    task = engine.tasks.task_store.load(task_id, 1)
    if task is None or task.position.phase is not Phase.TURN or task.attempt.claimed:
        return
    if task.attempt.deferred_for and task.refusals.count:
        dispatch_deferred(engine, task_id, task)


def dispatch_deferred(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Dispatch a deferred turn, unless another process has done so since the task was loaded."""
    if engine.tasks.leases.count_redelivery(task_id, task.position.epoch, dispatched=True):
        engine.tasks.schedule.set(task_id, engine.policy.redelivery_delay)
        engine.services.dispatcher.turn(task.turn_order(task_id), task.position.agent)
