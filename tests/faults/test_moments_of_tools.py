"""A tools worker killed, suspended for longer than a lease, or terminated, at each named moment."""

from collections.abc import Iterator

import pytest

from tests.faults.moments import DISRUPTIONS, TOOLS, Moment, Scenario, Victim, disrupted
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Workers of the other pools."""
    others = tuple(pool for pool in ("coordinator", "agents", "tools") if pool != "tools")
    with Stack(tmp_path_factory.mktemp("stack"), pools=others) as running:
        yield running


@pytest.fixture(scope="module")
def victim(stack: Stack) -> Iterator[Victim]:
    victim = Victim(stack, "tools")
    yield victim
    victim.close()


@pytest.mark.parametrize(("moment", "disruption"), disrupted(TOOLS))
def test_a_task_survives_its_tools_worker(stack: Stack, victim: Victim, moment: Moment, disruption: str) -> None:
    DISRUPTIONS[disruption](Scenario(stack, victim, moment))
