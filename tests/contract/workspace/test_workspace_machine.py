"""Files and histories in memory, in a folder and in S3 return the same for any sequence of calls."""

import io
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from roboco.domain.history.step import TaskStep
from roboco.local.seaweed import S3Server
from roboco.ports.histories import Histories
from roboco.ports.workspace import Files
from roboco.workspace.folder import FolderFiles
from roboco.workspace.folder_history import FolderHistories
from roboco.workspace.s3 import S3Files, S3Objects
from roboco.workspace.s3_history import S3Histories
from tests.contract.machine_settings import MACHINE_SETTINGS, Command, CommandMachine
from tests.contract.samples import step_after
from tests.contract.workspace.s3_faults import DoublePutClient, WatchedObjects
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories

PATHS = st.sampled_from(["t1/a", "t1/b", "t1/deep/er", "t2/a", "top"])
"""Paths of files, none of which is a folder of another."""
READ_PATHS = st.one_of(PATHS, st.sampled_from(["t1", "t1/deep", "t3/a"]))
"""Paths of files, and of folders and missing files, which have no data."""
FOLDERS = st.sampled_from(["t1/", "t1/deep/", "t2/", "t3/"])
DATA = st.sampled_from([b"", b"one", b"another one"])
TASK_IDS = ("task-17", "fork")
TASKS = st.sampled_from(["task-17", "task-17", "fork"])
Steps = dict[str, list[TaskStep]]
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


def put_rest(files: Files, path: str, data: bytes, start: int) -> None:
    source = io.BytesIO(data)
    source.seek(min(start, len(data)))
    files.put_from(path, source)


class FilesMachine(CommandMachine):
    """Random calls of the files by path."""

    def __init__(self, found: list[WorkspaceStore]) -> None:
        super().__init__()
        self.stores = found

    def run(self, name: str, *arguments: Any) -> None:
        act = self.commands[name].act
        assert_same(self.stores, f"{name} {arguments}", lambda store: act(store.files, *arguments))

    commands: ClassVar = {
        "create": Command(lambda files, *given: files.create(*given), PATHS, DATA),
        "put": Command(lambda files, *given: files.put(*given), PATHS, DATA),
        "put_from": Command(put_rest, PATHS, DATA, st.integers(0, 3)),
        "copy": Command(lambda files, *given: files.copy(*given), READ_PATHS, PATHS),
        # in a folder, an empty folder remains after its last file
        "delete": Command(lambda files, path: files.delete(path), READ_PATHS.filter(lambda path: path != "t1/deep/er")),
        "get": Command(lambda files, path: (files.get(path), files.size(path)), READ_PATHS),
        "read": Command(
            lambda files, *given: files.read(*given), READ_PATHS, st.integers(0, 12), st.sampled_from([0, 1, 5, 100])
        ),
        "names": Command(lambda files, folder: files.names(folder), FOLDERS),
    }


def append_step(histories: Histories, task_id: str, steps: Steps, back: int, text: str) -> TaskStep:
    before = steps[task_id]
    return histories.append(task_id, step_after(before[: max(0, len(before) - back)], text))


def create_history(histories: Histories, task_id: str, steps: Steps, source: str, count: int) -> bool:
    lines = [step.line().encode() for step in steps[source][:count]]
    return not lines or histories.create(task_id, lines)


class HistoriesMachine(CommandMachine):
    """Random calls of the histories of two tasks. In S3, another worker compacts at any moment."""

    def __init__(self, found: list[WorkspaceStore]) -> None:
        super().__init__()
        self.stores = found

    def run(self, name: str, *arguments: Any) -> None:
        task_id, moment, *rest = arguments
        steps = {one: list(self.stores[0].histories.read(one)) for one in TASK_IDS}

        def with_compaction(store: WorkspaceStore) -> object:
            with _compacting(store, task_id, moment):
                return self.commands[name].act(store.histories, task_id, steps, *rest)

        assert_same(self.stores, f"{name} {arguments}", with_compaction)

    def teardown(self) -> None:
        """Check that the histories are the same before and after one more compaction."""
        for task_id in TASK_IDS:
            for name in ("lines", "compact", "lines"):
                self.run(name, task_id, 0)

    commands: ClassVar = {
        "append": Command(append_step, TASKS, MOMENTS, st.sampled_from([0, 0, 0, 0, 1, 2]), TEXTS),
        "create": Command(create_history, TASKS, MOMENTS, TASKS, st.integers(1, 3)),
        "read": Command(
            lambda histories, task_id, steps, start: list(histories.read(task_id, start)),
            TASKS,
            MOMENTS,
            st.integers(0, 12),
        ),
        "lines": Command(lambda histories, task_id, steps: list(histories.lines(task_id)), TASKS, MOMENTS),
        "compact": Command(lambda histories, task_id, steps: histories.compact(task_id) is None, TASKS, MOMENTS),
    }


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
        (HistoriesMachine, 3),
        pytest.param(FilesMachine, 15, marks=pytest.mark.nightly),
        pytest.param(HistoriesMachine, 8, marks=pytest.mark.nightly),
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
