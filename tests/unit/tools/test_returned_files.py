"""Files that a function returns become artifacts of its result, and a function reads those of its task."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roboco import AgentAnswer, File, ToolContext, tool
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import ToolSpec
from roboco.errors import TransientError, UsageError
from roboco.ports import file as file_module
from roboco.tools import returned_files
from roboco.tools.function_tool import describe_function
from roboco.workspace.artifacts.store import NewArtifact, read_artifact, write_artifact
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.support.toolboxes import toolbox_of
from tests.unit.domain.steps import TASK

TEAM = Team.model_validate({"name": "t", "agents": [{"name": "one", "prompt": "hi"}]})
RETURNED: list[Callable[[ToolContext], Any]] = []


@tool
def produce(context: ToolContext) -> Any:
    """Return what the test wants."""
    return RETURNED[-1](context)


def run(returned: Callable[[ToolContext], Any], files: MemoryFiles | None = None, **spec: Any) -> ToolOutcome:
    """Return the outcome of a call, with its files stored."""
    RETURNED.append(returned)
    box = toolbox_of(files or MemoryFiles(), MemoryHistories(), (__name__,), Path(tempfile.mkdtemp()))
    declared = ToolSpec(name="produce", function=f"{__name__}:produce", **({"effect": "pure"} | spec))
    context = ToolContext(TASK, "one", "tc_1", "k", 1, step_id="st_1")
    return box.offload_large(
        box.run(TEAM, ToolCall(id="tc_1", tool_name="produce", args={}), declared, context), context
    )


def test_files_of_a_result_are_stored_beside_its_values(tmp_path: Path) -> None:
    (tmp_path / "drawn").write_bytes(b"\x89PNG\r\n\x1a\n....")
    files = MemoryFiles()
    made = [
        File("note.csv", "Grüße,3\n", mime_type="text/csv"),
        "two files",
        {"n": 1},
        File("a.png", path=tmp_path / "drawn"),
    ]
    outcome = run(lambda _: made, files)
    note, text, number, picture = outcome.result.result
    assert (text, number) == ("two files", {"n": 1})
    assert note == {
        "type": "file",
        "name": "note.csv",
        "mime_type": "text/csv",
        "artifact": "file://artifacts/note.csv",
        "size": 10,
    }
    assert picture["mime_type"] == "image/png"
    assert [(one.name, one.step_id) for one in outcome.artifacts] == [("note.csv", "st_1"), ("a.png", "st_1")]
    assert read_artifact(files, TASK, "note.csv") == "Grüße,3\n".encode()
    assert outcome.media == ()


def _write(data: str, _: ToolContext) -> File:
    return File("a.txt", data)


def test_a_call_that_runs_twice_leaves_one_file() -> None:
    files = MemoryFiles()
    first, again, other = (run(partial(_write, data), files) for data in "xxy")
    assert first.artifacts == again.artifacts
    assert [one.name for one in other.artifacts] == ["a-2.txt"]


@pytest.mark.parametrize(
    ("make", "left_out"),
    [
        (lambda: [File(f"{number}.txt", "x") for number in range(21)], "at most 20 files"),
        (lambda: [File("a", b"x" * 6), File("b", b"x" * 6)], "at most 10 bytes together"),
        (lambda: [File("a", b"x" * 11)], "more than 10 bytes"),
        (lambda: [File("a", path="/nowhere/a")], "cannot be read: No such file"),
    ],
)
def test_a_file_beyond_the_bounds_is_named_and_left_out(
    make: Callable[[], list[File]], left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "20" not in left_out:
        monkeypatch.setattr(file_module, "MAX_FILES_BYTES", 10)
        monkeypatch.setattr(returned_files, "MAX_FILES_BYTES", 10)
    outcome = run(lambda _: make())
    assert left_out in outcome.result.result[-1]["left_out"]
    assert len(outcome.artifacts) == len(outcome.result.result) - 1


def test_a_function_reads_a_file_of_its_task() -> None:
    files = MemoryFiles()
    write_artifact(files, TASK, NewArtifact("in.bin"), b"\0\1")
    outcome = run(lambda context: File("out.bin", context.artifact("in.bin").content + b"\2"), files)
    assert read_artifact(files, TASK, outcome.artifacts[0].name) == b"\0\1\2"
    missing = run(lambda context: context.artifact("other.bin"), files)
    assert "no artifact 'other.bin' in this task; artifacts: in.bin, out.bin" in str(missing.result.error)


class SilentFiles(MemoryFiles):
    """Files of a store that does not answer."""

    def size(self, path: str) -> int | None:
        raise TransientError("the store does not answer")


def test_a_file_that_cannot_be_read_now_repeats_only_calls_that_may_be() -> None:
    with pytest.raises(TransientError):
        run(lambda context: context.artifact("a"), SilentFiles())
    outcome = run(lambda context: context.artifact("a"), SilentFiles(), effect="irreversible")
    assert "call the tool again later" in str(outcome.result.error)


def test_a_model_cannot_name_a_file_of_the_worker() -> None:
    def archive(reports: list[File]) -> str:
        """Archive reports."""
        return ""

    with pytest.raises(UsageError, match="a File is a result: take the name of an artifact"):
        describe_function(archive)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (File("a.txt", "hello"), '[{"name":"a.txt","type":"file"}]'),
        ([File("a.txt", "hello"), "b"], '[{"name":"a.txt","type":"file"},"b"]'),
        (AgentAnswer("done", files=[File("a.txt", "hello")]), "done"),
    ],
)
def test_files_of_a_function_that_is_an_agent_are_stored(returned: Any, text: str) -> None:
    RETURNED.append(lambda _: returned)
    box = toolbox_of(MemoryFiles(), MemoryHistories(), (__name__,), Path(tempfile.mkdtemp()))
    team = Team.model_validate({"name": "t", "agents": [{"name": "maker", "function": f"{__name__}:produce"}]})
    context = ToolContext(TASK, "maker", "tc_1", "k", 1, step_id="st_1")
    call = ToolCall(id="tc_1", tool_name="maker", args={})
    outcome = box.offload_large(box.run(team, call, team.agents[0].turn_call, context), context)
    assert (outcome.answer["text"], outcome.result.result) == (text, "answered")
    assert [artifact.name for artifact in outcome.artifacts] == ["a.txt"]
