"""A check that an S3 store honours If-None-Match and If-Match on PUT, on which every commit depends."""

from collections.abc import Callable
from typing import Final

from botocore.exceptions import ClientError

from roboco.errors import TransientError
from roboco.workspace.s3 import S3Objects

CHECK_PATH: Final = "_checks/conditions"
"""The object that every check writes. One name, so that checks leave one object at most; no task has such a name."""
REMEDY: Final = "use a store that honours If-None-Match and If-Match on PUT, as AWS and SeaweedFS do, or a folder"
_CONTENT: Final = b"Roboco checks with this object whether the store honours conditional writes.\n"
_UNKNOWN_ETAG: Final = '"00000000000000000000000000000000"'
_MAX_WRITES: Final = 3
"""Writes of which a store that honours If-None-Match refuses one, even if an operator removes the object meanwhile."""
_REFUSAL_STATUSES: Final = frozenset({400, 405, 501})
"""HTTP statuses of a store that takes no conditional write."""


def conditional_write_flaw(objects: S3Objects) -> str | None:
    """Return the flaw of the store's conditional writes, or None. Raise TransientError if the store does not answer.

    The check costs three requests, and one more in a bucket without an earlier check. Concurrent checks do no harm.
    """
    return _header_flaw(objects, "If-None-Match", _honours_if_none_match) or _header_flaw(
        objects, "If-Match", _honours_if_match
    )


def _header_flaw(objects: S3Objects, header: str, honours: Callable[[S3Objects], bool]) -> str | None:
    try:
        honoured = honours(objects)
    except TransientError as error:
        if (code := _refusal(objects, error)) is None:
            raise
        return f"refuses writes with {header} ({code}), although it takes the same write without it"
    return None if honoured else f"does not honour {header}: a worker could replace an object of another worker"


def _honours_if_none_match(objects: S3Objects) -> bool:
    """Return True if the store takes a first object and refuses a second one."""
    refused = any(not objects.put(CHECK_PATH, _CONTENT, if_none=True) for _ in range(_MAX_WRITES))
    return refused and objects.size(CHECK_PATH) is not None


def _honours_if_match(objects: S3Objects) -> bool:
    return not objects.put(CHECK_PATH, _CONTENT, if_match=_UNKNOWN_ETAG)


def _refusal(objects: S3Objects, error: TransientError) -> str | None:
    """Return status and code with which the store refuses the condition, or None if the error has another cause."""
    answer = error.__cause__
    if not isinstance(answer, ClientError):
        return None
    status = int(answer.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status not in _REFUSAL_STATUSES or not objects.put(CHECK_PATH, _CONTENT):
        return None
    return f"{status} {answer.response.get('Error', {}).get('Code', '')}".strip()
