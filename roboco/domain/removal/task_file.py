"""The files of a task that a tar of it holds, and the records beside them."""

import re
from typing import Final

from roboco.domain.schema import RecordModel

HEADER_NAME: Final = "roboco-task.json"
"""The first member of the tar."""
MANIFEST_NAME: Final = "roboco-manifest.json"
"""The last member of the tar."""
FILES_PREFIX: Final = "files/"
"""The prefix of the members between these two."""
FORMAT: Final = 1
HISTORY_FILE, SUMMARY_FILE, TEAM_FILE = "history.jsonl", "task.json", "team.json"
MEMORY_FILE: Final = "memory.json"
"""The entries that the task had remembered when the tar was made."""
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,170}"
_PATH: Final = re.compile(
    r"(team\.json|task\.json|history\.jsonl|events\.jsonl|lineage\.json|recorded_calls\.json|notify\.json|memory\.json|continued(-[0-9]{1,9})?\.json"
    rf"|(applied|artifacts|artifact_info|effects|failures|feedback|forks|summaries|mcp)/{_NAME}"
    rf"|mcp/changes/{_NAME}|finished_notifications/[0-9]{{8}}/{_NAME})"
)


class TarHeader(RecordModel):
    """The first record of a tar: the task that it holds."""

    format: int
    task_id: str


class TarFile(RecordModel):
    """A file of a tar."""

    path: str
    """Relative to the folder of the task."""
    size: int
    sha256: str


class TarManifest(RecordModel):
    """The last record of a tar: all of its files."""

    files: list[TarFile]


def is_portable(path: str) -> bool:
    """Return True if a tar holds the file at this path below the folder of its task.

    It holds no pending notifications, unfinished uploads and unmerged segments: an ended task needs none of them. The
    receivers of push notifications are left out, too, since they have the credentials of clients.
    """
    return ".." not in path and _PATH.fullmatch(path) is not None
