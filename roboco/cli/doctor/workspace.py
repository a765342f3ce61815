"""Checks of the workspace: can it be written, does one of two writers win, and does it keep what it has?"""

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from roboco.adapters.workspace.conditions import REMEDY, conditions_flaw
from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.open import open_workspace
from roboco.adapters.workspace.s3 import S3Objects, connect_s3
from roboco.adapters.workspace.s3_open import open_objects
from roboco.cli.doctor.check import Check, State, wanted
from roboco.cli.doctor.objects import check_objects
from roboco.errors import RobocoError
from roboco.ports import Files
from roboco.settings import Settings

_LITTLE, _NONE = 2**30, 100 * 2**20
"""Bytes free below which a folder's disk is nearly full, or as good as full."""
_WAIT = 5.0
"""Seconds for one answer of the store."""
_SKEW = 60.0
"""Seconds by which the store's clock may differ; beyond 15 minutes it refuses all that is signed."""


def check_workspace(settings: Settings) -> Iterator[Check]:
    """Whether the workspace can be written, lets only one of two writers win, and keeps what it has."""
    began = time.monotonic()
    try:
        place = _opened(settings)
        flaw = conditions_flaw(place) if isinstance(place, S3Objects) else _files_flaw(place)
    except (RobocoError, OSError) as error:
        yield Check(
            "workspace", "fail", str(error), "make ROBOCO_WORKSPACE name a folder or bucket that can be written"
        )
        return
    found = f" {flaw}" if flaw else f", {(time.monotonic() - began) * 1000:.0f} ms for a check"
    yield wanted("workspace", not flaw, f"{settings.workspace}{found}", REMEDY, "fail")
    if isinstance(place, FolderFiles):
        yield _disk(place)
    elif isinstance(place, S3Objects):
        yield from _bucket(settings, place, tried=not flaw)


def _opened(settings: Settings) -> S3Objects | Files:
    """The bucket's objects, from a client that gives up sooner than a worker's, or the files of a folder."""
    objects = open_objects(settings.workspace, settings.s3_endpoint_url, _wait(settings), attempts=1)
    return objects or open_workspace(settings.workspace).files


def _wait(settings: Settings) -> float:
    return min(_WAIT, settings.s3_timeout)


def _files_flaw(files: Files) -> str | None:
    path = f"_doctor/{uuid.uuid4().hex}"
    try:
        won = files.create(path, b"first"), files.create(path, b"second")
        kept = files.get(path)
    finally:
        _remove(files, path)
    right = won == (True, False) and kept == b"first"
    return None if right else "lets a second writer replace a file of the first"


def _disk(files: FolderFiles) -> Check:
    free = shutil.disk_usage(files.at("_doctor").parent).free
    state: State = "ok" if free > _LITTLE else "warn" if free > _NONE else "fail"
    todo = "" if state == "ok" else "make room: what cannot be stored is not done"
    return Check("workspace disk", state, f"{free / 2**30:.1f} GB free", todo)


def _bucket(settings: Settings, objects: S3Objects, tried: bool) -> Iterator[Check]:
    parts = urlsplit(settings.workspace)
    client = connect_s3(settings.s3_endpoint_url, timeout=_wait(settings), attempts=1)
    try:
        if tried:
            yield _replaced(objects)
        yield from check_objects(objects, _wait(settings))
        yield _clock(client.head_bucket(Bucket=parts.netloc))
    except (RobocoError, BotoCoreError, ClientError) as error:
        yield Check("s3", "fail", str(error), "check the rights of its user, and that the store honours If-Match")
        return
    try:
        rules = _rules(client, parts.netloc)
    except ClientError as error:
        found = f"its rules cannot be read ({_code(error)})"
        yield Check("s3 lifecycle", "warn", found, "let somebody who may see that no rule deletes histories")
        rules = []
    else:
        yield _lifecycle(rules, parts.path.strip("/"))
    yield _versions(client, parts.netloc, rules, parts.path.strip("/"))


