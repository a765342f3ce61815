"""Artifacts: immutable, and stored inside their folder whatever their name is."""

import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.part import Artifact, artifact_name
from roboco.errors import UsageError
from roboco.workspace.artifacts.store import NewArtifact, read_artifact, write_artifact
from tests.support.memory_ports.workspace import MemoryFiles

NAME_PIECES = st.sampled_from(
    ["a", "B", "0", "_", "-", ".", "..", "/", "\\", "\0", "\n", "ü", "file://", "artifacts/", "./"]
)


def write(files: MemoryFiles, name: str, data: bytes = b"x") -> Artifact:
    return write_artifact(files, "t1", NewArtifact(name, "text/plain", "step_1"), data)


def test_an_artifact_describes_its_content() -> None:
    files = MemoryFiles()
    artifact = write(files, "a.txt", b"hello")
    assert artifact.model_dump() == {
        "artifact_id": "a.txt",
        "uri": "file://artifacts/a.txt",
        "mime_type": "text/plain",
        "size": 5,
        "sha256": hashlib.sha256(b"hello").hexdigest(),
        "base": "a.txt",
        "version": 1,
        "step_id": "step_1",
    }
    assert files.held.pop("t1/artifacts/a.txt") == b"hello"
    assert list(files.held) == ["t1/artifact_info/a.txt.json"]


def test_other_data_under_the_same_name_is_a_new_version() -> None:
    files = MemoryFiles()
    names = [write(files, "a.tar.gz", bytes([n])).name for n in range(3)]
    assert names == ["a.tar.gz", "a.tar-2.gz", "a.tar-3.gz"]
    assert [read_artifact(files, "t1", name) for name in names] == [b"\0", b"\1", b"\2"]


def test_the_same_data_under_the_same_name_is_the_same_artifact() -> None:
    files = MemoryFiles()
    assert write(files, "a", b"1") == write(files, "a", b"1")
    assert write(files, "a", b"2") == write(files, "a", b"2")
    assert files.names("t1/artifacts/") == ["a", "a-2"]


@pytest.mark.parametrize(
    "name", ["x" * 128, "x" * 120 + ".md", "x." + "y" * 126, "_." + "y" * 100, "a.b.c", "x" * 127 + ".", "a..b", "_"]
)
def test_every_allowed_name_can_have_versions(name: str) -> None:
    files = MemoryFiles()
    written = [write(files, name, bytes([n])) for n in range(3)]
    assert len({artifact.name for artifact in written}) == 3
    assert all(artifact_name(artifact.name) == artifact.artifact_id for artifact in written)
    assert [read_artifact(files, "t1", artifact.uri) for artifact in written] == [b"\0", b"\1", b"\2"]


@given(st.lists(NAME_PIECES, max_size=6).map("".join), st.integers(1, 3))
def test_no_name_leaves_the_folder(name: str, versions: int) -> None:
    files = MemoryFiles()
    files.put("t1/team.json", b"{}")
    for number in range(versions):
        with suppress(UsageError):
            write(files, name, bytes([number]))
    with suppress(UsageError):
        read_artifact(files, "t1", name)
    for path in files.held:
        assert path == "t1/team.json" or (
            path.startswith(("t1/artifacts/", "t1/artifact_info/")) and path.count("/") == 2
        )
        assert ".." not in path.split("/")
    assert files.held["t1/team.json"] == b"{}"
