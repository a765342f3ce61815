"""compose_app: the Celery application that each pool's composition root starts with, and its engine."""

import gc
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from celery import Celery
from celery.signals import celeryd_after_setup, celeryd_init

from roboco.broker.app import DeadLetterSink, app_settings, create_app
from roboco.broker.dispatcher import NODE_SETTING
from roboco.broker.health.bootstep import add_health_step
from roboco.broker.names import AGENTS_QUEUE, TOOLS_QUEUE
from roboco.broker.redacted_request import LogRedaction
from roboco.broker.transport import guard_transports
from roboco.domain.dead_letter import DeadLetter
from roboco.model.lazy import preload_model
from roboco.process.per_process import PerProcess
from roboco.process.process_guard import guard_process
from roboco.redis.client import connect_fail_fast
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.settings import Settings, load_settings
from roboco.tools.sandbox.budget import log_sandbox_share, read_budget
from roboco.workers.credentials import check_credentials
from roboco.workers.draining import install_draining
from roboco.workers.process_engine import ProcessEngine
from roboco.workers.registration import install_registration
from roboco.workers.store_check import check_store
from roboco.workers.tasks import register

HEALTH_TIMEOUT: Final = 60.0
"""Seconds without a sign of life after which a worker is unhealthy."""
_log = logging.getLogger(__name__)


def compose_worker(
    queues: Sequence[str], pool: str, concurrency: int | None, **changes: Any
) -> tuple[Celery, ProcessEngine]:
    """Return an application that consumes these queues, and the engine of its processes."""
    guard_process()
    guard_transports()
    settings = load_settings()
    letters = _dead_letters(settings)

    basis = app_settings(
        settings.broker,
        pool=pool,
        concurrency=concurrency,
        sink=counting_sink(letters.add, lambda letter: engine.telemetry.count_refusal(letter)),
        keys=settings.signing_keys,
    )
    app = create_app(basis | changes, queues)
    engine = ProcessEngine(app, settings)
    register(app, engine)
    logging.getLogger("celery.app.trace").addFilter(LogRedaction())
    celeryd_init.connect(partial(_note_node, app), weak=False)
    celeryd_after_setup.connect(partial(_note_concurrency, engine, TOOLS_QUEUE in queues), weak=False)
    celeryd_init.connect(partial(_import_tool_modules, settings.tool_modules), weak=False)
    celeryd_init.connect(partial(check_credentials, app, settings), weak=False)
    celeryd_init.connect(partial(check_store, app, settings), weak=False)
    install_draining(app, engine.deadline)
    install_registration(app, settings, queues, engine.deadline)
    if AGENTS_QUEUE in queues:
        preload_model()  # before the pool forks: each child would import it again, for 0.7 s of processor time
        _silence_requests()
    gc.collect()
    gc.freeze()  # a full collection of all imported objects would stop all streams of a process for 80 to 180 ms
    return app, engine


def install_health_check(app: Celery, settings: Settings, pool: str) -> None:
    """Have the workers of this application note their liveness as `POOL.json`, if ROBOCO_HEALTH_DIR names a folder."""
    if settings.health_dir is not None:
        add_health_step(app, pool, settings.health_dir, HEALTH_TIMEOUT)


def counting_sink(store: DeadLetterSink, count: DeadLetterSink) -> DeadLetterSink:
    """Return a sink that stores a dead letter and then counts it. If the count fails, the sink logs it and returns.

    An exception of the sink means that the letter is not stored: the consumer returns the message to its queue.
    """

    def store_and_count(letter: DeadLetter) -> None:
        store(letter)
        try:
            count(letter)
        except Exception:
            _log.exception(
                "dead letter %s is stored, but not counted in roboco_refused_messages_total", letter.letter_id
            )

    return store_and_count


def _import_tool_modules(modules: Sequence[str], **_: Any) -> None:
    """Import the modules of ROBOCO_TOOL_MODULES before the worker takes work; exit if that fails."""
    sys.path.append(os.getcwd())
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # a user's module may raise anything
            if not (isinstance(error, ModuleNotFoundError) and error.name == module):  # else there is no such module
                _log.exception("module %r of ROBOCO_TOOL_MODULES cannot be imported", module)
            raise SystemExit(
                f"this worker ends: module {module!r} of ROBOCO_TOOL_MODULES cannot be imported: "
                f"{type(error).__name__}: {error}\n"
                "install it where the workers run, start them in its folder, or change ROBOCO_TOOL_MODULES"
            ) from error


def _silence_requests() -> None:
    """Log no line for each HTTP request: the line of its Celery task follows. Levels that an operator sets remain."""
    requests = logging.getLogger("httpx2")
    if requests.level == logging.NOTSET:
        requests.setLevel(logging.WARNING)


def _note_node(app: Celery, sender: str, **_: Any) -> None:
    app.conf[NODE_SETTING] = sender  # before the pool forks, so that its children know it


def _note_concurrency(engine: ProcessEngine, runs_tools: bool, instance: Any, **_: Any) -> None:
    """Note the concurrency of the worker, with the options of its command line, before its pool forks."""
    engine.concurrency = max(instance.concurrency, getattr(instance, "max_concurrency", None) or 0)  # --autoscale
    if runs_tools:
        log_sandbox_share(read_budget(engine.settings.sandbox_memory, engine.concurrency))


def _dead_letters(settings: Settings) -> RedisDeadLetters:
    connected = PerProcess(lambda: connect_fail_fast(settings.redis_url))
    return RedisDeadLetters(connected, Keys(settings.prefix))
