"""Files and histories in memory, in a folder and in S3 return the same for any sequence of calls."""

import io
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from roboco.domain.history.step import TaskStep
from roboco.local.seaweed import S3Server
from roboco.ports.histories import Histories
from roboco.ports.workspace import Files
from roboco.workspace.folder import FolderFiles
from roboco.workspace.folder_history import FolderHistories
from roboco.workspace.s3 import S3Files, S3Objects
from roboco.workspace.s3_history import S3Histories
from tests.contract.machine_settings import MACHINE_SETTINGS
from tests.contract.samples import step_after
from tests.contract.workspace.s3_faults import DoublePutClient, WatchedObjects
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories

PATHS = st.sampled_from(["t1/a", "t1/b", "t1/deep/er", "t2/a", "top"])
"""Paths of files, none of which is a folder of another."""
READ_PATHS = st.one_of(PATHS, st.sampled_from(["t1", "t1/deep", "t3/a"]))
"""Paths of files, and of folders and missing files, which have no data."""
FOLDERS = st.sampled_from(["t1/", "t1/deep/", "t2/", "t3/"])
DATA = st.sampled_from([b"", b"one", b"another one"])
TASKS = st.sampled_from(["task-17", "task-17", "fork"])
TEXTS = st.sampled_from(["mine", "mine", "another worker's"])
MOMENTS = st.sampled_from([0, 0, 1, 2, 3, 4])
"""The number of the call to S3 before which another worker compacts the history, or 0 for none."""


class WorkspaceStore(NamedTuple):
    """One implementation of the workspace; `objects` are those of S3, or None."""

    name: str
    files: Files
    histories: Histories
    objects: WatchedObjects | None = None


