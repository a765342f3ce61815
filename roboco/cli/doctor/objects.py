"""Checks of objects in a bucket: the store keeps their metadata, and a signed URL to one works."""

import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from roboco.cli.doctor.check import CheckResult, expect
from roboco.workspace.s3 import S3Objects

_CONTENT = b"A check of Roboco reads this by a link.\n"
_METADATA = {"steps": "1"}
_LINK_SECONDS: Final = 60
"""Seconds for which the link is valid."""
_REMEDY: Final = (
    "have its user get objects (s3:GetObject), synchronise clocks by NTP, and set AWS_DEFAULT_REGION to the bucket's "
    "region and ROBOCO_S3_ENDPOINT_URL to the address that the store itself knows: a proxy that changes it breaks "
    "signatures. If the bucket is in the host's name and must not be, set addressing_style = path below s3 = in the "
    "file of AWS_CONFIG_FILE"
)


def check_objects(objects: S3Objects, wait: float) -> Iterator[CheckResult]:
    """Check that the store keeps the metadata of an object, and gives the object to the holder of a link."""
    path = f"_doctor/{uuid.uuid4().hex}"
    objects.put(path, _CONTENT, Metadata=_METADATA)
    try:
        yield _check_metadata(objects.metadata(path))
        yield _check_link(objects.presigned_url(path, _LINK_SECONDS), wait)
    finally:
        objects.delete(path)


def _check_metadata(found: dict[str, str] | None) -> CheckResult:
    kept = {name.lower(): value for name, value in (found or {}).items()} == _METADATA
    fate = "is kept" if kept else "is dropped: for each step Roboco reads the end of history.jsonl (up to 256 KiB)"
    todo = "nothing is lost; if tasks have many steps, use a store that keeps x-amz-meta-* headers"
    return expect("s3 metadata", kept, f"user metadata {fate}", todo)


def _check_link(link: str, wait: float) -> CheckResult:
    """Check the link. Never print it: its signature grants access."""
    parts = urlsplit(link)
    where = f"{parts.scheme}://{parts.netloc}"
    try:
        with urllib.request.urlopen(link, timeout=wait) as answer:  # noqa: S310 - the operator's store
            right = answer.read(len(_CONTENT) + 1) == _CONTENT
    except urllib.error.HTTPError as error:
        with error:
            return CheckResult("s3 links", "warn", f"a link is refused: {error.code} from {where}", _REMEDY)
    except (OSError, ValueError) as error:
        found = f"a link to {where} cannot be followed: {getattr(error, 'reason', error)}"
        return CheckResult("s3 links", "warn", found, _REMEDY)
    result = "work" if right else "return something other than the object"
    todo = f"check which server answers at {where}: it is not the store"
    return expect("s3 links", right, f"links {result}: {where}; browsers must reach that address", todo)
