"""Builds of images that fail: for a reason of this project, or because a registry of packages does not answer."""

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import pytest

from tests.deployment.containers import images
from tests.deployment.containers.images import attempt
from tests.deployment.containers.room import Room, Unreachable

PIP_PROBLEM = images.pip_problem


class Answers(Room):
    """A room without an engine, whose lists of Debian answer, unless they are `silent`."""

    def __init__(self, folder: Path, silent: bool = False) -> None:
        super().__init__(folder)
        self.shared.mkdir()
        self._silent = silent

    def run(self, *command: str | Path, **options: Any) -> str:
        assert command == ("apt-get", "update")
        if self._silent:
            raise AssertionError("apt-get update ended with 100:\nno route")
        return ""


@pytest.fixture(autouse=True)
def pip_problems(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list whose last text is the problem of pip."""
    problems: list[str] = []
    monkeypatch.setattr(images, "pip_problem", lambda folder: problems[-1] if problems else None)
    return problems


def failing(*errors: Exception | None) -> Callable[[], int]:
    """Return an action that raises these errors in turn, and returns the number of calls so far where there is None."""
    calls: list[None] = []

    def act() -> int:
        calls.append(None)
        if error := errors[len(calls) - 1]:
            raise error
        return len(calls)

    return act


def test_a_build_that_fails_once_is_repeated(tmp_path: Path) -> None:
    assert attempt(Answers(tmp_path), failing(AssertionError("first"), None)) == 2


def test_a_build_that_fails_twice_while_registries_answer_raises_its_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="second"):
        attempt(Answers(tmp_path), failing(AssertionError("first"), AssertionError("second")))


def test_a_build_that_takes_too_long_while_registries_answer_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(TimeoutExpired):
        attempt(Answers(tmp_path), failing(TimeoutExpired("docker build", 600), None))


def test_a_build_that_fails_while_debian_is_silent_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no route"):
        attempt(Answers(tmp_path, silent=True), failing(AssertionError("first")))


def test_a_build_that_fails_while_the_index_of_pip_is_silent_is_not_repeated(
    tmp_path: Path, pip_problems: list[str]
) -> None:
    pip_problems.append("no index")
    with pytest.raises(Unreachable, match="no index"):
        attempt(Answers(tmp_path), failing(AssertionError("first")))


def test_an_index_without_an_answer_is_the_problem_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pip")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)  # this machine may have further indexes, or folders of packages
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert "No matching distribution" in str(PIP_PROBLEM(tmp_path))
