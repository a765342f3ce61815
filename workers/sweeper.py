"""sweeper: threads of the main process of a coordinator worker, from ready to shutdown.

    one thread:  load missing scripts ─► fill the schedule, page by page ─► open the lanes, or close them
    the others:  lanes, which claim and process the due entries of the shards (sweep_lanes.py)

The first thread loads the Lua scripts that Redis and the broker do not hold: the other pools have no permission to load
scripts, and a restarted Redis holds none. While it does not get an answer, the lanes stay closed for FILL_TIMEOUT
seconds, because Redis may have been restarted. Then they sweep the shards that answer.
"""

import logging
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from roboco.broker.background import logged, run_periodically
from roboco.broker.broker_scripts import BrokerScripts
from roboco.domain.ids import SHARDS
from roboco.engine.operate.fill import FillStep, fill_page
from roboco.engine.operate.sweep import sweep_shard
from roboco.errors import RobocoError
from roboco.redis.client import connect_fail_fast
from roboco.redis.scripts import load_missing, script_texts
from roboco.workers.process_engine import ProcessEngine
from roboco.workers.sweep_lanes import THREADS, SweepLanes

_log = logging.getLogger(__name__)

CONNECTIONS = THREADS + 2
"""Connections to the broker: one for each thread that sends a message, or reads the length of a queue."""
SWITCHES_INTERVAL = 5.0
"""Seconds between two writes of the switches to Redis."""
FILL_TIMEOUT = 10.0
"""Seconds for which no pass starts because the fill gets no answer."""


def install_sweeper(app: Celery, engine: ProcessEngine) -> None:
    """Sweep while the worker of this process runs."""
    client, interval = connect_fail_fast(engine.settings.redis_url), engine.settings.sweep_interval
    of_roboco = partial(load_missing, client, script_texts().values())
    of_kombu = BrokerScripts(app).load_missing
    first_shard = random.randrange(SHARDS)  # noqa: S311 - any shard will do
    lanes = SweepLanes(lambda shard: sweep_shard(engine(), shard, limit=1), interval, first_shard)

    def on_answer(silent_for: float) -> None:
        engine().process.redis_silence.end(engine().clock.now(), silent_for)
        lanes.retry_failed()

    fill = ScheduleFill(lanes, lambda: fill_page(engine()), on_answer)
    app.conf.broker_pool_limit = CONNECTIONS

    def begin(**_: Any) -> None:
        _load_scripts(of_roboco, of_kombu)
        engine.telemetry.export_backlog()

    def act() -> None:
        _load_scripts(of_roboco, of_kombu)
        fill.run()

    def repair_switches() -> None:  # in a separate thread, so that it delays no sweep
        logged(lambda: engine().process.switches.repair(), "the switches in Redis are not compared with their record")

    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(fill.stop, weak=False)
    run_periodically(app, "roboco-sweeper", interval, act)
    run_periodically(app, "roboco-switches", SWITCHES_INTERVAL, repair_switches)
    for number in range(THREADS):
        run_periodically(app, f"roboco-sweeper-{number}", interval, lanes.run)


class ScheduleFill:
    """Fills the schedule, and opens the lanes when passes may start.

    When the fill gets an answer again, `on_answer` gets the seconds for which it got none.
    """

    def __init__(
        self,
        lanes: SweepLanes,
        fill: Callable[[], FillStep],
        on_answer: Callable[[float], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lanes = lanes
        self._on_answer = on_answer
        self._is_silent = False
        self._fill = fill
        self._clock = clock
        self._answered_at = clock()
        self._is_stopped = False

    def run(self) -> None:
        """Process pages until none is left for this process."""
        while not self._is_stopped and self._process_page():
            pass

    def stop(self, **_: Any) -> None:
        """Let all threads end after the work that they do now. A signal handler may call it."""
        self._is_stopped = True
        self._lanes.is_open = False

    def _process_page(self) -> bool:
        try:
            step = self._fill()
        except RobocoError as error:
            self._is_silent = True
            _log.warning("filling the schedule failed and is tried again: %s", error)
        except Exception:
            self._is_silent = True
            _log.exception("filling the schedule failed and is tried again")
        else:
            if self._is_silent:
                self._is_silent = False
                self._on_answer(self._clock() - self._answered_at)
            self._answered_at = self._clock()
            self._open_lanes(not step.blocks_passes)
            return step.moved
        self._open_lanes(self._clock() - self._answered_at >= FILL_TIMEOUT)
        return False

    def _open_lanes(self, may_sweep: bool) -> None:
        self._lanes.is_open = may_sweep and not self._is_stopped


def _load_scripts(*loads: Callable[[], int]) -> None:
    for load in loads:
        logged(load, "the loading of scripts failed and is tried again")