def _replaced(objects: S3Objects) -> Check:
    """Whether a write that names an entity tag fails where another one has written since."""
    path = f"_doctor/{uuid.uuid4().hex}"
    try:
        objects.put(path, b"first")
        stored = objects.get(path)
        etag = None if stored is None else stored.etag
        first, second = (objects.put(path, data, if_match=etag) for data in (b"second", b"third"))
        right = etag is not None and first and not second
    finally:
        objects.delete(path)
    found = "a write on condition fails where it has to" if right else "a write on condition replaces what is newer"
    return wanted("s3 conditions", right, found, "use a store that honours If-Match", "fail")


def _clock(answer: dict[str, Any]) -> Check:
    told = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if told is None:
        return Check("s3 clock", "warn", "the store tells no time", "let all machines keep the time by NTP")
    skew = parsedate_to_datetime(told).timestamp() - time.time()
    found = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    return wanted("s3 clock", abs(skew) < _SKEW, found, "let all machines keep the time by NTP")


def _rules(client: Any, bucket: str) -> list[dict[str, Any]]:
    """The bucket's lifecycle rules; ClientError if they cannot be read."""
    try:
        rules: list[dict[str, Any]] = client.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
    except ClientError as error:
        if _code(error) != "NoSuchLifecycleConfiguration":
            raise
        return []
    return rules


def _lifecycle(rules: list[dict[str, Any]], prefix: str) -> Check:
    """Whether a rule of the bucket deletes what stands below the workspace's prefix."""
    deleting = [str(rule.get("ID", "?")) for rule in rules if deletes(rule, prefix)]
    found = f"rule {', '.join(deleting)} deletes what is old" if deleting else "no rule deletes anything"
    todo = "take the workspace's prefix out of it: a history that lost its first steps cannot be read"
    return wanted("s3 lifecycle", not deleting, found, todo, "fail")


def _versions(client: Any, bucket: str, rules: list[dict[str, Any]], prefix: str) -> Check:
    """Whether a bucket that keeps old versions forgets them some day.

    Nothing here reads them. But `history.jsonl` and `task.json` are replaced again and again, and folded steps are
    deleted: each of those stays, and is paid for.
    """
    try:
        status = client.get_bucket_versioning(Bucket=bucket).get("Status")
    except ClientError as error:
        if _code(error) in ("NotImplemented", "MethodNotAllowed"):
            return Check("s3 versions", "ok", "the store keeps none")
        found, todo = f"cannot be asked for ({_code(error)})", "let somebody who may see whether the bucket keeps them"
        return Check("s3 versions", "warn", found, todo)
    if status is None:
        return Check("s3 versions", "ok", "none are kept: what somebody deletes by hand is gone")
    days = [forgets_after(rule, prefix) for rule in rules]
    soonest = min((one for one in days if one is not None), default=None)
    todo = "add a rule with NoncurrentVersionExpiration, of 30 days say: each step is stored several times over"
    found = "are kept for ever" if soonest is None else f"are kept for {soonest} days"
    return wanted("s3 versions", soonest is not None, f"old versions {found}", todo)


def deletes(rule: dict[str, Any], prefix: str) -> bool:
    """Whether the rule of a bucket deletes what stands below the prefix, once it is old."""
    of = _prefix_of(rule)
    touches = of.startswith(prefix) or f"{prefix}/".startswith(of)
    expiry = rule.get("Expiration") or {}
    return rule.get("Status") == "Enabled" and touches and bool(expiry.get("Days") or expiry.get("Date"))


def forgets_after(rule: dict[str, Any], prefix: str) -> int | None:
    """After how many days the rule deletes old versions of all that stands below the prefix; None if it does not."""
    limited = rule.get("Filter") or {}
    narrow = limited.get("Tag") or (limited.get("And") or {}).get("Tags") or "ObjectSize" in str(limited)
    days = (rule.get("NoncurrentVersionExpiration") or {}).get("NoncurrentDays")
    whole = f"{prefix}/".startswith(_prefix_of(rule)) and not narrow
    return int(days) if days and whole and rule.get("Status") == "Enabled" else None


def _prefix_of(rule: dict[str, Any]) -> str:
    limited = rule.get("Filter") or {}
    return str(rule.get("Prefix") or limited.get("Prefix") or (limited.get("And") or {}).get("Prefix") or "")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _remove(files: Files, path: str) -> None:
    files.delete(path)
    if isinstance(files, FolderFiles):
        with suppress(OSError):  # another doctor is at work
            files.at(path).parent.rmdir()
