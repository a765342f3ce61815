"""artifact_reader: the beginning of a text artifact, for the search index."""

from collections.abc import Callable, Iterable

from roboco.errors import UsageError
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.mime import is_text
from roboco.workspace.artifacts.store import find_artifact, iter_pieces


def artifact_reader(files: Files) -> Callable[[str, str, int], bytes | None]:
    """Return a function that reads the beginning of text artifacts, for the search index."""

    def read(task_id: str, name: str, most: int) -> bytes | None:
        try:
            artifact = find_artifact(files, task_id, name)
        except UsageError:
            return None
        whole = (
            b"".join(_first_pieces(iter_pieces(files, task_id, artifact), most))
            if is_text(artifact.mime_type)
            else None
        )
        return None if whole is None else whole[:most]

    return read


def _first_pieces(pieces: Iterable[bytes], max_bytes: int) -> list[bytes]:
    """Return the pieces that contain the first `max_bytes` bytes."""
    taken: list[bytes] = []
    for piece in pieces:
        taken.append(piece)
        max_bytes -= len(piece)
        if max_bytes <= 0:
            break
    return taken
