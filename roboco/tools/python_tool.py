"""The tool `python`: runs code over files of a task in the sandbox, and stores the files that it writes."""

import tempfile
from pathlib import Path
from typing import Any

from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.ports.tools import ToolContext
from roboco.ports.workspace import Files
from roboco.tools.sandbox.limits import SandboxLimits
from roboco.tools.sandbox.result import RunResult
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.workspace.artifacts.store import NewArtifact, iter_pieces, list_artifacts, store_artifact

_END_REASONS = {
    "time": "it ran longer than its time limit",
    "memory": "it used more memory than its limit",
    "processes": "it started more processes than its limit",
    "entries": "it created more files than its limit",
    "output": "it printed more than its limit",
    "cancelled": "the call was cancelled",
}


def run_code(
    files: Files, sandbox: Sandbox, code: str, context: ToolContext
) -> tuple[dict[str, Any], tuple[Artifact, ...]]:
    """Return the output and the end of the run as a tool result, and the artifacts of the files that it wrote.

    The task's artifacts are copied into the sandbox, as many as its limits permit. Raise UsageError if the sandbox
    cannot start here.
    """
    if refusal := sandbox.refusal():
        raise UsageError(f"tool 'python' is not possible here: {refusal}")
    with tempfile.TemporaryDirectory(prefix="roboco-inputs-") as folder:
        selected, left_out = _select_inputs(list_artifacts(files, context.task_id), sandbox.limits)
        inputs = {artifact.name: _copy_input(files, context.task_id, artifact, Path(folder)) for artifact in selected}
        with sandbox.run(code, inputs, lambda: context.cancelled) as result:
            artifacts = tuple(_store_outputs(files, context, result))
    return _tool_result(result, artifacts, left_out), artifacts


def _select_inputs(artifacts: list[Artifact], limits: SandboxLimits) -> tuple[list[Artifact], list[str]]:
    """Return the artifacts that fit into the sandbox, smallest first, and the names of the others."""
    selected: list[Artifact] = []
    left_out: list[str] = []
    left = limits.inputs
    for artifact in sorted(artifacts, key=lambda one: (one.size, one.name)):
        if artifact.size <= left and len(selected) < limits.input_files:
            selected.append(artifact)
            left -= artifact.size
        else:
            left_out.append(artifact.name)
    return selected, left_out


def _copy_input(files: Files, task_id: str, artifact: Artifact, folder: Path) -> Path:
    path = folder / artifact.name
    with path.open("wb") as file:
        for piece in iter_pieces(files, task_id, artifact):
            file.write(piece)
    return path


def _store_outputs(files: Files, context: ToolContext, result: RunResult) -> list[Artifact]:
    artifacts: list[Artifact] = []
    for written in result.files:
        with written.path.open("rb") as source:
            artifacts.append(
                store_artifact(files, context.task_id, NewArtifact(written.name, step_id=context.step_id), source)
            )
    return artifacts


def _tool_result(run_result: RunResult, artifacts: tuple[Artifact, ...], left_out: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"output": run_result.output, "exit_code": run_result.exit_code}
    if run_result.end_reason:
        result["ended"] = _END_REASONS[run_result.end_reason]
    if artifacts:
        result["files"] = [artifact.uri for artifact in artifacts]
    if run_result.skipped:
        result["not_kept"] = list(run_result.skipped)
    if left_out:
        result["not_there"] = f"too many or too large to be copied: {', '.join(left_out)}"
    return result
