"""Files of the workspace in an S3-compatible store, below a prefix of a bucket."""

import contextvars
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from roboco.domain.paths import OPERATOR_RECORDS, operator_prefix
from roboco.domain.url import strip_credentials
from roboco.errors import TransientError
from roboco.ports.workspace import FolderPage, StoredFile, VersionedFile
from roboco.workspace.path import checked_path

_Answer = TypeVar("_Answer")

CONFLICT_STATUSES = frozenset({409, 412})
"""HTTP statuses of a conditional write that lost: 412 as a rule, 409 if two writers collided."""
MAX_ATTEMPTS = 4
"""Attempts at a request that gets no answer, or a server error."""
MAX_TRIES = 6
"""Tries of an operation that other workers disturb."""
_FIRST_DELAY = 0.01
"""Seconds of the first delay between such tries at most. It doubles each time: 0.3 seconds for all tries."""
_MAX_CONCURRENT_REQUESTS = 16
"""Concurrent requests; the client has 50 connections."""
_NOT_IMPLEMENTED = 501
_RANGE_NOT_SATISFIABLE = 416
"""HTTP status of a range that begins after the end of an object."""
_TRANSFER = TransferConfig(
    multipart_threshold=16 * 1024 * 1024, multipart_chunksize=16 * 1024 * 1024, max_concurrency=4
)
_STREAM_TRANSFER = TransferConfig(
    multipart_threshold=8 * 1024 * 1024, multipart_chunksize=8 * 1024 * 1024, max_concurrency=2
)
_STREAM_TRANSFER.max_in_memory_upload_chunks = 2
"""Of a source that is read once, each part is held in memory: at most 3 parts, 24 MB. 10,000 parts hold 80 GB."""
_TAGGED = frozenset({"PutObject", "GetObject", "HeadObject", "UploadPart"})
"""Operations whose success has an entity tag in its headers."""
_ROOTS = {
    "ListObjectsV2": b"ListBucketResult",
    "CopyObject": b"CopyObjectResult",
    "CreateMultipartUpload": b"InitiateMultipartUploadResult",
    "UploadPartCopy": b"CopyPartResult",
    "CompleteMultipartUpload": b"CompleteMultipartUploadResult",
}
"""The root element of the body with which an operation succeeds."""
_MEANINGFUL_STATUSES = frozenset({404, 409, 412, 416, 501})
"""HTTP statuses that say something about an object, and not that the store has failed."""
_STORE_FULL = re.compile("Full|Quota")
_NO_BUCKET_CODE = "NoSuchBucket"
_NO_OBJECT_CODES = {"get_object": "NoSuchKey", "head_object": "404"}  # an answer to HEAD has no body with a code
_KEY_REMEDIES = {
    "SignatureDoesNotMatch": "correct AWS_SECRET_ACCESS_KEY: it does not fit AWS_ACCESS_KEY_ID",
    "InvalidAccessKeyId": "correct AWS_ACCESS_KEY_ID: the store does not know it",
}
_CURSOR_REFUSED_CODE = "InvalidArgument"


def connect_s3(endpoint_url: str | None, timeout: float = 20.0, attempts: int = MAX_ATTEMPTS) -> Any:
    """Return a client with a limit on every wait. boto3 reads the credentials from the environment.

    Each attempt waits `timeout` seconds for an answer.
    """
    config = Config(
        connect_timeout=min(5.0, timeout),
        read_timeout=timeout,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=50,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        signature_version="s3v4",  # URLs too: by default boto3 signs them with version 2, which newer regions refuse
        user_agent=f"roboco boto3/{boto3.__version__}",  # boto3 builds its default anew for each call
    )
    session = boto3.session.Session()
    region = session.region_name or "us-east-1"
    client = session.client("s3", endpoint_url=endpoint_url, region_name=region, config=config)
    client.meta.events.register("before-parse.s3", _refuse_foreign_answer)
    return client


