"""The tools `remember`, `recall` and `forget` over the memory that the team declares."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from roboco.domain.history.part import TextPart
from roboco.domain.history.step import TaskStep
from roboco.domain.memory import MAX_ENTRY_CHARS, MAX_OWNER_CHARS, Memory, MemoryEntry, entry_id
from roboco.errors import UsageError
from roboco.ports.memories import change_memory, read_memory
from roboco.ports.tools import ToolContext
from roboco.ports.workspace import Files
from roboco.tools.search.result import SearchResult

MAX_RECALLED = 20
Search = Callable[[Sequence[TaskStep], str, int], SearchResult]
"""Searches steps for a query, and returns at most this number of hits."""


class MemoryTools:
    """Tools over the memory of the calling task's owner."""

    def __init__(self, files: Files, search: Search) -> None:
        self._files = files
        self._search = search

    def remember(
        self,
        text: Annotated[str, Field(min_length=1, max_length=MAX_ENTRY_CHARS, description="one fact, as a sentence")],
        context: ToolContext,
    ) -> dict[str, Any]:
        """Remember a fact for later conversations. The answer has the id by which it can be forgotten."""
        entry = MemoryEntry(
            id=entry_id(context.call_id),
            text=text,
            agent=context.agent,
            task_id=context.task_id,
            step_id=context.step_id,
            created_at=datetime.now(UTC),
        )
        change_memory(self._files, _path(context), lambda memory: memory.with_entry(entry))
        return {"id": entry.id}

    def recall(
        self,
        context: ToolContext,
        query: Annotated[str, Field(max_length=1000, description="words; without any, the newest entries")] = "",
        limit: Annotated[int, Field(ge=1, le=MAX_RECALLED)] = 5,
    ) -> Any:
        """Recall what was remembered, also in earlier conversations; best matches first."""
        entries = {entry.id: entry for entry in read_memory(self._files, _path(context)).entries}
        if not query.strip():
            return [_shown(entry) for entry in reversed(entries.values())][:limit]
        found = self._search([_as_step(seq, entry) for seq, entry in enumerate(entries.values())], query, limit)
        hits = [_shown(entries[hit.step_id]) for hit in found.hits]
        return hits if not found.note else {"hits": hits, "note": found.note}

    def forget(
        self,
        id: Annotated[str, Field(max_length=64, description="the id that remember or recall returned")],  # noqa: A002
        context: ToolContext,
    ) -> dict[str, Any]:
        """Forget an entry for good."""

        def without(memory: Memory) -> Memory:
            if id not in memory.forgotten and all(entry.id != id for entry in memory.entries):
                raise UsageError(f"no entry {id!r} is remembered; recall returns the ids")
            return memory.without(lambda entry: entry.id == id)

        change_memory(self._files, _path(context), without)
        return {"forgotten": id}


def _path(context: ToolContext) -> str:
    if not context.memory:
        raise UsageError(
            "this task has no memory: submit it with the field of the context that `memory: {of: ...}` of its team "
            f"names, a text of 1 to {MAX_OWNER_CHARS} characters or a whole number"
        )
    return context.memory


def _shown(entry: MemoryEntry) -> dict[str, Any]:
    return entry.model_dump(mode="json", include={"id", "text", "agent", "created_at"})


def _as_step(seq: int, entry: MemoryEntry) -> TaskStep:
    """Return the entry as the search ranks it."""
    text, time = (TextPart(text=entry.text),), entry.created_at
    return TaskStep(step_id=entry.id, seq=seq, agent_name=entry.agent, parts=text, created_at=time)
