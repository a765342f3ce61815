"""attachments: check the files and JSON Schemas of a submission or message before it is accepted."""

from roboco.domain.history.part import Artifact, artifact_name
from roboco.domain.inbox.attachments import Attachments
from roboco.domain.paths import artifact_info_path, artifact_path
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import UsageError


def check_attachments(engine: Engine, task_id: str, attachments: Attachments) -> tuple[Artifact, ...]:
    """Return the attached artifacts. Raise UsageError if an artifact is not stored, or if a JSON Schema is invalid."""
    for where, schema in attachments.schemas.items():
        if mistake := engine.services.toolbox.schema_error(schema):
            raise UsageError(f"{where}: {mistake}")
    return tuple(_artifact(engine.workspace, task_id, name) for name in attachments.artifacts)


def _artifact(workspace: WorkspaceRecords, task_id: str, name: str) -> Artifact:
    try:
        info = workspace.files.get(artifact_info_path(task_id, artifact_name(name)))
    except ValueError as error:
        raise UsageError(f"artifacts: {error}") from error
    if info is None or workspace.files.size(artifact_path(task_id, artifact_name(name))) is None:
        raise UsageError(f"artifacts: no file {name[:120]!r} is stored with task {task_id!r}; upload it first")
    return Artifact.model_validate_json(info)
