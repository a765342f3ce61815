"""Two faults in every journey, the second one in the recovery from the first: history and stream stay the same.

They are nightly. In each run, the explorer's random schedules have several faults.
"""

import pytest

from tests.faults.enumerated import ALL, fault_pairs, find_failure
from tests.support.selection import PARTS, in_parts

pytestmark = pytest.mark.nightly


@in_parts
@pytest.mark.parametrize("journey", sorted(ALL))
def test_two_faults_change_no_outcome(journey: str, part: int) -> None:
    """All parts together are a fifth of the pairs."""
    cases = list(fault_pairs(journey, distances=(1, 2, 3)))[part :: 5 * PARTS]
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 20
    assert not failures, "\n".join(failures)
