"""A tools worker killed, suspended for longer than a lease, or terminated, at each named moment."""

from collections.abc import Iterator

import pytest

from tests.faults.moments import DISRUPTIONS, TOOLS, Moment, Scenario, Victim, disrupted, only_worker_of

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with only_worker_of("tools", tmp_path_factory.mktemp("stack")) as victim:
        yield victim


@pytest.mark.parametrize(("moment", "disruption"), disrupted(TOOLS))
def test_a_task_survives_its_tools_worker(victim: Victim, moment: Moment, disruption: str) -> None:
    DISRUPTIONS[disruption](Scenario(victim, moment))
