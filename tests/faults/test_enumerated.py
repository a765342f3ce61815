"""Nine kinds of faults at every port call of every journey: history and stream stay the same.

A fifth of the cases runs with the slow tests. Five and the number of kinds have no common divisor, so it has each kind
at every fifth call.
"""

import pytest

from tests.faults.enumerated import ALL, fault_pairs, find_failure, single_faults
from tests.support.selection import PARTS, in_parts


@in_parts
@pytest.mark.parametrize("journey", sorted(ALL))
def test_one_fault_changes_no_outcome(journey: str, part: int) -> None:
    cases = list(single_faults(journey))[part::PARTS]
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 50
    assert not failures, "\n".join(failures)


@in_parts
@pytest.mark.parametrize("journey", sorted(ALL))
def test_two_faults_change_no_outcome(journey: str, part: int) -> None:
    """The second one hits the recovery from the first one. All parts together are a fifth of the pairs."""
    cases = list(fault_pairs(journey, distances=(1, 2, 3)))[part :: 5 * PARTS]
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 20
    assert not failures, "\n".join(failures)
