"""Nine kinds of faults at every port call of every journey: history and stream stay the same.

A tenth of the cases runs with the slow tests. Ten and the number of kinds have no common divisor, so it has each kind
at every tenth call.
"""

import pytest

from tests.faults.enumerated import ALL, find_failure, single_faults
from tests.support.selection import PARTS, in_parts


@in_parts
@pytest.mark.parametrize("journey", sorted(ALL))
def test_one_fault_changes_no_outcome(journey: str, part: int) -> None:
    cases = list(single_faults(journey))[part::PARTS]
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 50
    assert not failures, "\n".join(failures)
