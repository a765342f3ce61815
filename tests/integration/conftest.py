"""One stack of real processes for each store, shared by the tests of a module."""

from collections.abc import Iterator

import pytest

from roboco.adapters.local.seaweed import S3Server
from tests.journeys import answer
from tests.stack import Stack, s3_environment


@pytest.fixture(scope="module", params=["folder", "s3"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Three real workers over a workspace in a folder, and once more in S3."""
    s3: S3Server | None = None
    if request.param == "s3":
        s3 = request.getfixturevalue("s3")
    with s3_environment(s3), Stack(tmp_path_factory.mktemp("stack"), s3=s3) as running:
        running.model.script(answer)
        yield running


@pytest.fixture(scope="module")
def folder_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Three real workers over a workspace in a folder."""
    with Stack(tmp_path_factory.mktemp("stack")) as running:
        running.model.script(answer)
        yield running
