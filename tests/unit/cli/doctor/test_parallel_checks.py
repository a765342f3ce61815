"""Checks of `roboco doctor` that run in parallel."""

import threading
from collections.abc import Iterator, Sequence

from roboco.cli.doctor.check import CheckResult
from roboco.cli.doctor.parallel_checks import CheckGroup, run_parallel

A, B = (CheckResult(name, "ok", "found") for name in "ab")


def test_a_group_that_hangs_fails_at_the_timeout_and_hides_no_other() -> None:
    go_on, waited = threading.Event(), list[Sequence[str]]()

    def hangs() -> Iterator[CheckResult]:
        yield A
        go_on.wait()

    made = list(run_parallel([CheckGroup("hanging", hangs), CheckGroup("other", lambda: [B])], 1, waited.append))
    go_on.set()
    assert [check.name for check in made] == ["a", "hanging", "b"]
    assert (made[1].state, made[1].found) == ("fail", "not done after 1 s")
    assert "--timeout" in made[1].todo
    assert ["hanging"] in waited
