"""Opening a workspace in a bucket. It imports boto3, which a process with a workspace in a folder does not need."""

from urllib.parse import urlsplit

from roboco.workspace.s3 import MAX_ATTEMPTS, S3Files, S3Objects, connect_s3
from roboco.workspace.s3_history import S3Histories


def open_objects(
    url: str, s3_endpoint_url: str | None = None, s3_timeout: float = 20.0, attempts: int = MAX_ATTEMPTS
) -> S3Objects | None:
    """Return the objects at "s3://bucket/prefix", or None if the URL names no bucket."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        return None
    client = connect_s3(s3_endpoint_url, timeout=s3_timeout, attempts=attempts)
    return S3Objects(client, parts.netloc, parts.path)


def open_bucket(
    url: str, s3_endpoint_url: str | None, s3_timeout: float, attempts: int | None
) -> tuple[S3Files, S3Histories] | None:
    """Return the files and histories at "s3://bucket/prefix", or None if the URL names no bucket."""
    objects = open_objects(url, s3_endpoint_url, s3_timeout, attempts or MAX_ATTEMPTS)
    return None if objects is None else (S3Files(objects), S3Histories(objects))
