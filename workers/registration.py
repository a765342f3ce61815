"""registration: a worker registers at its start and every few seconds, in a thread of its main process.

    every 3 s ─► register: pools, release, what it runs ─► asked to drain? ─► SIGTERM to itself
    SIGTERM ───► registered as draining until the process ends ─► unregistered

A worker does not run beside another deployment whose messages or streams would be mixed with its own:

    broker        one deployment for each database of Redis or virtual host: the names of queues are fixed
    Redis         the databases of a server share their channels: one deployment for each prefix

Both are checked at the start of each worker. The broker is checked again later, because it may not have answered then,
or may have lost its record.

The thread does not use the engine, but its own connections and limits: the engine of the main process is created later,
when the concurrency of the worker and its metrics are known.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

from celery import Celery
from celery.signals import celeryd_init, worker_shutdown
from celery.worker import state

from roboco.broker.background import run_periodically
from roboco.broker.broker_owner import Deployment, ForeignBroker, check_broker_owner, claim_broker
from roboco.engine.registration import check_format, register
from roboco.engine.worker_status import workspace_name
from roboco.errors import RobocoError, TransientError, UsageError
from roboco.ports.registry import Registration, WorkerLoad, WorkspaceIdentity
from roboco.ports.workspace import Files
from roboco.redis.client import connect_fail_fast
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts, translating_errors
from roboco.redis.shared_channels import find_shared_channels
from roboco.redis.task_store import RedisTaskStore, StoredSteps
from roboco.redis.worker_registry import RedisWorkerRegistry
from roboco.settings import Settings
from roboco.workers.draining import DrainDeadline
from roboco.workspace.open import open_workspace

_log = logging.getLogger(__name__)

CLAIM_INTERVAL = 20.0
"""Seconds between two claims of the broker, which restore the record of a broker that was emptied."""
REGISTRATION_INTERVAL = 3.0
"""Seconds between two registrations of a worker."""
MAX_RUNNING_IDS = 100
"""Ids of running Celery tasks that a worker registers."""
MAX_ID_CHARS = 255
"""Characters of such an id: a producer may choose it."""
_EXIT_FAILURE = 1
_STORE_TIMEOUT = 5.0
"""The most seconds for which the thread waits for an answer of the store."""


def install_registration(app: Celery, settings: Settings, queues: Sequence[str], deadline: DrainDeadline) -> None:
    """Register the workers of this application in the pools of these queues.

    A worker exits at its start if its workspace is not the coordinators', or if its broker or its channels are another
    deployment's. If Redis or the store does not answer then,
    the worker starts. A difference found later is logged only, because Redis may have lost the registration.
    """
    pools = tuple(queue.rpartition(".")[2] for queue in queues)

    def begin(sender: str, **_: Any) -> None:
        registrar = Registrar(settings, sender, pools, deadline)
        interval = REGISTRATION_INTERVAL
        run_periodically(app, "roboco-registration", interval, lambda: _register_or_log(registrar), while_draining=True)
        worker_shutdown.connect(registrar.end, weak=False)
        run_periodically(app, "roboco-broker-claim", CLAIM_INTERVAL, lambda: _claim_again(app, registrar))
        try:
            _check_channels(settings)
            registrar()
            _claim_broker(app, registrar)
        except TransientError as error:
            _log.warning("this worker is not registered yet: %s", error)
        except RobocoError as error:
            registrar.end()
            raise SystemExit(f"this worker ends: {error}") from error

    celeryd_init.connect(begin, weak=False)


def _register_or_log(register: Callable[[], None]) -> None:
    try:
        register()
    except TransientError as error:
        _log.info("this worker is not registered now: %s", error)
    except Exception as error:  # the thread must survive
        _log.error("this worker is not registered: %s", error)


def _check_channels(settings: Settings) -> None:
    """Raise UsageError if a deployment in another database of this Redis has the same prefix, and so the same channels.

    TransientError if Redis does not answer.
    """
    with translating_errors(), connect_fail_fast(settings.redis_url) as client:
        found = find_shared_channels(client, Keys(settings.prefix))
    if found is not None and not found.has_priority:
        raise UsageError(str(found))
    if found is not None:
        _log.error("%s", found)


def _claim_broker(app: Celery, registrar: "Registrar") -> None:
    """Record that the broker carries the messages of this deployment. Raise ForeignBroker if it is another one's.

    A worker that is no coordinator only reads the record: a false one would end the workers of all pools.
    """
    known = registrar.deployments()
    if known is None:
        return
    own, earlier = known
    try:
        if registrar.coordinates:
            claim_broker(app, own, earlier)
        else:
            check_broker_owner(app, lambda: own, earlier)
    except TransientError as error:
        _log.warning("whether another deployment uses this broker is not known: %s", error)


def _claim_again(app: Celery, registrar: "Registrar") -> bool:
    """Claim the broker again; end the worker, and return False, if it is another deployment's."""
    try:
        _claim_broker(app, registrar)
    except ForeignBroker as error:
        _log.critical("this worker ends: %s", error)
        vars(state)["should_stop"] = _EXIT_FAILURE  # the main loop ends the worker with this exit code
        return False
    return True


