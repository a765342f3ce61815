"""Nine kinds of faults at every port call of every journey: history and stream stay the same."""

import pytest

from tests.faults.enumerated import find_failure, single_faults
from tests.support.memory_ports.journeys import JOURNEYS


@pytest.mark.parametrize("journey", sorted(JOURNEYS))
def test_one_fault_changes_no_outcome(journey: str) -> None:
    cases = list(single_faults(journey))
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)
