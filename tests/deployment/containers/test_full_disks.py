"""A full disk of Redis or of the store: tasks wait, and continue when there is space."""

from collections.abc import Iterator

import pytest

from tests.deployment.containers import faults
from tests.deployment.containers.deployment import HERE, Deployment, deployed
from tests.deployment.containers.room import Room

pytestmark = [pytest.mark.slow, pytest.mark.workers]


@pytest.fixture(scope="module")
def small_disks(room: Room, images: dict[str, str]) -> Iterator[Deployment]:
    """Yield a deployment whose volumes are small."""
    with deployed(room, images, f"{HERE}/compose.disks.yaml") as deployment:
        yield deployment


@pytest.mark.parametrize("fault", list(faults.disk_faults()), ids=str)
def test_a_full_disk_loses_and_doubles_nothing(small_disks: Deployment, fault: faults.Fault) -> None:
    assert faults.run(small_disks, fault)["findings"] == []
