"""The tool `python`: runs code over files of a task in the sandbox, and stores the files that it writes."""

import tempfile
from pathlib import Path
from typing import Any

from roboco.adapters.artifacts.store import Written, list_artifacts, pieces_of, store_artifact
from roboco.adapters.sandbox.limits import SandboxLimits
from roboco.adapters.sandbox.result import Ran
from roboco.adapters.sandbox.sandbox import Sandbox
from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.ports import CallContext, Files

_WHY = {
    "time": "it ran longer than its time limit",
    "memory": "it used more memory than its limit",
    "processes": "it started more processes than its limit",
    "entries": "it created more files than its limit",
    "output": "it printed more than its limit",
    "cancelled": "the call was cancelled",
}


def run_code(
    files: Files, sandbox: Sandbox, code: str, context: CallContext
) -> tuple[dict[str, Any], tuple[Artifact, ...]]:
    """Return the output and the end of the run as a tool result, and the artifacts of the files that it wrote.

    The task's artifacts are copied into the sandbox, as many as its limits permit. Raise UsageError if the sandbox
    cannot start here.
    """
    if refusal := sandbox.refusal():
        raise UsageError(f"tool 'python' is not possible here: {refusal}")
    with tempfile.TemporaryDirectory(prefix="roboco-inputs-") as folder:
        given, too_much = _chosen(list_artifacts(files, context.task_id), sandbox.limits)
        inputs = {artifact.name: _copied(files, context.task_id, artifact, Path(folder)) for artifact in given}
        with sandbox.run(code, inputs, lambda: context.cancelled) as ran:
            made = tuple(_kept(files, context, ran))
    return _told(ran, made, too_much), made


def _chosen(artifacts: list[Artifact], limits: SandboxLimits) -> tuple[list[Artifact], list[str]]:
    """Return the artifacts that fit into the sandbox, smallest first, and the names of the others."""
    given: list[Artifact] = []
    too_much: list[str] = []
    left = limits.inputs
    for artifact in sorted(artifacts, key=lambda one: (one.size, one.name)):
        if artifact.size <= left and len(given) < limits.input_files:
            given.append(artifact)
            left -= artifact.size
        else:
            too_much.append(artifact.name)
    return given, too_much


def _copied(files: Files, task_id: str, artifact: Artifact, folder: Path) -> Path:
    path = folder / artifact.name
    with path.open("wb") as file:
        for piece in pieces_of(files, task_id, artifact):
            file.write(piece)
    return path


def _kept(files: Files, context: CallContext, ran: Ran) -> list[Artifact]:
    kept: list[Artifact] = []
    for written in ran.files:
        with written.path.open("rb") as source:
            kept.append(store_artifact(files, context.task_id, Written(written.name, step_id=context.step_id), source))
    return kept


def _told(ran: Ran, made: tuple[Artifact, ...], too_much: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"output": ran.output, "exit_code": ran.exit_code}
    if ran.ended:
        told["ended"] = _WHY[ran.ended]
    if made:
        told["files"] = [artifact.uri for artifact in made]
    if ran.skipped:
        told["not_kept"] = list(ran.skipped)
    if too_much:
        told["not_there"] = f"too many or too large to be copied: {', '.join(too_much)}"
    return told
