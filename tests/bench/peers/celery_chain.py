"""The errand with Celery alone: a chain of three tasks, whose messages carry the texts of the earlier agents.

Tasks are acknowledged late, so that the broker redelivers those of a killed worker after the visibility timeout, which
must exceed the longest turn. Only the last result is stored.
"""

from collections.abc import Sequence
from typing import Any

from celery import Celery, chain

TURN = "errand.turn"
VISIBILITY_TIMEOUT = 60
"""Seconds after which the broker redelivers the messages of a dead worker."""


def application(url: str) -> Celery:
    """Return the application of workers and callers."""
    app = Celery("errand", broker=url, backend=url)
    app.conf.update(
        broker_transport_options={"visibility_timeout": VISIBILITY_TIMEOUT},
        result_backend_transport_options={"visibility_timeout": VISIBILITY_TIMEOUT},
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
    )
    return app


def errand(app: Celery, task: str, prompts: Sequence[str]) -> Any:
    """Return the chain, whose last task has this id."""
    ids = task_ids(task, len(prompts))
    turns: list[Any] = [
        app.signature(TURN, kwargs={"task": task, "prompt": prompt}).set(task_id=one)
        for one, prompt in zip(ids, prompts, strict=True)
    ]
    for turn in turns[:-1]:
        turn.set(ignore_result=True)
    turns[0].args = ([],)
    return chain(*turns, app=app)


def task_ids(task: str, turns: int) -> list[str]:
    """Return the ids of the Celery tasks in the chain."""
    return [*(f"{task}-{number}" for number in range(turns - 1)), task]
