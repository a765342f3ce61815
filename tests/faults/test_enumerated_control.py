"""The same of what is done from outside: interruptions, stops, pauses, answers, approvals, goals, sub-tasks."""

import pytest

from tests.faults.enumerated import failure, pairs, singles
from tests.support.memory_ports.controlled import CONTROLLED, CUT_OFF

NAMES = sorted({**CONTROLLED, **CUT_OFF})


@pytest.mark.parametrize("journey", NAMES)
def test_one_fault(journey: str) -> None:
    cases = list(singles(journey))
    failures = [told for case in cases if (told := failure(case))]
    assert len(cases) > 300
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("journey", NAMES)
def test_two_faults(journey: str) -> None:
    cases = list(pairs(journey, distances=(2,)))[::4]
    failures = [told for case in cases if (told := failure(case))]
    assert len(cases) > 75
    assert not failures, "\n".join(failures)
