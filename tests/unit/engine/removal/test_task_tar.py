"""Export and import: a task moves as a tar, and a changed or hostile tar stores nothing."""

import gzip
import io
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import pytest

from roboco.domain.paths import tombstone_path
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine
from roboco.engine.operate import import_task as importing
from roboco.engine.operate import tar_contents
from roboco.engine.record.task_tar import check_exportable, task_tar
from roboco.errors import Erased, StateConflict, UsageError
from tests.support.memory_ports.journeys import GRAPH, MANUAL, TOOLS
from tests.support.memory_ports.model import Script, says
from tests.support.memory_ports.world import TASK, world_parts
from tests.unit.engine.removal.object_world import ObjectWorld

Members = list[tuple[tarfile.TarInfo, bytes]]


def ended_task(script: Script = GRAPH.script) -> ObjectWorld:
    world = ObjectWorld(world_parts(script))
    world.submit(GRAPH.team)
    world.settle()
    world.files.put(f"{TASK}/artifacts/{'a' * 128}", b"x" * 3000)
    return world


def tar_of(world: ObjectWorld) -> bytes:
    check_exportable(world.engine, TASK)
    return b"".join(task_tar(world.engine.workspace, TASK))


def import_task(engine: Engine, source: io.BytesIO) -> TaskSummary:
    summary = tar_contents.verify(source)
    importing.import_task(engine, source, summary)
    return summary


def empty_world() -> ObjectWorld:
    return ObjectWorld(world_parts(TOOLS.script))


