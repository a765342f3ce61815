"""IndexCache: index files are private, bounded, rebuilt if broken, and shared safely by several processes."""

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.paths import tombstone_path
from roboco.errors import TransientError, UsageError
from roboco.ports.histories import Histories
from roboco.tools.search import indexer
from roboco.tools.search import sqlite_index as index_file
from roboco.tools.search.index_cache import IndexCache
from roboco.tools.search.memory_index import MemoryIndex
from roboco.workers.scans import remove_erased_indexes
from roboco.workspace.open import open_workspace
from tests.support.forked_child import forked_child
from tests.support.memory_ports.workspace import MemoryFiles
from tests.unit.domain.steps import artifact, steps_of

TASK = "t1"
STEP_COUNT, STEPS_PER_WORD, BATCH_SIZE = 300, 20, 100


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    """Return the URL of a workspace with one history of several batches.

    Each 20 consecutive steps end with the same word.
    """
    url = f"file://{tmp_path}/workspace"
    steps = steps_of(*(("one", f"common words w{number // STEPS_PER_WORD}") for number in range(STEP_COUNT)))
    assert open_workspace(url).histories.create(TASK, [step.line().encode() for step in steps])
    return url


def search(workspace: str, folder: Path, query: str) -> list[int]:
    """Return the positions of the steps that a search in this process finds."""
    histories = open_workspace(workspace).histories
    return [hit.seq for hit in MemoryIndex(histories, lambda *_: b"text", folder).search(TASK, query, 50).hits]


def steps_of_word(number: int) -> list[int]:
    """Return the positions of the steps that end with the word of this number, newest first."""
    return list(range(STEPS_PER_WORD * (number + 1) - 1, STEPS_PER_WORD * number - 1, -1))


def index_files(folder: Path) -> list[Path]:
    """Return the index files, the least recently used first."""
    return sorted(folder.glob("*.index"), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("commits", [1, 2, 4])
def test_the_index_of_a_search_that_dies_is_completed_by_the_next_one(
    workspace: str, tmp_path: Path, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(sqlite3.Connection):
        left = commits

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            Dying.left -= sql == "COMMIT"
            if Dying.left == 0:
                raise SystemExit
            return super().execute(sql, *args)

    monkeypatch.setattr(indexer, "BATCH_SIZE", BATCH_SIZE)
    with monkeypatch.context() as dying:
        dying.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Dying))
        with pytest.raises(SystemExit):
            search(workspace, tmp_path / "index", "w1")
    assert search(workspace, tmp_path / "index", "w1") == steps_of_word(1)
    assert search(workspace, tmp_path / "index", "w14") == steps_of_word(14)


def test_searches_at_the_same_time_index_each_step_once(workspace: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda number: search(workspace, tmp_path / "index", f"w{number}"), range(3))
        assert list(found) == [steps_of_word(number) for number in range(3)]
    with closing(sqlite3.connect(index_files(tmp_path / "index")[0])) as database:
        counted = database.execute("SELECT count(*), count(DISTINCT seq) FROM passages").fetchone()
    assert counted == (STEP_COUNT, STEP_COUNT)


def _garbage(path: Path) -> None:
    path.write_bytes(b"no database at all " * 1000)


def _holes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


def _of_an_older_release(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE layout SET name = 'of an older release'")
        database.execute("ALTER TABLE passages RENAME COLUMN text TO said")
    database.close()


def _foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE passages (something TEXT)")
    database.close()


def _without_a_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE artifacts")
    database.close()


@pytest.mark.parametrize("damage", [_garbage, _holes, _of_an_older_release, _foreign, _without_a_table, Path.unlink])
def test_a_damaged_index_file_is_rebuilt(workspace: str, tmp_path: Path, damage: "object") -> None:
    folder = tmp_path / "index"
    assert search(workspace, folder, "w1") == steps_of_word(1)
    [path] = index_files(folder)
    assert callable(damage)
    damage(path)
    assert search(workspace, folder, "w2") == steps_of_word(2)
    assert search(workspace, folder, "w1") == steps_of_word(1)


def test_an_index_that_cannot_be_built_is_reported(
    workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "_MATCH_QUERY", "SELECT nonsense")
    with pytest.raises(TransientError, match="memory index of task 't1' was made anew and is broken: no such column"):
        search(workspace, tmp_path / "index", "w1")


def test_an_unreadable_artifact_leaves_the_index_unchanged(tmp_path: Path) -> None:
    histories = open_workspace(f"file://{tmp_path}/workspace").histories
    for step in steps_of(("user", "one"), ("one", [artifact("a.txt")])):
        histories.append(TASK, step)

    def failing(path: str, start: int, length: int) -> bytes | None:
        raise TransientError("the store does not answer")

    with pytest.raises(TransientError, match="the store does not answer"):
        MemoryIndex(histories, failing, tmp_path / "index").search(TASK, "one", 5)
    found = MemoryIndex(histories, lambda *_: b"needle", tmp_path / "index").search(TASK, "needle", 5)
    assert [hit.seq for hit in found.hits] == [1]


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to user"), IndexCache(tmp_path).open("x"):
        pass


def test_the_least_recently_used_files_are_removed(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path / "index", capacity=0)
    histories = open_workspace(f"file://{tmp_path}/workspace").histories
    for name in ("a", "b", "c"):
        _add_step(histories, name)
        MemoryIndex(histories, lambda *_: None, tmp_path / "index").search(name, "word", 5)
    oldest, middle, newest = index_files(tmp_path / "index")
    size = newest.stat().st_size
    MemoryIndex(histories, lambda *_: None, tmp_path / "index").search("a", "word", 5)
    assert index_files(tmp_path / "index") == [middle, newest, oldest]
    _add_step(histories, "d")
    MemoryIndex(histories, lambda *_: None, tmp_path / "index", capacity=3 * size).search("d", "word", 5)
    assert len(index_files(tmp_path / "index")) == 3
    assert not middle.exists()
    with cache.open("one more"):
        pass
    assert len(index_files(tmp_path / "index")) == 1


def test_a_process_that_is_forked_meanwhile_does_not_keep_an_index(tmp_path: Path) -> None:
    """A tools worker replaces a process of its pool while it removes indexes of erased tasks."""
    cache = IndexCache(tmp_path, lock_timeout=0)
    with ExitStack() as exits:
        with cache.open("ws", TASK):
            exits.enter_context(forked_child())
        with cache.open("ws", TASK):
            pass


@pytest.fixture(autouse=True)
def _reset_fts5_probe() -> Iterator[None]:
    yield
    index_file.require_fts5.cache_clear()


def _add_step(histories: Histories, task_id: str) -> None:
    for step in steps_of(("user", "word " * 1000)):
        histories.append(task_id, step)


def test_the_indexes_of_erased_tasks_are_removed(tmp_path: Path) -> None:
    cache, files = IndexCache(tmp_path), MemoryFiles()
    for name in (("ws", "acme:t.1"), ("ws", "t2"), ("other", "acme:t.1")):
        with cache.open(*name):
            pass
    files.put(tombstone_path("acme:t.1"), b"{}")
    assert remove_erased_indexes(files, cache, "ws") == 1
    assert remove_erased_indexes(files, cache, "ws") == 0
    assert len(list(tmp_path.glob("*.index"))) == 2
