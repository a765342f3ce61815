"""Opens the workspace of a URL."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.folder_history import FolderHistories
from roboco.adapters.workspace.s3 import ATTEMPTS, S3Files, S3Objects, connect_s3
from roboco.adapters.workspace.s3_history import S3Histories
from roboco.errors import UsageError
from roboco.ports import Files, Histories


class Workspace(NamedTuple):
    """The files and histories of tasks."""

    files: Files
    histories: Histories


def open_workspace(
    url: str, s3_endpoint_url: str | None = None, s3_timeout: float = 20.0, attempts: int = ATTEMPTS
) -> Workspace:
    """Return the workspace at "file:///folder" or "s3://bucket/prefix". Raise UsageError for any other URL."""
    objects = open_objects(url, s3_endpoint_url, s3_timeout, attempts)
    if objects is not None:
        return Workspace(S3Files(objects), S3Histories(objects))
    parts = urlsplit(url)
    if parts.scheme == "file":
        files = FolderFiles(Path(unquote(parts.netloc + parts.path)).absolute())
        return Workspace(files, FolderHistories(files))
    raise UsageError(f"ROBOCO_WORKSPACE={url!r} is not possible: use file:///folder or s3://bucket/prefix")


def open_objects(
    url: str, s3_endpoint_url: str | None = None, s3_timeout: float = 20.0, attempts: int = ATTEMPTS
) -> S3Objects | None:
    """Return the objects at "s3://bucket/prefix", or None if the URL names no bucket."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        return None
    client = connect_s3(s3_endpoint_url, timeout=s3_timeout, attempts=attempts)
    return S3Objects(client, parts.netloc, parts.path)
