"""A rolling update of Compose under 50 tasks: from the image before the last change of Roboco to this one, and back."""

import subprocess
from pathlib import Path

import pytest

from tests.deployment.containers.deployment import POOLS, Deployment, deployed
from tests.deployment.containers.images import attempt, build
from tests.deployment.containers.room import Room
from tests.deployment.files import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.workers]
TASKS = 50
PREVIOUS = "roboco-previous"


def test_an_update_and_its_return_lose_and_double_nothing(room: Room, images: dict[str, str]) -> None:
    check_out_previous(room.shared / "previous")
    with room.online():
        attempt(room, lambda: build(room, images["PYTHON_IMAGE"], PREVIOUS, room.shared / "previous"))
    with deployed(room, images, ROBOCO_IMAGE=PREVIOUS) as deployment:
        for image in ("roboco", PREVIOUS):
            load = deployment.start_load(TASKS)
            for service in (*POOLS, "gateway"):
                update(deployment, service, image)
            assert load.finish()["findings"] == []


def check_out_previous(folder: Path) -> None:
    """Write the files of the commit before the last one that changed Roboco."""
    last = subprocess.run(
        ["git", "rev-list", "-1", "HEAD", "--", "roboco", "workers"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    folder.mkdir(exist_ok=True)
    archive = subprocess.run(["git", "archive", f"{last}^"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)


def update(deployment: Deployment, service: str, image: str) -> None:
    """Replace the containers of a service, as an operator does with a new image."""
    deployment.values["ROBOCO_IMAGE"] = image
    scale = ("--scale", f"{service}=2") if service in POOLS else ()
    deployment.up("--no-deps", *scale, service)
    expected = deployment.room.run("docker", "image", "inspect", "--format", "{{.Id}}", image).strip()
    assert {deployment.inspect(one)["Image"] for one in deployment.containers(service)} == {expected}
