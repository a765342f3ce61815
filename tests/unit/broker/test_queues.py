"""Priorities are numbers, whose order depends on the kind of broker."""

import pytest

from roboco.broker.app import app_settings, create_app
from roboco.broker.queues import FairQueues
from roboco.domain.status import Priority

PRIORITIES: list[Priority] = ["high", "normal", "low"]


@pytest.mark.parametrize(
    ("url", "first_is_lowest"),
    [
        ("redis://broker:6379/0", True),
        ("rediss://broker:6379/0", True),
        ("sentinel://a:26379;sentinel://b:26379", True),
        ("amqp://broker", False),
        ("amqps://broker", False),
    ],
)
def test_a_higher_priority_is_consumed_first(url: str, first_is_lowest: bool) -> None:
    """Kombu consumes the lowest number first on Redis, also behind Sentinels; RabbitMQ the highest."""
    with create_app(app_settings(url)) as app:
        numbers = [FairQueues(app).priority_number(priority) or 0 for priority in PRIORITIES]
    assert numbers == sorted(numbers, reverse=not first_is_lowest)
