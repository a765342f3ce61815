"""Files and histories in memory, in a folder and in S3 answer the same to any sequence of calls."""

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

from roboco.adapters.local.seaweed import S3Server
from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.folder_history import FolderHistories
from roboco.adapters.workspace.s3 import S3Files, S3Objects
from roboco.adapters.workspace.s3_history import S3Histories
from roboco.domain.history.step import TaskStep
from roboco.ports.workspace import Files, Histories
from tests.contract.machine_settings import MACHINE_SETTINGS
from tests.contract.samples import step_after
from tests.contract.workspace.s3_faults import DoublePutClient, WatchedObjects
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories

PATHS = st.sampled_from(["t1/a", "t1/b", "t1/deep/er", "t2/a", "top"])
"""Paths of files: none of them is a folder of another one."""
LOOKED_AT = st.one_of(PATHS, st.sampled_from(["t1", "t1/deep", "t3/a"]))
"""Paths that may also be those of folders: there is no file then."""
FOLDERS = st.sampled_from(["t1/", "t1/deep/", "t2/", "t3/"])
DATA = st.sampled_from([b"", b"one", b"another one"])
TASKS = st.sampled_from(["task-17", "task-17", "fork"])
TEXTS = st.sampled_from(["mine", "mine", "another worker's"])
MOMENTS = st.sampled_from([0, 0, 1, 2, 3, 4])
"""Before which call to S3 another worker folds the history; 0 for none."""


class Store(NamedTuple):
    """One implementation of the workspace; `objects` are those of S3, if that is it."""

    name: str
    files: Files
    histories: Histories
    objects: WatchedObjects | None = None


def stores(folder: Path, client: Any, bucket: str) -> list[Store]:
    """An empty workspace in memory, in a folder, in S3, and in S3 with all objects put twice."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    in_folder = FolderFiles(folder / name)
    found = [
        Store("memory", MemoryFiles(), MemoryHistories()),
        Store("folder", in_folder, FolderHistories(in_folder)),
    ]
    objects = WatchedObjects(client, bucket, name)
    found.append(Store("s3", S3Files(objects), S3Histories(objects), objects))
    twice = S3Objects(DoublePutClient(client), bucket, f"{name}-twice")
    return [*found, Store("s3, all put twice", S3Files(twice), S3Histories(twice))]


def assert_same(found: Sequence[Store], call: str, act: Callable[[Store], object]) -> Any:
    """What all stores answer."""
    answers = [(store.name, act(store)) for store in found]
    for (one, mine), (other, yours) in itertools.pairwise(answers):
        assert mine == yours, f"after {call}: {one} has {mine!r}, {other} has {yours!r}"
    return answers[0][1]


class FilesMachine(RuleBasedStateMachine):
    """Files by path."""

    def __init__(self, found: list[Store]) -> None:
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

    @rule(source=LOOKED_AT, path=PATHS)
    def copy(self, source: str, path: str) -> None:
        self.do(f"copy {source} {path}", lambda files: files.copy(source, path))

    @rule(path=LOOKED_AT.filter(lambda path: path != "t1/deep/er"))  # a folder keeps the folders of files that are gone
    def delete(self, path: str) -> None:
        self.do(f"delete {path}", lambda files: files.delete(path))

    @rule(path=LOOKED_AT, start=st.integers(0, 12), length=st.sampled_from([0, 1, 5, 100]))
    def look(self, path: str, start: int, length: int) -> None:
        self.do(f"get {path}", lambda files: files.get(path))
        self.do(f"size {path}", lambda files: files.size(path))
        self.do(f"read {path} {start} {length}", lambda files: files.read(path, start, length))

    @rule(folder=FOLDERS)
    def names(self, folder: str) -> None:
        self.do(f"names {folder}", lambda files: files.names(folder))


class HistoriesMachine(RuleBasedStateMachine):
    """Histories of two tasks. In S3 another worker folds at any moment."""

    def __init__(self, found: list[Store]) -> None:
        super().__init__()
        self.stores = found

    def do(self, call: str, act: Callable[[Histories], object], task_id: str, moment: int = 0) -> Any:
        def with_fold(store: Store) -> object:
            with _compacting(store, task_id, moment):
                return act(store.histories)

        return assert_same(self.stores, f"{call}, folded at {moment}", with_fold)

    def steps(self, task_id: str) -> list[TaskStep]:
        return list(self.stores[0].histories.read(task_id))

    @rule(task_id=TASKS, back=st.sampled_from([0, 0, 0, 0, 1, 2]), text=TEXTS, moment=MOMENTS)
    def append(self, task_id: str, back: int, text: str, moment: int) -> None:
        before = self.steps(task_id)
        step = step_after(before[: max(0, len(before) - back)], text)
        self.do(f"append {step.seq} {text}", lambda histories: histories.append(task_id, step), task_id, moment)

    @rule(task_id=TASKS, source=TASKS, count=st.integers(1, 3), moment=MOMENTS)
    def begin(self, task_id: str, source: str, count: int, moment: int) -> None:
        lines = [step.line().encode() for step in self.steps(source)[:count]]
        if lines:
            self.do(f"begin {len(lines)}", lambda histories: histories.create(task_id, lines), task_id, moment)

    @rule(task_id=TASKS, start=st.integers(0, 12), moment=MOMENTS)
    def read(self, task_id: str, start: int, moment: int) -> None:
        self.do(f"read {start}", lambda histories: list(histories.read(task_id, start)), task_id, moment)

    @rule(task_id=TASKS, moment=MOMENTS)
    def lines(self, task_id: str, moment: int) -> None:
        self.do("lines", lambda histories: list(histories.lines(task_id)), task_id, moment)

    @rule(task_id=TASKS, moment=MOMENTS)
    def fold(self, task_id: str, moment: int) -> None:
        self.do("fold", lambda histories: histories.compact(task_id) is None, task_id, moment)

    def teardown(self) -> None:
        """Whatever was done, the histories are the same, before and after one more fold."""
        for task_id in ("task-17", "fork"):
            self.lines(task_id, 0)
            self.fold(task_id, 0)
            self.lines(task_id, 0)


@contextmanager
def _compacting(store: Store, task_id: str, moment: int) -> Iterator[None]:
    """Until the block ends, another worker folds the history before the store's call of this number."""
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
@pytest.mark.parametrize(("machine", "examples"), [(FilesMachine, 15), (HistoriesMachine, 10)])
def test_workspaces_in_memory_in_a_folder_and_in_s3_are_the_same(
    machine: type[FilesMachine] | type[HistoriesMachine], examples: int, tmp_path: Path, s3: S3Server, s3_client: Any
) -> None:
    made: Any = lambda: machine(stores(tmp_path, s3_client, s3.bucket))  # noqa: E731
    run_state_machine_as_test(
        made,
        settings=settings(MACHINE_SETTINGS, max_examples=examples, stateful_step_count=30),
    )
