"""The same of what is done from outside: interruptions, stops, pauses, answers, approvals, goals, sub-tasks."""

import pytest

from tests.faults.enumerated import fault_pairs, find_failure, single_faults
from tests.support.memory_ports.controlled import CONTROLLED, CUT_OFF

NAMES = sorted({**CONTROLLED, **CUT_OFF})


@pytest.mark.parametrize("journey", NAMES)
def test_one_fault_changes_no_outcome(journey: str) -> None:
    cases = list(single_faults(journey))
    failures = [told for case in cases if (told := find_failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("journey", NAMES)
def test_two_faults_change_no_outcome(journey: str) -> None:
    cases = list(fault_pairs(journey, distances=(2,)))[::4]
    failures = [told for case in cases if (told := find_failure(case))]
    assert len(cases) > 75
    assert not failures, "\n".join(failures)
