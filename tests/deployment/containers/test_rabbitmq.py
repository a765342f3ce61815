"""RabbitMQ as broker of Compose: its container is killed, paused, or taken off its networks, during a load."""

from collections.abc import Iterator

import pytest

from tests.deployment.containers import faults
from tests.deployment.containers.deployment import HERE, Deployment, deployed
from tests.deployment.containers.images import IMAGES, load_or_build
from tests.deployment.containers.room import Room

pytestmark = [pytest.mark.slow, pytest.mark.workers]


@pytest.fixture(scope="module")
def over_rabbitmq(room: Room) -> Iterator[Deployment]:
    """Yield a deployment whose broker is RabbitMQ."""
    images = load_or_build(room, (*IMAGES, "rabbitmq"))
    with deployed(room, images, f"{HERE}/compose.rabbitmq.yaml") as deployment:
        yield deployment


@pytest.mark.parametrize("name", ["kill", "pause, long", "disconnect, long"])
def test_a_fault_of_the_broker_loses_and_doubles_nothing(over_rabbitmq: Deployment, name: str) -> None:
    (fault,) = (one for one in faults.broker_faults() if one.name == name)
    assert faults.run(over_rabbitmq, fault)["findings"] == []
