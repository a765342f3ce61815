"""A coordinator worker killed, suspended for longer than a lease, or terminated, while it compacts a history in S3."""

from collections.abc import Iterator

import pytest

from roboco.local.seaweed import S3Server
from tests.faults.moments import COMPACTION, DISRUPTIONS, Moment, Scenario, Victim, disrupted
from tests.support.stack import Stack, s3_environment

pytestmark = [pytest.mark.workers, pytest.mark.s3]


@pytest.fixture(scope="module")
def stack(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Workers of the other pools, over a workspace in S3."""
    with s3_environment(s3), Stack(tmp_path_factory.mktemp("stack"), pools=("agents", "tools"), s3=s3) as running:
        yield running


@pytest.fixture(scope="module")
def victim(stack: Stack) -> Iterator[Victim]:
    victim = Victim(stack, "coordinator")
    yield victim
    victim.close()


@pytest.mark.parametrize(("moment", "disruption"), disrupted(COMPACTION))
def test_a_task_survives_a_coordinator_that_compacts(
    stack: Stack, victim: Victim, moment: Moment, disruption: str
) -> None:
    DISRUPTIONS[disruption](Scenario(stack, victim, moment))
    names = stack.orchestrator._engine.workspace.files.names("")
    assert not [name for name in names if stack.orchestrator._engine.workspace.files.names(f"{name}/history/")], (
        "all histories are compacted"
    )
