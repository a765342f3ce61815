"""Opens the workspace of a URL."""

import importlib
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from roboco.errors import UsageError
from roboco.ports.histories import Histories
from roboco.ports.workspace import Files
from roboco.workspace.folder import FolderFiles
from roboco.workspace.folder_history import FolderHistories


class Workspace(NamedTuple):
    """The files and histories of tasks."""

    files: Files
    histories: Histories


def open_workspace(
    url: str, s3_endpoint_url: str | None = None, s3_timeout: float = 20.0, attempts: int | None = None
) -> Workspace:
    """Return the workspace at "file:///folder" or "s3://bucket/prefix". Raises UsageError for any other URL.

    A request to S3 is sent `attempts` times at most; None is the default of `connect_s3`.
    """
    parts = urlsplit(url)
    if parts.scheme == "s3":
        s3: Any = importlib.import_module("roboco.workspace.s3")  # which imports boto3
        if (objects := s3.open_objects(url, s3_endpoint_url, s3_timeout, attempts)) is not None:
            history: Any = importlib.import_module("roboco.workspace.s3_history")
            return Workspace(s3.S3Files(objects), history.S3Histories(objects))
    if parts.scheme == "file":
        files = FolderFiles(Path(unquote(parts.netloc + parts.path)).absolute())
        return Workspace(files, FolderHistories(files))
    raise UsageError(f"ROBOCO_WORKSPACE={url!r} is not possible: use file:///folder or s3://bucket/prefix")
