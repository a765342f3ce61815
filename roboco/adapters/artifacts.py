"""Artifacts: immutable files of a task's workspace."""

import hashlib
from pathlib import PurePosixPath

from roboco.domain.part import MAX_NAME, Artifact, artifact_name, artifact_uri
from roboco.domain.paths import artifact_path, artifacts_path
from roboco.errors import UsageError
from roboco.ports import Files

MAX_VERSIONS = 10_000


def write_artifact(files: Files, task_id: str, name: str, data: bytes, mime_type: str) -> Artifact:
    """Store the data under the name, or, where other data has it, under the next free version of it.

    The same data under the same name is the same artifact. UsageError for a name that could leave the workspace.
    """
    checked = _checked(name)
    for version in range(1, MAX_VERSIONS):
        versioned = _version(checked, version)
        if files.create(artifact_path(task_id, versioned), data):
            return Artifact(
                artifact_id=versioned,
                uri=artifact_uri(versioned),
                mime_type=mime_type,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
            )
    raise UsageError(f"artifact {name!r} has {MAX_VERSIONS} versions, use another name")


def read_artifact(files: Files, task_id: str, uri_or_name: str) -> bytes:
    """The bytes of an artifact; UsageError names what there is instead."""
    name = _checked(uri_or_name)
    data = files.get(artifact_path(task_id, name))
    if data is None:
        there = ", ".join(files.names(artifacts_path(task_id))) or "none"
        raise UsageError(f"no artifact {name!r} in this task; there are: {there}")
    return data


def _checked(uri_or_name: str) -> str:
    try:
        return artifact_name(uri_or_name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _version(name: str, version: int) -> str:
    if version == 1:
        return name
    path = PurePosixPath(name)
    ending = f"-{version}{path.suffix[: MAX_NAME // 2]}"
    return _checked(f"{path.stem[: MAX_NAME - len(ending)]}{ending}")