def changed(data: bytes, change: Callable[[Members], Members]) -> bytes:
    """Return the tar with changed members."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = [(info, (tar.extractfile(info) or io.BytesIO()).read()) for info in tar]
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in change(members):
            if info.isreg():
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return written.getvalue()


def renamed(old: str, new: str) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        for info, _ in members:
            info.name = new if info.name == old else info.name
        return members

    return change


def rewritten(path: str, old: bytes, new: bytes) -> Callable[[Members], Members]:
    return lambda members: [
        (info, content.replace(old, new) if info.name == path else content) for info, content in members
    ]


def linked(kind: bytes) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        info = tarfile.TarInfo("files/artifacts/link")
        info.type, info.linkname = kind, "/etc/passwd"
        return [*members[:-1], (info, b""), members[-1]]

    return change


def test_a_task_is_the_same_after_export_and_import() -> None:
    world = ended_task()
    data = tar_of(world)
    assert data == tar_of(world)
    target = empty_world()
    summary = import_task(target.engine, io.BytesIO(data))
    assert summary == world.summary()
    assert [step.line() for step in target.history()] == [step.line() for step in world.history()]
    portable = {path for path in world.files.held if path.startswith(f"{TASK}/") and "/history" not in path}
    assert {path for path in target.files.held if path.startswith(f"{TASK}/")} >= portable
    assert target.engine.tasks.task_index.ended([TASK]) == [True]
    assert not target.server.held.schedule
    assert tar_of(target) == data


def test_an_open_task_is_not_exported() -> None:
    world = ObjectWorld(world_parts(MANUAL.script))
    world.submit(MANUAL.team)
    world.settle()
    with pytest.raises(StateConflict, match="only an ended task"):
        tar_of(world)


def test_an_erased_task_is_not_imported() -> None:
    world = ended_task()
    data = tar_of(world)
    world.erase()
    world.sweep_until(lambda: tombstone_path(TASK) in world.files.held and world.receipt().finished_at is not None)
    with pytest.raises(Erased):
        import_task(world.engine, io.BytesIO(data))
    assert world.traces() == []


def test_an_import_that_dies_continues() -> None:
    data = tar_of(ended_task())
    target, count = empty_world(), 0
    import_task(target.engine, io.BytesIO(data))
    whole = dict(target.files.held)
    for number in range(1, 30):
        target, count = empty_world(), 0

        def watch(name: str, call: Callable[[], object], at: int = number) -> object:
            nonlocal count
            count += 1
            if count == at:
                raise KeyboardInterrupt
            return call()

        target.watch = watch
        try:
            import_task(target.engine, io.BytesIO(data))
        except KeyboardInterrupt:
            target.watch = lambda name, call: call()
            if f"{TASK}/task.json" not in target.files.held:
                import_task(target.process(), io.BytesIO(data))
        assert target.files.held == whole, number


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (renamed("files/team.json", "files/../team.json"), "no plain file"),
        (renamed("files/team.json", "/etc/passwd"), "no plain file"),
        (renamed("files/team.json", "files/inbox/x.json"), "no plain file"),
        (renamed("files/team.json", "files/artifacts/.hidden"), "no plain file"),
        (renamed("files/team.json", "files/events.jsonl"), "twice"),
        (linked(tarfile.SYMTYPE), "no plain file"),
        (linked(tarfile.LNKTYPE), "no plain file"),
        (linked(tarfile.CHRTYPE), "no plain file"),
        (linked(tarfile.DIRTYPE), "no plain file"),
        (rewritten("files/history.jsonl", b"go", b"no"), "history is broken"),
        (rewritten("files/task.json", b"completed", b"running"), "changed"),
        (rewritten("files/task.json", b"completed", b"failed"), "changed"),
        (rewritten("files/team.json", b"{", b"["), "cannot be read"),
        (rewritten("roboco-task.json", b'"format":1', b'"format":2'), "format 2"),
        (rewritten("roboco-task.json", TASK.encode(), b"../x"), "task id"),
        (rewritten(f"files/artifacts/{'a' * 128}", b"x", b"y"), "changed"),
        (lambda members: members[:-1], "manifest is missing"),
        (lambda members: members[1:], "first file"),
        (lambda members: [*members[:2], *members[3:]], "not those of its manifest"),
        (lambda members: [*members, members[1]], "follows the manifest|twice"),
    ],
)
def test_a_changed_tar_stores_nothing(change: Callable[[Members], Members], mistake: str) -> None:
    target = empty_world()
    with pytest.raises(UsageError, match=mistake):
        import_task(target.engine, io.BytesIO(changed(tar_of(ended_task()), change)))
    assert target.files.held == {}


def test_a_tar_is_bounded_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data, target = tar_of(ended_task()), empty_world()
    for name, limit in (("MAX_FILES", 3), ("MAX_BYTES", 100), ("MAX_RECORD_BYTES", 10), ("MAX_HISTORY_BYTES", 10)):
        with monkeypatch.context() as patch:
            patch.setattr(tar_contents, name, limit)
            with pytest.raises(UsageError, match=r"at most|over"):
                import_task(target.engine, io.BytesIO(data))
    assert target.files.held == {}


def test_hostile_bytes_are_refused() -> None:
    data, target = tar_of(ended_task()), empty_world()
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 8 * 1024**3
    many = b"".join(_extended_headers(5000))
    header.size = 5000
    quadratic = header.tobuf() + b"1" * 5000 + bytes(512)  # one number for a slow pattern
    header.size = 512
    forms = [header.tobuf() + record.ljust(512, b"\0") + data for record in (b"20 path=a\n", b"18 GNU.sparse=1\n")]
    broken = (b"", b"x" * 5000, gzip.compress(data), data[: len(data) // 2], header.tobuf(), many, quadratic)
    for hostile in (*broken, *forms):
        with pytest.raises(UsageError, match="not the tar of a task"):
            import_task(target.engine, io.BytesIO(hostile))
    assert target.files.held == {}


def test_a_process_verifies_a_tar_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tar_of(ended_task())
    with tempfile.TemporaryFile() as file:
        file.write(data)
        for source in (io.BytesIO(data), cast(BinaryIO, file)):
            assert tar_contents.verified(source).task_id == TASK
            assert tar_contents.verify(source).task_id == TASK
    with pytest.raises(UsageError, match="not the tar of a task: it cannot be read"):
        tar_contents.verified(io.BytesIO(b"x" * 512))
    monkeypatch.setattr(tar_contents, "_MEMORY", 1)
    with pytest.raises(UsageError, match="it takes over 300 s, or 1 bytes of memory, to verify"):
        tar_contents.verified(io.BytesIO(tar_of(ended_task(lambda request: says("APPROVED" + "x" * 12_000_000)))))


def _extended_headers(count: int) -> Iterator[bytes]:
    for _ in range(count):
        info = tarfile.TarInfo("x")
        info.type, info.size = tarfile.XHDTYPE, 0
        yield info.tobuf()


def test_an_erasure_during_an_import_counts() -> None:
    data, world = tar_of(ended_task()), empty_world()

    def erase_meanwhile(name: str, call: object) -> object:
        if name == "files.put_from":
            world.watch = lambda name, call: call()
            world.erase()
            world.sweep_until(lambda: world.receipt().status == "erased")
        return call()  # type: ignore[operator]

    world.watch = erase_meanwhile
    with pytest.raises(Erased, match="while it was imported"):
        import_task(world.engine, io.BytesIO(data))
    world.sweep_until(lambda: world.traces() == [])
    with pytest.raises(Erased):
        world.submit(GRAPH.team)
