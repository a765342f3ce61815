"""Artifacts: immutable files of a task's workspace, of any size, in versions.

    artifact_info/NAME.json ─► artifacts/NAME
    (create: the version is ours) (put: the same bytes, however often)

The worker writes the metadata of a version first, with the digest of its bytes. If it dies before it writes the bytes,
the version counts as missing, and the same call completes it later.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from roboco.domain.history.part import MAX_NAME_CHARS, Artifact, artifact_name, artifact_uri
from roboco.domain.paths import artifact_info_path, artifact_path, artifacts_path
from roboco.errors import NotFound, StateConflict, UsageError
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.mime import HEAD_BYTES, is_text, mime_of

MAX_VERSIONS = 10_000
"""Versions of one name."""
MAX_COMPARED_VERSIONS = 8
"""Newest versions of a name that are compared with new bytes: a repeated call has left the same bytes."""
_PIECE_BYTES = 1024 * 1024
_MAX_LISTED_NAMES = 50
"""Names that an error message lists."""


@dataclass(frozen=True)
class NewArtifact:
    """The name and type of a new artifact."""

    name: str
    mime_type: str = ""
    """Its type, or "" to detect it."""
    step_id: str = ""
    """The step that writes it."""


@dataclass(frozen=True)
class Content:
    """The digest, the size and the beginning of the bytes of a file."""

    digest: str
    """The SHA-256 in hexadecimal digits."""
    size: int
    """The number of bytes."""
    head: bytes
    """The first bytes, which decide the type."""


def write_artifact(files: Files, task_id: str, written: NewArtifact, data: bytes) -> Artifact:
    """Store the data under the name, or under its next free version if other data has the name. Return the artifact.

    The same data under one of the newest versions of the name is the same artifact. Raise UsageError for a name that
    could leave the workspace.
    """
    return store_artifact(files, task_id, written, io.BytesIO(data))


def store_artifact(files: Files, task_id: str, written: NewArtifact, source: BinaryIO) -> Artifact:
    """Store the whole source, of any size, as `write_artifact` does. It is read twice, from its beginning."""
    checked_name(written.name)
    content = scan(source)

    def put(path: str) -> None:
        source.seek(0)
        files.put_from(path, source)

    return place_content(files, task_id, written, content, put)


def place_content(
    files: Files, task_id: str, written: NewArtifact, content: Content, put: Callable[[str], None]
) -> Artifact:
    """Claim a version for this content, and have `put` store its bytes at a path, unless they are there already."""
    base = checked_name(written.name)
    mime_type = _type_of(base, content.head, written.mime_type)
    for version in _versions(files, task_id, base):
        name = _versioned_name(base, version)
        artifact = Artifact(
            artifact_id=name,
            uri=artifact_uri(name),
            mime_type=mime_type,
            size=content.size,
            sha256=content.digest,
            base=base,
            version=version,
            step_id=written.step_id,
        )
        if (stored := _claim_version(files, task_id, artifact)) is None:
            continue
        if files.size(artifact_path(task_id, name)) != content.size:
            put(artifact_path(task_id, name))
        return stored
    raise StateConflict(f"artifact {written.name!r} has {MAX_VERSIONS} versions; use another name")


def find_artifact(files: Files, task_id: str, uri_or_name: str) -> Artifact:
    """Return the metadata of an artifact. Raise UsageError, with the existing names, if there is none."""
    name = checked_name(uri_or_name)
    size = files.size(artifact_path(task_id, name))
    if size is None:
        existing = files.names(artifacts_path(task_id))
        more = len(existing) - _MAX_LISTED_NAMES
        listed = ", ".join(existing[:_MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
        raise NotFound(f"no artifact {name!r} in this task; artifacts: {listed or 'none'}")
    info = files.get(artifact_info_path(task_id, name))
    if info is not None:
        return Artifact.model_validate_json(info)
    head = files.read(artifact_path(task_id, name), 0, HEAD_BYTES) or b""
    return Artifact(artifact_id=name, uri=artifact_uri(name), mime_type=mime_of(name, head), size=size, base=name)


def list_artifacts(files: Files, task_id: str) -> list[Artifact]:
    """Return all artifacts of a task, sorted by name."""
    return [find_artifact(files, task_id, name) for name in files.names(artifacts_path(task_id))]


def read_artifact(files: Files, task_id: str, uri_or_name: str) -> bytes:
    """Return the bytes of an artifact. Raise UsageError, with the existing names, if there is none."""
    artifact = find_artifact(files, task_id, uri_or_name)
    return files.get(artifact_path(task_id, artifact.name)) or b""


def iter_pieces(files: Files, task_id: str, artifact: Artifact) -> Iterator[bytes]:
    """Yield the bytes of an artifact in pieces."""
    place, path = 0, artifact_path(task_id, artifact.name)
    while piece := files.read(path, place, _PIECE_BYTES):
        yield piece
        place += len(piece)


def checked_name(uri_or_name: str) -> str:
    """Return the name of an artifact. Raise UsageError if it could leave the workspace."""
    try:
        return artifact_name(uri_or_name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _claim_version(files: Files, task_id: str, artifact: Artifact) -> Artifact | None:
    """Claim this version. Return its artifact, or None if the version has other bytes."""
    path = artifact_info_path(task_id, artifact.name)
    if files.get(path) is None and files.size(artifact_path(task_id, artifact.name)) is not None:
        return None  # another writer's file, without metadata
    if files.create(path, artifact.model_dump_json().encode()):
        return artifact
    stored = Artifact.model_validate_json(files.get(path) or b"{}")
    return stored if stored.sha256 == artifact.sha256 else None


def scan(source: BinaryIO) -> Content:
    """Return the content of the whole source, from its beginning."""
    source.seek(0)
    digest, size, head = hashlib.sha256(), 0, b""
    while piece := source.read(_PIECE_BYTES):
        head = head or piece[:HEAD_BYTES]
        digest.update(piece)
        size += len(piece)
    return Content(digest.hexdigest(), size, head)


def _type_of(name: str, head: bytes, declared: str) -> str:
    """Return the detected type. The writer of a text may declare another text type."""
    found = mime_of(name, head)
    return declared if declared and is_text(declared) and is_text(found) else found


def _versions(files: Files, task_id: str, base: str) -> Iterator[int]:
    """Yield the versions that the name may get: the newest ones, which may have the same bytes, then the next ones.

    However many versions exist, the caller reads one listing and MAX_COMPARED_VERSIONS of them at most.
    """
    yield 1
    names = set(files.names(artifact_info_path(task_id)))
    last = 1
    while f"{_versioned_name(base, 2 * last)}.json" in names:
        last *= 2
    step = last
    while step := step // 2:
        last += step if f"{_versioned_name(base, last + step)}.json" in names else 0
    yield from range(max(2, last - MAX_COMPARED_VERSIONS), MAX_VERSIONS)


def _versioned_name(name: str, version: int) -> str:
    if version == 1:
        return name
    path = PurePosixPath(name)
    ending = f"-{version}{path.suffix[: MAX_NAME_CHARS // 2]}"
    return checked_name(f"{path.stem[: MAX_NAME_CHARS - len(ending)]}{ending}")