def open_objects(
    url: str, s3_endpoint_url: str | None = None, s3_timeout: float = 20.0, attempts: int | None = None
) -> "S3Objects | None":
    """Return the objects at "s3://bucket/prefix", or None if the URL names no bucket."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        return None
    client = connect_s3(s3_endpoint_url, timeout=s3_timeout, attempts=attempts or MAX_ATTEMPTS)
    return S3Objects(client, parts.netloc, parts.path)


def tries() -> Iterator[int]:
    """Yield the number of each try. Wait a random time between tries, so that workers do not collide again."""
    for number in range(MAX_TRIES):
        if number:
            time.sleep(random.uniform(0.5, 1) * _FIRST_DELAY * 2 ** (number - 1))  # noqa: S311 - no secret
        yield number


def for_each(request: Callable[[str], _Answer], paths: Sequence[str]) -> list[_Answer]:
    """Return the answers to concurrent requests for the paths, in order. Raise the error of the first one that fails.

    A single request needs no thread. Log lines of the threads name the work of the calling thread.
    """
    if len(paths) <= 1:
        return [request(path) for path in paths]
    context = contextvars.copy_context()
    threads = min(_MAX_CONCURRENT_REQUESTS, len(paths))
    with ThreadPoolExecutor(threads, initializer=_adopt_context, initargs=(context,)) as pool:
        return list(pool.map(request, paths))


def _adopt_context(context: contextvars.Context) -> None:
    for variable, value in context.items():
        variable.set(value)


class _KeepOpen:
    """A caller's file that boto3 must not close. It closes files that fit into one part."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def close(self) -> None:
        """Do nothing: the caller closes the file."""


@dataclass(frozen=True)
class StoredObject:
    """An object's bytes, its entity tag and its metadata."""

    data: bytes
    etag: str
    metadata: Mapping[str, str]


