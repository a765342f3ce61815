"""A Docker engine for the tests of this folder, the images that they need, and deployments in it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deployment.containers.deployment import Deployment, deployed, image_alone
from tests.deployment.containers.images import load_or_build
from tests.deployment.containers.room import Room, Unreachable, missing

FOLDER = "ROBOCO_ROOM"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason of skipped tests once, and not for each test as `-rs` does."""
    for reason in {report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())}:
        terminalreporter.write_line(reason)


@pytest.fixture(scope="session")
def room() -> Iterator[Room]:
    """Yield a room; without an engine, or a folder for it, skip the tests: they take 40 minutes."""
    if reason := missing():
        pytest.skip(f"no Docker engine can run here: {reason}")
    folder = os.environ.get(FOLDER)
    if folder is None:
        pytest.skip(f"{FOLDER} names no folder for the Docker engine of these tests")
    with ExitStack() as exits:
        with skip_if_unreachable():
            room = exits.enter_context(Room(Path(folder).resolve()))
        yield room


@contextmanager
def skip_if_unreachable() -> Iterator[None]:
    """Skip the test, with the reason, if packages cannot be reached."""
    try:
        yield
    except Unreachable as error:
        pytest.skip(f"the packages of Debian or PyPI cannot be reached: {error}")


@pytest.fixture(scope="session")
def bases(room: Room) -> dict[str, str]:
    """Build Roboco's image, and the two others that its tests need. Return their names with digests."""
    with skip_if_unreachable():
        return load_or_build(room, ("python", "redis"))


@pytest.fixture(scope="session")
def compose_images(room: Room) -> dict[str, str]:
    """Build the images of `compose.yaml` without its profiles. Return their names with digests."""
    with skip_if_unreachable():
        return load_or_build(room, ("python", "redis", "seaweedfs"))


@pytest.fixture(scope="session")
def images(room: Room) -> dict[str, str]:
    """Build all images from packages, and return their names with digests."""
    with skip_if_unreachable():
        return load_or_build(room)


@pytest.fixture(scope="module")
def image(room: Room, bases: dict[str, str]) -> Iterator[Deployment]:
    """Yield the image at work: each worker, and a Redis."""
    with image_alone(room, bases) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def deployment(room: Room, images: dict[str, str]) -> Iterator[Deployment]:
    """Yield the deployment, which began with nothing, with two workers of each pool and a team for callers."""
    with deployed(room, images) as deployment:
        yield deployment
