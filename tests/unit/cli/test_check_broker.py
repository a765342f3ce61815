"""What `roboco doctor` finds at the broker, where workers are slow to answer."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from roboco.adapters.celery.names import QUEUES
from roboco.cli.doctor import broker as check_broker


def app_of(*answers: dict[str, list[dict[str, str]]] | None) -> tuple[Any, list[float]]:
    """An application whose workers answer so to each question, and the times that they had for it."""
    asked: list[float] = []

    def inspect(timeout: float, connection: Any) -> Any:
        asked.append(timeout)
        return SimpleNamespace(active_queues=lambda: answers[len(asked) - 1])

    return SimpleNamespace(control=SimpleNamespace(inspect=inspect), connection_for_write=nullcontext), asked


def consuming(*queues: str) -> list[dict[str, str]]:
    return [{"name": queue} for queue in queues]


def test_a_worker_that_is_slow_is_asked_again() -> None:
    app, asked = app_of({"quick": consuming(QUEUES[0])}, {"slow": consuming(*QUEUES[1:])})
    assert check_broker._consumed_queues(app) == {"quick": {QUEUES[0]}, "slow": set(QUEUES[1:])}
    assert len(asked) == 2


def test_nobody_is_asked_again_when_each_queue_has_somebody() -> None:
    app, asked = app_of({"all": consuming(*QUEUES)})
    assert check_broker._consumed_queues(app) == {"all": set(QUEUES)}
    assert len(asked) == 1


def test_where_nobody_answers_there_is_nobody() -> None:
    app, asked = app_of(None, None, None)
    assert check_broker._consumed_queues(app) == {}
    assert len(asked) == 3
