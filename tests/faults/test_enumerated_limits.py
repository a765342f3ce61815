"""Faults at every port call of tasks that pause at a limit, wrap up, or wait for a rate limit."""

import pytest

from tests.faults.enumerated import find_failure, single_faults
from tests.support.memory_ports.limited import LIMITED


@pytest.mark.parametrize("journey", sorted(LIMITED))
def test_one_fault_changes_no_outcome(journey: str) -> None:
    cases = list(single_faults(journey))
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)
