"""Something goes wrong at every port call of every team shape, in nine ways: always the same history and stream."""

import pytest

from tests.faults.enumerated import find_failure, single_faults
from tests.support.memory_ports.journeys import JOURNEYS


@pytest.mark.parametrize("journey", sorted(JOURNEYS))
def test_one_fault_changes_no_outcome(journey: str) -> None:
    cases = list(single_faults(journey))
    failures = [told for case in cases if (told := find_failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)