class Registrar:
    """Registers the worker with the node name `name` each time it is called."""

    def __init__(self, settings: Settings, name: str, pools: tuple[str, ...], deadline: DrainDeadline) -> None:
        scripts, keys = Scripts(connect_fail_fast(settings.redis_url)), Keys(settings.prefix)
        self._settings = settings
        self._pools = pools
        self.coordinates = "coordinator" in pools
        self._deadline = deadline
        self._version = metadata.version("roboco")
        self._has_ended = False
        self._workers = RedisWorkerRegistry(scripts, keys, name)
        self._schedule = RedisSchedule(scripts, keys)
        self._scripts, self._keys = scripts, keys
        self._worker: tuple[Files, Registration] | None = None
        self._replaced: WorkspaceIdentity | None = None

    def deployments(self) -> tuple[Deployment, Deployment | None] | None:
        """Return this deployment, and the one that it had with an earlier workspace; None before it has registered."""
        if self._worker is None:
            return None
        prefix, earlier = self._settings.prefix, self._replaced
        own = Deployment(prefix, self._worker[1].workspace.id)
        return own, None if earlier is None else Deployment(prefix, earlier.id)

    def __call__(self) -> None:
        """Register. UsageError if the workspace is not the coordinators', or if an earlier release stored its tasks.

        TransientError if a server does not answer. The workspace is read until that has succeeded once.
        """
        if self._has_ended:
            return
        if self._worker is None:
            settings, wait = self._settings, min(_STORE_TIMEOUT, self._settings.s3_timeout)
            workspace = open_workspace(settings.workspace, settings.s3_endpoint_url, wait, attempts=1)
            files = workspace.files
            name = workspace_name(files, settings.workspace_address)
            self._replaced = self._workers.workspace()
            tasks = RedisTaskStore(self._scripts, self._keys, StoredSteps(workspace.histories.read))
            check_format(files, tasks, name.address)
            self._worker = files, Registration(self._pools, settings.tool_modules, name)
        files, worker = self._worker
        left = self._deadline.seconds_left()
        now = replace(worker, load=_read_load(), version=self._version, drains_for=left)
        register(self._workers, self._schedule, files, now)
        if left is None and (request := self._workers.take_drain_request()) is not None:
            _log.warning("an operator has asked this worker to drain")
            self._deadline.ask(request.timeout)

    def end(self, **_: Any) -> None:
        """Unregister the worker, whose pool has ended."""
        self._has_ended = True
        try:
            self._workers.unregister(self._pools)
        except TransientError as error:
            _log.info("this worker is not unregistered, and counts as lost: %s", error)


def _read_load() -> WorkerLoad:
    """Return the Celery tasks that this worker runs now."""
    now = time.time()
    active: Any = state.active_requests
    requests = [reference() for reference in tuple(active.data)]  # a copy, because threads of the pool change it
    found = sorted((request.time_start or now, str(request.id)[:MAX_ID_CHARS]) for request in requests if request)
    listed = found[:MAX_RUNNING_IDS]
    return WorkerLoad(len(found), tuple(name for _, name in listed), tuple(round(at, 1) for at, _ in listed))
