"""Two plain Celery tasks that send each other: the baseline of a turn.

    celery -A tests.bench.processes.plain_celery.plain_coordinator worker      prefork, as Roboco's coordinator
    celery -A tests.bench.processes.plain_celery.plain_agents worker           threads, as Roboco's agents

Broker, settings, pools and acknowledgement are the same as Roboco's; the queues are separate, and the tasks do nothing.
Consumer and transport are Celery's, without gossip and mingle, which Roboco does not use either.
"""

import json
import time
from collections import defaultdict
from typing import Any

import redis
from celery import Celery
from celery.worker.consumer import Consumer
from kombu import Queue

from roboco.broker.app import app_settings, create_app
from roboco.settings import load_settings

COORDINATOR_QUEUE, AGENTS_QUEUE = "bench.coordinator", "bench.agents"
ADVANCE, TURN = "bench.advance", "bench.turn"
POOLS = ("plain_coordinator", "plain_agents")


class PlainConsumer(Consumer):
    """Celery's consumer without gossip and mingle, which would make it slower."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, without_gossip=True, without_mingle=True)


def create_plain_app(broker: str, queues: tuple[str, ...] = (), **changes: Any) -> Celery:
    """Return an application with Roboco's settings that sends to the queues of the bench and consumes `queues`."""
    own = {
        "worker_consumer": f"{__name__}:PlainConsumer",
        "task_default_queue": COORDINATOR_QUEUE,
        "task_queues": [Queue(name, routing_key=name) for name in (COORDINATOR_QUEUE, AGENTS_QUEUE)],
        "task_routes": {ADVANCE: {"queue": COORDINATOR_QUEUE}, TURN: {"queue": AGENTS_QUEUE}},
    }
    return create_app(app_settings(broker) | own | changes, queues)


def send(app: Celery, name: str, chain: str, left: int) -> None:
    """Send a task in the same way as Roboco's dispatcher."""
    arguments = {"chain": chain, "left": left}
    app.send_task(name, kwargs=arguments, kwargsrepr=repr(arguments), ignore_result=True)


_settings = load_settings()
plain_coordinator = create_plain_app(
    _settings.broker, (COORDINATOR_QUEUE,), worker_pool="prefork", worker_concurrency=4, worker_prefetch_multiplier=4
)
plain_agents = create_plain_app(
    _settings.broker, (AGENTS_QUEUE,), worker_pool="threads", worker_concurrency=_settings.agents_concurrency
)
_times: defaultdict[str, list[float]] = defaultdict(list)
_ends = redis.Redis.from_url(_settings.redis_url)
"""Receives the times of an ended chain, on the list with its name; those of NAME:17 go to the list NAME."""


@plain_coordinator.task(name=ADVANCE, acks_late=True, reject_on_worker_lost=False)
def advance(chain: str, left: int) -> None:
    send(plain_coordinator, TURN, chain, left)


@plain_agents.task(name=TURN)
def turn(chain: str, left: int) -> None:
    _times[chain].append(time.time())
    if left:
        send(plain_agents, ADVANCE, chain, left - 1)
        return
    _ends.rpush(chain.partition(":")[0], json.dumps(_times.pop(chain)))
