"""artifact_reader: the beginning of a text artifact, for the search index."""

from collections.abc import Callable

from roboco.domain.paths import artifact_path
from roboco.errors import UsageError
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.mime import is_text
from roboco.workspace.artifacts.store import find_artifact


def artifact_reader(files: Files) -> Callable[[str, str, int], bytes | None]:
    """Return a function that reads the beginning of text artifacts, for the search index."""

    def read(task_id: str, name: str, most: int) -> bytes | None:
        try:
            artifact = find_artifact(files, task_id, name)
        except UsageError:
            return None
        return files.read(artifact_path(task_id, artifact.name), 0, most) if is_text(artifact.mime_type) else None

    return read
