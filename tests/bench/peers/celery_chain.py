"""The errand as a shop writes it with Celery alone: three tasks in a chain, what was said travelling in the messages.

Tasks are acknowledged late, so that a killed worker's come back after the visibility timeout, which must be longer than
the longest turn. Only the last result is kept.
"""

from collections.abc import Sequence
from typing import Any

from celery import Celery, chain

TURN = "errand.turn"
VISIBILITY_TIMEOUT = 60
"""Seconds after which a dead worker's messages come back."""


def application(url: str) -> Celery:
    """The application, of workers and callers."""
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
    """The chain, whose last task has this id."""
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
    """The ids of the chain's Celery tasks."""
    return [*(f"{task}-{number}" for number in range(turns - 1)), task]
