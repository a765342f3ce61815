"""Faults at every port call of runs with interruptions, stops, pauses, answers, approvals, goals and sub-tasks."""

import pytest

from tests.faults.enumerated import fault_pairs, find_failure, single_faults
from tests.support.memory_ports.controlled import CONTROLLED, CUT_OFF

NAMES = sorted({**CONTROLLED, **CUT_OFF})


@pytest.mark.parametrize("journey", NAMES)
def test_one_fault_changes_no_outcome(journey: str) -> None:
    cases = list(single_faults(journey))
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("journey", NAMES)
def test_two_faults_change_no_outcome(journey: str) -> None:
    cases = list(fault_pairs(journey, distances=(2,)))[::4]
    failures = [line for case in cases if (line := find_failure(case))]
    assert len(cases) > 75
    assert not failures, "\n".join(failures)
