"""A coordinator worker killed, suspended for longer than a lease, or terminated, while it compacts a history in S3."""

from collections.abc import Iterator

import pytest

from roboco.local.seaweed import S3Server
from tests.faults.moments import COMPACTION, DISRUPTIONS, Moment, Scenario, Victim, disrupted, only_worker_of

pytestmark = [pytest.mark.workers, pytest.mark.s3]


@pytest.fixture(scope="module")
def victim(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with only_worker_of("coordinator", tmp_path_factory.mktemp("stack"), s3) as victim:
        yield victim


@pytest.mark.parametrize(("moment", "disruption"), disrupted(COMPACTION))
def test_a_task_survives_a_coordinator_that_compacts(victim: Victim, moment: Moment, disruption: str) -> None:
    DISRUPTIONS[disruption](Scenario(victim, moment))
    files = victim.stack.orchestrator._engine.workspace.files
    assert not [name for name in files.names("") if files.names(f"{name}/history/")], "a history is not compacted"