def make_stores(folder: Path, client: Any, bucket: str) -> list[WorkspaceStore]:
    """Return empty workspaces in memory, in a folder, in S3, and in S3 with all objects put twice."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    in_folder = FolderFiles(folder / name)
    found = [
        WorkspaceStore("memory", MemoryFiles(), MemoryHistories()),
        WorkspaceStore("folder", in_folder, FolderHistories(in_folder)),
    ]
    objects = WatchedObjects(client, bucket, name)
    found.append(WorkspaceStore("s3", S3Files(objects), S3Histories(objects), objects))
    twice = S3Objects(DoublePutClient(client), bucket, f"{name}-twice")
    return [*found, WorkspaceStore("s3, all put twice", S3Files(twice), S3Histories(twice))]


def assert_same(found: Sequence[WorkspaceStore], call: str, act: Callable[[WorkspaceStore], object]) -> Any:
    """Make the call on every store, and return the result. Raise AssertionError if the results differ."""
    results = [(store.name, act(store)) for store in found]
    for (one, first), (other, second) in itertools.pairwise(results):
        assert first == second, f"after {call}: {one} has {first!r}, {other} has {second!r}"
    return results[0][1]


class FilesMachine(RuleBasedStateMachine):
    """Random calls of the files by path."""

    def __init__(self, found: list[WorkspaceStore]) -> None:
        super().__init__()
        self.stores = found

    def do(self, call: str, act: Callable[[Files], object]) -> None:
        assert_same(self.stores, call, lambda store: act(store.files))

    @rule(path=PATHS, data=DATA)
    def create(self, path: str, data: bytes) -> None:
        self.do(f"create {path} {data!r}", lambda files: files.create(path, data))

    @rule(path=PATHS, data=DATA)
    def put(self, path: str, data: bytes) -> None:
        self.do(f"put {path} {data!r}", lambda files: files.put(path, data))

    @rule(path=PATHS, data=DATA, start=st.integers(0, 3))
    def put_from(self, path: str, data: bytes, start: int) -> None:
        def put(files: Files) -> None:
            source = io.BytesIO(data)
            source.seek(min(start, len(data)))
            files.put_from(path, source)

        self.do(f"put_from {path} {data[start:]!r}", put)

    @rule(source=READ_PATHS, path=PATHS)
    def copy(self, source: str, path: str) -> None:
        self.do(f"copy {source} {path}", lambda files: files.copy(source, path))

    @rule(
        path=READ_PATHS.filter(lambda path: path != "t1/deep/er")
    )  # in a folder, an empty folder remains after its last file
    def delete(self, path: str) -> None:
        self.do(f"delete {path}", lambda files: files.delete(path))

    @rule(path=READ_PATHS, start=st.integers(0, 12), length=st.sampled_from([0, 1, 5, 100]))
    def read(self, path: str, start: int, length: int) -> None:
        self.do(f"get {path}", lambda files: files.get(path))
        self.do(f"size {path}", lambda files: files.size(path))
        self.do(f"read {path} {start} {length}", lambda files: files.read(path, start, length))

    @rule(folder=FOLDERS)
    def names(self, folder: str) -> None:
        self.do(f"names {folder}", lambda files: files.names(folder))


class HistoriesMachine(RuleBasedStateMachine):
    """Random calls of the histories of two tasks. In S3, another worker compacts at any moment."""

    def __init__(self, found: list[WorkspaceStore]) -> None:
        super().__init__()
        self.stores = found

    def do(self, call: str, act: Callable[[Histories], object], task_id: str, moment: int = 0) -> Any:
        def with_compaction(store: WorkspaceStore) -> object:
            with _compacting(store, task_id, moment):
                return act(store.histories)

        return assert_same(self.stores, f"{call}, compaction at {moment}", with_compaction)

    def steps(self, task_id: str) -> list[TaskStep]:
        return list(self.stores[0].histories.read(task_id))

    @rule(task_id=TASKS, back=st.sampled_from([0, 0, 0, 0, 1, 2]), text=TEXTS, moment=MOMENTS)
    def append(self, task_id: str, back: int, text: str, moment: int) -> None:
        before = self.steps(task_id)
        step = step_after(before[: max(0, len(before) - back)], text)
        self.do(f"append {step.seq} {text}", lambda histories: histories.append(task_id, step), task_id, moment)

    @rule(task_id=TASKS, source=TASKS, count=st.integers(1, 3), moment=MOMENTS)
    def create(self, task_id: str, source: str, count: int, moment: int) -> None:
        lines = [step.line().encode() for step in self.steps(source)[:count]]
        if lines:
            self.do(f"create {len(lines)}", lambda histories: histories.create(task_id, lines), task_id, moment)

    @rule(task_id=TASKS, start=st.integers(0, 12), moment=MOMENTS)
    def read(self, task_id: str, start: int, moment: int) -> None:
        self.do(f"read {start}", lambda histories: list(histories.read(task_id, start)), task_id, moment)

    @rule(task_id=TASKS, moment=MOMENTS)
    def lines(self, task_id: str, moment: int) -> None:
        self.do("lines", lambda histories: list(histories.lines(task_id)), task_id, moment)

    @rule(task_id=TASKS, moment=MOMENTS)
    def compact(self, task_id: str, moment: int) -> None:
        self.do("compact", lambda histories: histories.compact(task_id) is None, task_id, moment)

    def teardown(self) -> None:
        """Check that the histories are the same before and after one more compaction."""
        for task_id in ("task-17", "fork"):
            self.lines(task_id, 0)
            self.compact(task_id, 0)
            self.lines(task_id, 0)


@contextmanager
def _compacting(store: WorkspaceStore, task_id: str, moment: int) -> Iterator[None]:
    """Until the block ends, let another worker compact the history before the store's call of this number."""
    if store.objects is None or not moment:
        yield
        return
    others, left = S3Histories(store.objects.for_another_worker()), itertools.count(1)

    def before(name: str, path: str) -> None:
        if next(left) == moment:
            others.compact(task_id)

    store.objects.before = before
    try:
        yield
    finally:
        store.objects.before = lambda name, path: None


@pytest.mark.s3
@pytest.mark.parametrize(
    ("machine", "examples"),
    [
        (FilesMachine, 8),
        (HistoriesMachine, 5),
        pytest.param(FilesMachine, 15, marks=pytest.mark.nightly),
        pytest.param(HistoriesMachine, 10, marks=pytest.mark.nightly),
    ],
)
def test_workspaces_in_memory_in_a_folder_and_in_s3_are_the_same(
    machine: type[FilesMachine] | type[HistoriesMachine], examples: int, tmp_path: Path, s3: S3Server, s3_client: Any
) -> None:
    create_machine: Any = lambda: machine(make_stores(tmp_path, s3_client, s3.bucket))  # noqa: E731
    run_state_machine_as_test(
        create_machine,
        settings=settings(MACHINE_SETTINGS, max_examples=examples, stateful_step_count=30),
    )
