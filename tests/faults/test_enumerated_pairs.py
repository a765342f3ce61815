"""Two things go wrong shortly after each other, the second one while the first one is being mended."""

import pytest

from tests.faults.enumerated import failure, pairs
from tests.support.memory_ports.journeys import JOURNEYS


@pytest.mark.parametrize("journey", sorted(JOURNEYS))
def test_two_faults(journey: str) -> None:
    cases = list(pairs(journey, distances=(1, 3)))[::4]  # every fourth one: all of them take six minutes more
    failures = [told for case in cases if (told := failure(case))]
    assert len(cases) > 150
    assert not failures, "\n".join(failures)
