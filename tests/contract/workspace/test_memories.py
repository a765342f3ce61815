"""Memories of owners in each workspace: writers at the same time lose no entry and exceed no bound."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from roboco.domain.memory import MAX_ENTRIES, Memory, MemoryEntry, entry_id, owner_path
from roboco.errors import UsageError
from roboco.ports.memories import change_memory, read_memory
from roboco.ports.workspace import Files

PATH = owner_path("acme", "tenant")
WRITERS = 8


def entry(number: int) -> MemoryEntry:
    return MemoryEntry(
        id=entry_id(f"tc_{number}"),
        text=f"fact {number}",
        agent="clerk",
        task_id=f"acme:t{number}",
        step_id="step_1",
        created_at=datetime.now(UTC),
    )


def test_writers_at_the_same_time_lose_no_entry(files: Files) -> None:
    def remember_and_forget(number: int) -> None:
        for own in (2 * number, 2 * number + 1):
            change_memory(files, PATH, lambda memory, own=own: memory.with_entry(entry(own)))  # type: ignore[misc]
        change_memory(files, PATH, lambda memory: memory.without(lambda one: one.id == entry_id(f"tc_{2 * number}")))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(remember_and_forget, range(WRITERS)))
    memory = read_memory(files, PATH)
    assert {one.text for one in memory.entries} == {f"fact {2 * number + 1}" for number in range(WRITERS)}
    assert set(memory.forgotten) == {entry_id(f"tc_{2 * number}") for number in range(WRITERS)}


def test_writers_at_the_same_time_do_not_exceed_the_bound(files: Files) -> None:
    full = Memory(entries=tuple(entry(number) for number in range(MAX_ENTRIES - 2)))
    change_memory(files, PATH, lambda _: full)

    def remember(number: int) -> bool:
        try:
            change_memory(files, PATH, lambda memory: memory.with_entry(entry(MAX_ENTRIES + number)))
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        assert sum(pool.map(remember, range(WRITERS))) == 2
    assert len(read_memory(files, PATH).entries) == MAX_ENTRIES
