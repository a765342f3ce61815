"""Checks of the workspace: it can be written, one of two concurrent writers wins, and no rule deletes its files."""

import shutil
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from roboco.cli.doctor.check import CheckResult, CheckState, expect
from roboco.errors import RobocoError
from roboco.ports.workspace import Files
from roboco.settings import Settings
from roboco.workspace.conditions import REMEDY, conditional_write_flaw
from roboco.workspace.folder import FolderFiles
from roboco.workspace.open import open_workspace
from roboco.workspace.s3 import S3Objects, connect_s3, open_objects

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


LOW_DISK_BYTES: Final = 2**30
FULL_DISK_BYTES: Final = 100 * 2**20
"""Free bytes below which the disk of a folder is nearly full, or counts as full."""
MAX_WAIT: Final = 5.0
"""Seconds for one answer of the store."""
MAX_CLOCK_SKEW: Final = 60.0
"""Seconds by which the store's clock may differ; beyond 15 minutes it refuses all signed requests."""


def check_workspace(settings: Settings) -> Iterator[CheckResult]:
    """Check that the workspace can be written, that one of two writers wins, and that no rule deletes its files."""
    began = time.monotonic()
    try:
        place = _open_files(settings)
        flaw = conditional_write_flaw(place) if isinstance(place, S3Objects) else _files_flaw(place)
    except (RobocoError, OSError) as error:
        found, its_own, todo = str(error).rpartition("; ")
        writable = "set ROBOCO_WORKSPACE to a folder or bucket that can be written"
        yield CheckResult("workspace", "fail", found if its_own else todo, todo if its_own else writable)
        return
    found = f" {flaw}" if flaw else f", {(time.monotonic() - began) * 1000:.0f} ms for a check"
    yield expect("workspace", not flaw, f"{settings.workspace}{found}", REMEDY, "fail")
    if isinstance(place, FolderFiles):
        yield _check_disk(place)
    elif isinstance(place, S3Objects):
        yield from _check_bucket(settings, place)


def _open_files(settings: Settings) -> S3Objects | Files:
    """Return the bucket's objects, from a client with shorter time-outs than a worker's, or the files of a folder."""
    objects = open_objects(settings.workspace, settings.s3_endpoint_url, _answer_timeout(settings), attempts=1)
    return objects or open_workspace(settings.workspace).files


def _answer_timeout(settings: Settings) -> float:
    return min(MAX_WAIT, settings.s3_timeout)


def _files_flaw(files: Files) -> str | None:
    path = f"_doctor/{uuid.uuid4().hex}"
    try:
        won = files.create(path, b"first"), files.create(path, b"second")
        kept = files.get(path)
    finally:
        _remove(files, path)
    right = won == (True, False) and kept == b"first"
    return None if right else "lets a second writer replace a file of the first"


def _check_disk(files: FolderFiles) -> CheckResult:
    free = shutil.disk_usage(files.path_of("_doctor").parent).free
    state: CheckState = "ok" if free > LOW_DISK_BYTES else "warn" if free > FULL_DISK_BYTES else "fail"
    todo = "" if state == "ok" else "free some space: a full disk stops all tasks"
    return CheckResult("workspace disk", state, f"{free / 2**30:.1f} GB free", todo)


def _check_bucket(settings: Settings, objects: S3Objects) -> Iterator[CheckResult]:
    parts = urlsplit(settings.workspace)
    client = connect_s3(settings.s3_endpoint_url, timeout=_answer_timeout(settings), attempts=1)
    try:
        yield from check_objects(objects, _answer_timeout(settings))
        yield _check_places(objects)
        yield _check_clock(client.head_bucket(Bucket=parts.netloc))
    except (RobocoError, BotoCoreError, ClientError) as error:
        yield CheckResult("s3", "fail", str(error), "check the rights of its user")
        return
    try:
        rules = _lifecycle_rules(client, parts.netloc)
    except ClientError as error:
        found = f"its rules cannot be read ({_error_code(error)})"
        yield CheckResult(
            "s3 lifecycle", "warn", found, "have a user with the right check that no rule deletes histories"
        )
    else:
        yield _check_lifecycle(rules, parts.path.strip("/"))


def _check_places(objects: S3Objects) -> CheckResult:
    """Check that no records of operators are where earlier releases had them, and where every worker may write."""
    misplaced = objects.misplaced_records()
    found = f"records of operators are where no process reads them: {', '.join(misplaced)}" if misplaced else "none"
    todo = "move them as 'Records of operators' in deploy/README.md describes, or delete them if a worker has made them"
    return expect("s3 misplaced records", not misplaced, found, todo, "fail")


def _check_clock(answer: dict[str, Any]) -> CheckResult:
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if date is None:
        return CheckResult(
            "s3 clock", "warn", "the store reports no time", "synchronise the clocks of all machines by NTP"
        )
    skew = parsedate_to_datetime(date).timestamp() - time.time()
    found = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    return expect("s3 clock", abs(skew) < MAX_CLOCK_SKEW, found, "synchronise the clocks of all machines by NTP")


def _lifecycle_rules(client: Any, bucket: str) -> list[dict[str, Any]]:
    """Return the bucket's lifecycle rules. Raises ClientError if they cannot be read."""
    try:
        rules: list[dict[str, Any]] = client.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
    except ClientError as error:
        if _error_code(error) != "NoSuchLifecycleConfiguration":
            raise
        return []
    return rules


def _check_lifecycle(rules: list[dict[str, Any]], prefix: str) -> CheckResult:
    """Check that no rule of the bucket deletes objects below the workspace's prefix."""
    deleting = [str(rule.get("ID", "?")) for rule in rules if deletes_old_objects(rule, prefix)]
    found = f"rule {', '.join(deleting)} deletes old objects" if deleting else "no rule deletes anything"
    todo = "take the workspace's prefix out of it: a history that lost its first steps cannot be read"
    return expect("s3 lifecycle", not deleting, found, todo, "fail")


def deletes_old_objects(rule: dict[str, Any], prefix: str) -> bool:
    """Return True if the rule of a bucket deletes old objects below the prefix."""
    of = _rule_prefix(rule)
    touches = of.startswith(prefix) or f"{prefix}/".startswith(of)
    expiry = rule.get("Expiration") or {}
    return rule.get("Status") == "Enabled" and touches and bool(expiry.get("Days") or expiry.get("Date"))


def _rule_prefix(rule: dict[str, Any]) -> str:
    limited = rule.get("Filter") or {}
    return str(rule.get("Prefix") or limited.get("Prefix") or (limited.get("And") or {}).get("Prefix") or "")


def _error_code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _remove(files: Files, path: str) -> None:
    files.delete(path)
    if isinstance(files, FolderFiles):
        with suppress(OSError):  # another doctor uses it
            files.path_of(path).parent.rmdir()
