"""Pools whose clocks differ by minutes, with leases of seconds: tasks run as with right clocks."""

import time

import pytest

from tests.deployment.containers.deployment import HERE, Deployment, deployed
from tests.deployment.containers.images import attempt
from tests.deployment.containers.room import Room

pytestmark = [pytest.mark.slow, pytest.mark.workers]
NOW = "import time; print(time.time())"


def test_skewed_clocks_lose_and_double_nothing(room: Room, images: dict[str, str]) -> None:
    """A worker of each pool is killed, too: its leases end at the time of Redis."""
    words = ("docker", "build", "--network", "host", "--tag", "roboco-skewed", "--file", f"{HERE}/skewed.Dockerfile")
    with room.online():
        attempt(room, lambda: room.run(*words, HERE))
    with deployed(room, images, f"{HERE}/compose.skew.yaml") as deployment:
        skews = {pool: skew(deployment, pool) for pool in ("coordinator", "agents", "tools", "gateway")}
        assert skews == {"coordinator": -120, "agents": 120, "tools": 300, "gateway": 0}
        load = deployment.start_load()
        for pool in ("tools", "agents", "coordinator"):
            deployment.kill(pool)
        assert load.finish()["findings"] == []


def skew(deployment: Deployment, service: str) -> int:
    """Return how far the clock of a container is ahead, in seconds, rounded to half a minute."""
    return round((float(deployment.run_in(service, "python", "-c", NOW)) - time.time()) / 30) * 30