class S3Objects:
    """Objects of one bucket below one prefix: the operations of the workspace, with Roboco's errors."""

    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def put(self, path: str, data: bytes, if_none: bool = False, if_match: str | None = None, **extra: Any) -> bool:
        """Store the object. Return False if the condition (no object, or an object with this tag) does not hold."""
        condition = {"IfNoneMatch": "*"} if if_none else {"IfMatch": if_match} if if_match else {}
        with _translating_errors(self._client, self._bucket):
            try:
                self._client.put_object(Bucket=self._bucket, Key=self._key(path), Body=data, **condition, **extra)
            except ClientError as error:
                gone = if_match and _status(error) == 404 and _code(error) != _NO_BUCKET_CODE
                if condition and (_status(error) in CONFLICT_STATUSES or gone):
                    return False
                if condition and _status(error) == _NOT_IMPLEMENTED:
                    raise TransientError(
                        f"the S3 store refuses writes with {next(iter(condition))} to bucket {self._bucket!r}, "
                        "on which Roboco depends; see `roboco doctor`, and use another store or a folder"
                    ) from error
                raise
        return True

    def get(self, path: str) -> StoredObject | None:
        """Return the object, or None if there is none."""
        with _translating_errors(self._client, self._bucket):
            if (answer := self._answer("get_object", path)) is None:
                return None
            return StoredObject(answer["Body"].read(), answer["ETag"], answer["Metadata"])

    def put_from(self, path: str, source: BinaryIO) -> None:
        """Store the rest of the source, in parts if it is large. Parts of a source that fails are dropped."""
        config = _TRANSFER if source.seekable() else _STREAM_TRANSFER
        with _translating_errors(self._client, self._bucket):
            self._client.upload_fileobj(_KeepOpen(source), self._bucket, self._key(path), Config=config)

    def copy(self, source: str, path: str) -> None:
        """Store the bytes of another object, which the store copies itself. Do nothing if there is no source.

        S3 refuses a copy of an object onto itself; such a copy changes nothing.
        """
        if source == path:
            return
        origin = {"Bucket": self._bucket, "Key": self._key(source)}
        with _translating_errors(self._client, self._bucket):
            try:
                self._client.copy(origin, self._bucket, self._key(path), Config=_TRANSFER)
            except ClientError as error:
                if _status(error) != 404:
                    raise

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Return at most `length` bytes of the object from `start` on, or None if there is none."""
        if length < 1:  # HTTP has no empty range: a store would answer with the whole object
            return None if self.size(path) is None else b""
        return self._get_range(path, f"bytes={start}-{start + length - 1}")

    def read_last(self, path: str, length: int) -> bytes | None:
        """Return at most the last `length` bytes of the object, or None if there is none."""
        return self._get_range(path, f"bytes=-{length}")

    def _get_range(self, path: str, span: str) -> bytes | None:
        with _translating_errors(self._client, self._bucket):
            try:
                answer = self._answer("get_object", path, Range=span)
                data: bytes | None = None if answer is None else answer["Body"].read()
            except ClientError as error:
                if _status(error) == _RANGE_NOT_SATISFIABLE:
                    return b""
                raise
        return data

    def size(self, path: str) -> int | None:
        """Return the size of the object in bytes, or None if there is none."""
        with _translating_errors(self._client, self._bucket):
            answer = self._answer("head_object", path)
        return None if answer is None else int(answer["ContentLength"])

    def presigned_url(self, path: str, seconds: int) -> str:
        """Return a URL, signed with this process' credentials, that grants access to the object for these seconds."""
        params = {"Bucket": self._bucket, "Key": self._key(path)}
        with _translating_errors(self._client, self._bucket):
            return str(self._client.generate_presigned_url("get_object", Params=params, ExpiresIn=seconds))

    def metadata(self, path: str) -> dict[str, str] | None:
        """Return the metadata of the object, or None if there is none."""
        with _translating_errors(self._client, self._bucket):
            answer = self._answer("head_object", path)
        found: dict[str, str] | None = None if answer is None else answer["Metadata"]
        return found

    def _answer(self, operation: str, path: str, **arguments: Any) -> Any:
        """Return the answer to a request for an object, or None if there is no object."""
        try:
            return getattr(self._client, operation)(Bucket=self._bucket, Key=self._key(path), **arguments)
        except ClientError as error:
            if _code(error) == _NO_OBJECT_CODES[operation]:
                return None
            raise

    def delete(self, path: str) -> None:
        """Remove the object, if it exists."""
        with _translating_errors(self._client, self._bucket):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(path))

    def _key(self, path: str) -> str:
        prefix = operator_prefix(self._prefix) if path.startswith(OPERATOR_RECORDS) else self._prefix
        return prefix + checked_path(path)

    def misplaced_records(self) -> list[str]:
        """Return the keys of objects below the prefix of the tasks at which earlier releases had operators' records."""
        found = list[str]()
        for record in OPERATOR_RECORDS if self._prefix else ():
            with _translating_errors(self._client, self._bucket):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + record, MaxKeys=1)
            found += [entry["Key"] for entry in page.get("Contents", [])]
        return found

    def names(self, folder: str) -> list[str]:
        """Return the names directly below a folder, sorted; those of folders without the "/"."""
        base = self._key(folder)
        found: set[str] = set()
        with _translating_errors(self._client, self._bucket):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=base, Delimiter="/"
            )
            for page in pages:
                found.update(entry["Key"].removeprefix(base) for entry in page.get("Contents", []))
                found.update(entry["Prefix"].removeprefix(base).rstrip("/") for entry in page.get("CommonPrefixes", []))
        return sorted(found - {""})

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        """Return the first names of objects directly below a folder that follow `after`, in pages of 1,000."""
        base, found, token = self._key(folder), list[str](), None
        with _translating_errors(self._client, self._bucket):
            while len(found) < limit:
                start = {"ContinuationToken": token} if token else {"StartAfter": base + after}
                page = self._client.list_objects_v2(
                    Bucket=self._bucket, Prefix=base, Delimiter="/", MaxKeys=min(limit - len(found), 1000), **start
                )
                names = (entry["Key"].removeprefix(base) for entry in page.get("Contents", []))
                found += [name for name in names if name > after]
                if not (token := page.get("NextContinuationToken")):
                    break
        return found

    def tree(self, folder: str) -> Iterator[StoredFile]:
        """Yield the objects at any depth below a folder, in pages of 1,000, in the store's order."""
        base, token = self._key(folder), ""
        while True:
            start = {"ContinuationToken": token} if token else {}
            with _translating_errors(self._client, self._bucket):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=base, **start)
            for entry in page.get("Contents", []):
                yield StoredFile(folder + entry["Key"].removeprefix(base), int(entry["Size"]))
            if not (token := str(page.get("NextContinuationToken") or "")):
                return

    def folders(self, cursor: str, limit: int) -> FolderPage | None:
        """Return a page of the folders, with one request. The cursor is the store's: each store has its own order.

        Return None if the store refuses the cursor.
        """
        start = {"ContinuationToken": cursor} if cursor else {}
        with _translating_errors(self._client, self._bucket):
            try:
                page = self._client.list_objects_v2(
                    Bucket=self._bucket, Prefix=self._prefix, Delimiter="/", MaxKeys=min(limit, 1000), **start
                )
            except ClientError as error:
                if cursor and _code(error) == _CURSOR_REFUSED_CODE:
                    return None
                raise
        paths = (entry["Prefix"].removeprefix(self._prefix) for entry in page.get("CommonPrefixes", []))
        return FolderPage(tuple(path.removesuffix("/") for path in paths), str(page.get("NextContinuationToken") or ""))


