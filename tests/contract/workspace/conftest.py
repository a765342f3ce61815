"""The adapters of the workspace, each test below its own prefix."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.local.seaweed import S3Server
from roboco.ports.histories import Histories
from roboco.ports.workspace import Files
from roboco.workspace.folder import FolderFiles
from roboco.workspace.folder_history import FolderHistories
from roboco.workspace.s3 import S3Files, connect_s3
from roboco.workspace.s3_history import S3Histories
from tests.contract.workspace.s3_faults import WatchedObjects
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.support.stack import s3_environment

STORES = ["folder", pytest.param("s3", marks=pytest.mark.s3), "memory"]


@pytest.fixture(scope="session")
def s3_client(s3: S3Server) -> Iterator[Any]:
    """Yield a client of the S3 server, connected as in the product."""
    with s3_environment(s3):
        client = connect_s3(s3.endpoint_url)
    yield client
    client.close()


@pytest.fixture
def objects(s3: S3Server, s3_client: Any, prefix: str) -> WatchedObjects:
    """Return the objects below this test's prefix."""
    return WatchedObjects(s3_client, s3.bucket, prefix)


@pytest.fixture(params=STORES)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Return an empty workspace."""
    if request.param == "folder":
        return FolderFiles(tmp_path / "workspace")
    if request.param == "memory":
        return MemoryFiles()
    return S3Files(request.getfixturevalue("objects"))


@pytest.fixture(params=STORES)
def histories(request: pytest.FixtureRequest, tmp_path: Path) -> Histories:
    """Return the histories of an empty workspace."""
    if request.param == "folder":
        return FolderHistories(FolderFiles(tmp_path / "workspace"))
    if request.param == "memory":
        return MemoryHistories()
    return S3Histories(request.getfixturevalue("objects"))
