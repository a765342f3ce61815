"""Plain Celery tasks that send themselves: the least that a worker of Celery spends on a task.

    celery -A tests.bench.processes.plain_cpu.lean worker            threads and settings of Roboco's agents, events
    celery -A tests.bench.processes.plain_cpu.lean_silent worker     the same without events

Like a turn, each task receives one message and sends one. Each worker has a separate queue with the name of the
application here. Consumer, without gossip and mingle, and transport are Celery's.
"""

import time
from collections.abc import Sequence
from typing import Any

import redis
from celery import Celery
from kombu import Queue

from roboco.broker.app import app_settings, create_app
from roboco.settings import load_settings

POOLS = {"lean": "lean, events", "lean_silent": "lean, no events"}
"""The workers, each with a short description."""

_settings = load_settings()
_ends = redis.Redis.from_url(_settings.redis_url)
"""The Redis that holds the time of each chain's end, in the list of its name."""


def _application(name: str) -> Celery:
    app = create_app(
        app_settings(_settings.broker, pool="threads", concurrency=_settings.agents_concurrency)
        | {
            "worker_consumer": "tests.bench.processes.plain_celery:PlainConsumer",
            "worker_send_task_events": name == "lean",
            "task_send_sent_event": name == "lean",
            "task_default_queue": name,
            "task_queues": [Queue(name, routing_key=name)],
            "task_routes": {},
        },
        (name,),
    )

    def hop(chain: str, left: int) -> None:
        if left:
            send(app, chain, left - 1)
        else:
            _ends.rpush(chain, time.time())

    register: Any = app.task(name="bench.hop", shared=False)
    register(hop)
    return app


def send(app: Celery, chain: str, left: int) -> None:
    """Send a task that sends `left` more tasks, one after the other."""
    arguments = {"chain": chain, "left": left}
    app.send_task(
        "bench.hop", kwargs=arguments, kwargsrepr=repr(arguments), ignore_result=True, queue=app.conf.task_default_queue
    )


def start(broker: str, pool: str, chains: Sequence[str], hops: int) -> float:
    """Send the first task of each chain to the pool's worker. Return the time before it, in Unix seconds."""
    with Celery("bench", broker=broker, set_as_current=False) as app:
        app.conf.task_ignore_result = True
        began = time.time()
        for chain in chains:
            app.send_task("bench.hop", kwargs={"chain": chain, "left": hops - 1}, ignore_result=True, queue=pool)
    return began


APPLICATIONS = {name: _application(name) for name in POOLS}
globals().update(APPLICATIONS)
