"""Memories of owners and other records that their writers replace only while no other writer has."""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from pydantic import ValidationError

from roboco.domain.memory import Memory
from roboco.domain.schema import RecordModel
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.workspace import Files

Kept = TypeVar("Kept", bound=RecordModel | None)
_TRIES: Final = 30
_MAX_PAUSE: Final = 0.05
"""Seconds between two tries."""


def read_memory(files: Files, path: str) -> Memory:
    """Return the memory at the path, empty if there is none. Cost: one request."""
    return _parsed(path, files.get(path))


def change_memory(files: Files, path: str, change: Callable[[Memory], Memory]) -> Memory:
    """Replace the memory by the changed one, and return the one before, as `change_record` does."""
    return change_record(files, path, partial(_parsed, path), change)


def change_record(
    files: Files, path: str, parsed: Callable[[bytes | None], Kept], change: Callable[[Kept], RecordModel]
) -> Kept:
    """Replace the record by the changed one, and return the one before. An unchanged record is not written.

    `change` may run several times. Raise TransientError if other writers are always faster: repeat it then.
    """
    for _ in range(_TRIES):
        stored = files.get_versioned(path)
        before = parsed(None if stored is None else stored.data)
        after = change(before)
        version = None if stored is None else stored.version
        if after == before or files.replace(path, after.model_dump_json().encode(), version):
            return before
        time.sleep(random.uniform(0, _MAX_PAUSE))  # noqa: S311 - spreads writers, and is no secret
    raise TransientError(f"other writers keep changing {path!r}; repeat the change")


def _parsed(path: str, data: bytes | None) -> Memory:
    try:
        return Memory() if data is None else Memory.model_validate_json(data)
    except ValidationError as error:
        raise CorruptHistory(f"the memory {path!r} cannot be read: remove the file, or restore it") from error
