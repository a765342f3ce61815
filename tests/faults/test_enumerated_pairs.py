"""Two faults shortly after each other: the second one hits the recovery from the first one."""

import pytest

from tests.faults.enumerated import fault_pairs, find_failure
from tests.support.memory_ports.journeys import JOURNEYS


@pytest.mark.parametrize("journey", sorted(JOURNEYS))
def test_two_faults_change_no_outcome(journey: str) -> None:
    cases = list(fault_pairs(journey, distances=(1, 3)))[::4]  # every fourth one: all of them take six minutes more
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 150
    assert not failures, "\n".join(failures)
