"""The queues that `roboco doctor` finds consumed, even if workers answer slowly."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from roboco.broker.names import QUEUES
from roboco.cli.doctor import broker as check_broker


def app_with_answers(*answers: dict[str, list[dict[str, str]]] | None) -> tuple[Any, list[float]]:
    """Return an application whose workers give one answer to each question, and the timeouts of the questions."""
    timeouts: list[float] = []

    def inspect(timeout: float, connection: Any) -> Any:
        timeouts.append(timeout)
        return SimpleNamespace(active_queues=lambda: answers[len(timeouts) - 1])

    return SimpleNamespace(control=SimpleNamespace(inspect=inspect), connection_for_write=nullcontext), timeouts


def queue_records(*queues: str) -> list[dict[str, str]]:
    return [{"name": queue} for queue in queues]


def test_a_slow_worker_is_asked_again() -> None:
    app, timeouts = app_with_answers({"quick": queue_records(QUEUES[0])}, {"slow": queue_records(*QUEUES[1:])})
    assert check_broker._consumed_queues(app) == {"quick": {QUEUES[0]}, "slow": set(QUEUES[1:])}
    assert len(timeouts) == 2


def test_workers_are_asked_once_if_each_queue_is_consumed() -> None:
    app, timeouts = app_with_answers({"all": queue_records(*QUEUES)})
    assert check_broker._consumed_queues(app) == {"all": set(QUEUES)}
    assert len(timeouts) == 1


def test_no_queue_is_consumed_if_no_worker_answers() -> None:
    app, timeouts = app_with_answers(None, None, None)
    assert check_broker._consumed_queues(app) == {}
    assert len(timeouts) == 3
