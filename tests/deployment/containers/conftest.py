"""A Docker engine for the tests of this folder, the images that they need, and deployments in it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deployment.containers.deployment import Deployment, deployed, image_alone
from tests.deployment.containers.room import Room, Unreachable, missing

FOLDER = "ROBOCO_ROOM"


@pytest.fixture(scope="session")
def room() -> Iterator[Room]:
    """Yield a room; without an engine, or a folder for it, skip the tests: they take 40 minutes."""
    if reason := missing():
        pytest.skip(f"no Docker engine can run here: {reason}")
    folder = os.environ.get(FOLDER)
    if folder is None:
        pytest.skip(f"{FOLDER} names no folder for the Docker engine of these tests")
    with ExitStack() as exits:
        try:
            room = exits.enter_context(Room(Path(folder)))
        except Unreachable as error:
            pytest.skip(f"the packages of Debian for a Docker engine cannot be reached: {error}")
        yield room


@pytest.fixture(scope="session")
def bases(room: Room) -> dict[str, str]:
    """Build Roboco's image, and the two others that its tests need. Return their names with digests."""
    return room.load_or_build(("python", "redis"))


@pytest.fixture(scope="session")
def images(room: Room) -> dict[str, str]:
    """Build all images from packages, and return their names with digests."""
    return room.load_or_build()


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
