"""The command that strikes a deployment with faults: how it goes on after a case that ends with an error."""

from subprocess import CalledProcessError, TimeoutExpired
from typing import Any, cast

import pytest

from tests.deployment.containers import faults
from tests.deployment.containers.deployment import Deployment

ENDS = [
    AssertionError("it is not healthy"),
    ValueError("no output"),
    TimeoutExpired("docker compose logs", 600),
    CalledProcessError(1, "pkill"),
    {"findings": ["a step is missing"]},
    {"findings": []},
]


def test_cases_that_end_with_an_error_count_and_the_next_ones_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = iter(ENDS)

    def run(deployment: Deployment, fault: faults.Fault) -> dict[str, Any]:
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return cast(dict[str, Any], end)

    monkeypatch.setattr(faults, "run", run)
    chosen = list(faults.faults_of("redis"))[: len(ENDS)]
    assert faults.strike_all(cast(Deployment, None), chosen) == len(ENDS) - 1
    assert capsys.readouterr().out.count("\n") == len(ENDS)
