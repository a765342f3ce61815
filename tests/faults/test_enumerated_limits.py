"""The same at limits: tasks that pause until somebody raises one, that wrap up, and that wait for a provider."""

import pytest

from tests.faults.enumerated import find_failure, single_faults
from tests.support.memory_ports.limited import LIMITED


@pytest.mark.parametrize("journey", sorted(LIMITED))
def test_one_fault_changes_no_outcome(journey: str) -> None:
    cases = list(single_faults(journey))
    failures = [told for case in cases if (told := find_failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)
