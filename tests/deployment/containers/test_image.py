"""The image: its size and rights, and in it `roboco doctor`, `roboco demo` with a scripted model, and each worker."""

import re

import pytest

from tests.deployment.containers.deployment import POOLS, Deployment
from tests.deployment.containers.room import Room

pytestmark = [pytest.mark.slow, pytest.mark.workers]


def test_the_image_is_small_and_runs_without_rights(room: Room, bases: dict[str, str]) -> None:
    """It has no pip, no sources, and a user without a password; its root need not be writable."""
    size = int(room.run("docker", "image", "inspect", "--format", "{{.Size}}", "roboco"))
    assert size < 540_000_000
    closed = ("docker", "run", "--rm", "--read-only", "--cap-drop", "ALL", "--network", "none", "roboco")
    assert room.run(*closed, "id", "-u").strip() == "10001"
    assert "roboco, version" in room.run(*closed, "roboco", "--version")
    assert "Read-only file system" in room.run(*closed, "touch", "/app/file", check=False)
    assert "No module named pip" in room.run(*closed, "python", "-m", "pip", check=False)


def test_doctor_finds_no_failure(image: Deployment) -> None:
    report = image.run_in("client", "roboco", "doctor")
    assert "FAIL" not in report
    for pool in POOLS:
        assert f"ok   queue roboco.{pool}" in report


def test_each_worker_does_its_part_of_a_task(image: Deployment) -> None:
    """Tasks with turns, calls and followers complete, and nothing in their histories contradicts a guarantee."""
    image.wait_healthy(POOLS)
    assert image.start_load(2).finish()["findings"] == []


def test_the_demo_runs_with_a_scripted_model(image: Deployment) -> None:
    """Its tool runs, though ROBOCO_TOOL_MODULES names another module, and it exits with 0."""
    printed = image.run_in("client", "roboco", "demo")
    assert re.search(r"← style_rule ·( [\d.]+ m?s ·)? Write about the smell", printed), printed
    assert "It smells of salt" in printed
