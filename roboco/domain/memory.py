"""Memory: what the agents of a team remember across tasks, for each owner: a tenant, or a value of the context."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from roboco.domain.canonical_json import sha256
from roboco.domain.ids import check_tenant, tenant_of
from roboco.domain.schema import InputModel, RecordModel
from roboco.errors import UsageError

MEMORIES: Final = "_memory/"
"""The folder of the memories, with a folder for each tenant. No task id and no tenant begins with "_"."""
OF_TENANT: Final = "tenant"
OWNER_PATTERN: Final = r"^(tenant|context\.[A-Za-z_][A-Za-z0-9_]{0,63})$"
_OF_CONTEXT: Final = "context."
_NO_TENANT: Final = "_"
MAX_ENTRY_CHARS: Final = 2000
MAX_ENTRIES: Final = 500
MAX_MEMORY_BYTES: Final = 256 * 1024
"""The most bytes of an owner's entries, as JSON."""
MAX_OWNER_CHARS: Final = 200
MAX_FORGOTTEN: Final = 1000
"""Forgotten ids that a memory keeps, the newest ones, so that a late repetition does not store their entries again."""


class MemorySettings(InputModel):
    """Whose memory the tools `remember`, `recall` and `forget` of a team use."""

    of: Annotated[str, Field(pattern=OWNER_PATTERN)]
    """"tenant", or a field of the task's context, such as "context.user"."""


class MemoryEntry(RecordModel):
    """A text that an agent remembered, with its source."""

    id: str
    text: str
    agent: str
    task_id: str
    step_id: str
    created_at: datetime


class Memory(RecordModel):
    """The memory of one owner, a file of the workspace."""

    entries: tuple[MemoryEntry, ...] = ()
    """Oldest first."""
    forgotten: tuple[str, ...] = ()
    """The ids of entries that were forgotten or erased."""

    def with_entry(self, entry: MemoryEntry) -> "Memory":
        """Return the memory with the entry, unchanged if it has or had the entry. Raise UsageError if it is full."""
        if entry.id in self.forgotten or any(known.id == entry.id for known in self.entries):
            return self
        entries = (*self.entries, entry)
        size = sum(len(one.model_dump_json().encode()) for one in entries)
        if len(entries) > MAX_ENTRIES or size > MAX_MEMORY_BYTES:
            raise UsageError(
                f"the memory is full: it has {len(self.entries)} entries, at most {MAX_ENTRIES} and "
                f"{MAX_MEMORY_BYTES // 1024} KiB are possible; forget some first"
            )
        return self.model_copy(update={"entries": entries})

    def without(self, is_forgotten: Callable[[MemoryEntry], bool]) -> "Memory":
        """Return the memory without these entries. It is unchanged if it has none of them."""
        gone = tuple(entry.id for entry in self.entries if is_forgotten(entry))
        if not gone:
            return self
        kept = tuple(entry for entry in self.entries if entry.id not in gone)
        return self.model_copy(update={"entries": kept, "forgotten": (*self.forgotten, *gone)[-MAX_FORGOTTEN:]})


def entry_id(call_id: str) -> str:
    """Return the id of the entry that this call of `remember` stores, in every attempt."""
    return f"mem_{sha256(call_id)[:24]}"


def tenant_memories(tenant: str) -> str:
    """Return the folder of the memories of a tenant; "" for tasks without one."""
    return f"{MEMORIES}{check_tenant(tenant) if tenant else _NO_TENANT}/"


def owner_path(tenant: str, of: str, value: str = "") -> str:
    """Return the path of an owner's memory. Its name is a digest, so that any value is possible, and none is shown.

    Raise UsageError if `of` is no kind of owner, or if the value is missing, too long, or there for a tenant.
    """
    allowed = 0 if of == OF_TENANT else MAX_OWNER_CHARS
    if re.fullmatch(OWNER_PATTERN, of) is None or not min(allowed, 1) <= len(value) <= allowed:
        raise UsageError(
            f"{of[:80]!r} with a value of {len(value)} characters is no owner of a memory: use 'tenant', or "
            f"'context.NAME' with a value of 1 to {MAX_OWNER_CHARS} characters"
        )
    return f"{tenant_memories(tenant)}{sha256(json.dumps([of, value]))[:40]}.json"


def memory_path(settings: MemorySettings | None, task_id: str, context: Mapping[str, Any]) -> str:
    """Return the path of the memory of a task, or "" if its team has none, or its context does not name the owner."""
    if settings is None:
        return ""
    tenant = tenant_of(task_id)
    if settings.of == OF_TENANT:
        return owner_path(tenant, OF_TENANT)
    value = context.get(settings.of.removeprefix(_OF_CONTEXT))
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_OWNER_CHARS:
        return ""
    return owner_path(tenant, settings.of, value)
