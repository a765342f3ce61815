"""CodeTool: runs code over files of a task in the sandbox, and keeps the files that it writes."""

import tempfile
from pathlib import Path
from typing import Any

from roboco.adapters.artifacts import Written, find_artifact, pieces_of, store_artifact
from roboco.adapters.sandbox.ran import Ran
from roboco.adapters.sandbox.sandbox import Sandbox
from roboco.domain.part import Artifact
from roboco.errors import UsageError
from roboco.ports import CallContext, Files

_WHY = {
    "time": "it ran longer than it may",
    "memory": "it used more memory than it may",
    "processes": "it began more processes than it may",
    "entries": "it made more files than it may",
    "output": "it printed more than it may",
    "cancelled": "nobody waits for its result any more",
}


def run_code(
    files: Files, sandbox: Sandbox, code: str, names: list[str], context: CallContext
) -> tuple[dict[str, Any], tuple[Artifact, ...]]:
    """What the code printed and how it ended, and the artifacts of the files that it wrote.

    UsageError if the sandbox cannot start here, or if a file is not there or too large.
    """
    if refusal := sandbox.refusal():
        raise UsageError(f"tool 'python' is not possible here: {refusal}")
    with tempfile.TemporaryDirectory(prefix="roboco-inputs-") as folder:
        inputs = _inputs(files, sandbox, names, context.task_id, Path(folder))
        with sandbox.run(code, inputs, lambda: context.cancelled) as ran:
            made = tuple(_kept(files, context, ran))
    return _told(ran, made), made


def _inputs(files: Files, sandbox: Sandbox, names: list[str], task_id: str, folder: Path) -> dict[str, Path]:
    inputs: dict[str, Path] = {}
    left = sandbox.limits.inputs
    for one in names:
        artifact = find_artifact(files, task_id, one)
        left -= artifact.size
        if left < 0:
            raise UsageError(
                f"files: are larger than {sandbox.limits.inputs} bytes together; read parts of them instead"
            )
        inputs[artifact.name] = folder / artifact.name
        with inputs[artifact.name].open("wb") as file:
            for piece in pieces_of(files, task_id, artifact):
                file.write(piece)
    return inputs


def _kept(files: Files, context: CallContext, ran: Ran) -> list[Artifact]:
    kept: list[Artifact] = []
    for written in ran.files:
        with written.path.open("rb") as source:
            kept.append(store_artifact(files, context.task_id, Written(written.name, step_id=context.step_id), source))
    return kept


def _told(ran: Ran, made: tuple[Artifact, ...]) -> dict[str, Any]:
    told: dict[str, Any] = {"output": ran.output, "exit_code": ran.exit_code}
    if ran.ended:
        told["ended"] = _WHY[ran.ended]
    if made:
        told["files"] = [artifact.uri for artifact in made]
    if ran.skipped:
        told["not_kept"] = list(ran.skipped)
    return told