class S3Files:
    """Files of the workspace as objects. Operations without a condition are those of the objects."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self.put_from, self.copy, self.delete = objects.put_from, objects.copy, objects.delete
        self.read, self.size, self.presigned_url = objects.read, objects.size, objects.presigned_url
        self.names, self.names_after = objects.names, objects.names_after
        self.folders, self.tree = objects.folders, objects.tree

    def create(self, path: str, data: bytes, durable: bool = True) -> bool:
        """Store the file if there is none. Return False if another file exists."""
        for _ in tries():
            if self._objects.put(path, data, if_none=True):
                return True
            if (stored := self.get(path)) is not None:
                return stored == data
        raise TransientError(
            f"file {path!r} could neither be stored nor read in {MAX_TRIES} tries, because other workers store and "
            "remove it; try again later"
        )

    def put(self, path: str, data: bytes) -> None:
        """Store the file, in place of an older one."""
        self._objects.put(path, data)

    def get(self, path: str) -> bytes | None:
        """Return the file's bytes, or None if there is none."""
        stored = self._objects.get(path)
        return None if stored is None else stored.data

    def get_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the bytes of each file, or None where there is none. The requests are concurrent."""
        return for_each(self.get, paths)

    def get_versioned(self, path: str) -> VersionedFile | None:
        """Return the file's bytes and their entity tag as version, or None if there is none."""
        stored = self._objects.get(path)
        return None if stored is None else VersionedFile(stored.data, stored.etag)

    def replace(self, path: str, data: bytes, version: str | None, durable: bool = True) -> bool:
        """Store the file if it still has this version. Return False if another write won."""
        if version is None:
            return self.create(path, data)
        return self._objects.put(path, data, if_match=version) or self.get(path) == data

    def delete_tree(self, folder: str, limit: int) -> int:
        """Remove at most `limit` files below a folder. The requests are concurrent. Return how many were there."""
        return len(for_each(self.delete, [file.path for file in islice(self._objects.tree(folder), limit)]))


def _refuse_foreign_answer(operation_model: Any, response_dict: Mapping[str, Any], **_: Any) -> None:
    """Raise TransientError for an answer that no S3 store gives, such as the page of a proxy. boto3 would trust it.

    To follow a redirection that names no region, boto3 would call itself without an end.
    """
    status, headers, name = response_dict["status_code"], response_dict["headers"], operation_model.name
    if status < 300:
        root = _ROOTS.get(name)
        foreign = (name in _TAGGED and "ETag" not in headers) or (bool(root) and root not in response_dict["body"])
    elif status < 400:
        foreign = status != 304 and "x-amz-bucket-region" not in headers
    else:
        foreign = status in _MEANINGFUL_STATUSES and "html" in headers.get("Content-Type", "")
    if foreign:
        kind = headers.get("Content-Type", "no content type")
        raise TransientError(
            f"the S3 store answers {name} unlike S3 (HTTP {status}, {kind}); check ROBOCO_S3_ENDPOINT_URL, and the "
            "proxy before the store"
        )


@contextmanager
def _translating_errors(client: Any, bucket: str) -> Iterator[None]:
    """Raise TransientError in place of each error of the store: none is final, because the store may be repaired."""
    try:
        yield
    except ClientError as error:
        if _code(error) == _NO_BUCKET_CODE:
            raise _no_bucket(strip_credentials(client.meta.endpoint_url), bucket) from error
        text = _code(error) if _status(error) in (401, 403) else f"HTTP {_status(error)}: {error}"
        raise TransientError(f"the S3 store refuses bucket {bucket!r}: {text}; {_remedy(error)}") from error
    except (BotoCoreError, Boto3Error, ResponseParserError) as error:
        raise TransientError(
            f"the S3 store does not answer: {error}; check ROBOCO_S3_ENDPOINT_URL and the AWS_* credentials"
        ) from error


def _remedy(error: ClientError) -> str:
    status, code = _status(error), _code(error)
    if code == "RequestTimeTooSkewed":
        return "let it and this machine keep the time by NTP: their clocks differ by more than 15 minutes"
    if code in _KEY_REMEDIES:
        return _KEY_REMEDIES[code]
    if status in (401, 403) or "Token" in code:
        return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ROBOCO_S3_ENDPOINT_URL and ROBOCO_WORKSPACE"
    if status == 413:
        return "raise the limit of the proxy before it for the size of a request"
    if status == 507 or _STORE_FULL.search(code):
        return "make room in the store, or raise its quota"
    return "see its log, and that of a proxy before it"


def _no_bucket(endpoint_url: str, bucket: str) -> TransientError:
    return TransientError(
        f"the S3 store at {endpoint_url} has no bucket {bucket!r}; create it with `aws s3 mb s3://{bucket} "
        f"--endpoint-url {endpoint_url}`, or correct ROBOCO_WORKSPACE or ROBOCO_S3_ENDPOINT_URL"
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
