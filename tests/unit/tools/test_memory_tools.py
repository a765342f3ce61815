"""MemoryTools: each owner's entries, once for each call, within bounds, and apart from those of other owners."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.memory import (
    MAX_ENTRIES,
    MAX_ENTRY_CHARS,
    MAX_FORGOTTEN,
    MAX_MEMORY_BYTES,
    MAX_OWNER_CHARS,
    Memory,
    MemorySettings,
    memory_path,
    owner_path,
)
from roboco.domain.team.validation import validate_team
from roboco.errors import CorruptHistory, InvalidTeam, UsageError
from roboco.ports.memories import change_memory, read_memory
from roboco.ports.tools import ToolContext
from roboco.tools.builtin import BuiltinTools
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.tools.search.memory_index import MemoryIndex
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories

OF_USER = MemorySettings(of="context.user")
PATH = owner_path("acme", "context.user", "alice")
CONTEXT = ToolContext("acme:t1", "clerk", "tc_1", "acme:t1/tc_1", 1, step_id="step_1", memory=PATH)


class Desk:
    """The tools of one worker, and the files of the workspace."""

    def __init__(self, folder: Path) -> None:
        self.files = MemoryFiles()
        index = MemoryIndex(MemoryHistories(), lambda *_: None, folder)
        self._tools = BuiltinTools(self.files, index, Sandbox())

    def call(self, name: str, call_id: str = "tc_1", memory: str = PATH, **args: Any) -> Any:
        return self._tools.call(name, args, replace(CONTEXT, call_id=call_id, memory=memory))[0]

    @property
    def memory(self) -> Memory:
        return read_memory(self.files, PATH)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_call_that_runs_twice_remembers_once_with_its_source(desk: Desk) -> None:
    answers = [desk.call("remember", text="she drinks tea") for _ in range(2)]
    assert answers[0] == answers[1]
    [entry] = desk.memory.entries
    assert (entry.id, entry.text, entry.agent) == (answers[0]["id"], "she drinks tea", "clerk")
    assert (entry.task_id, entry.step_id) == ("acme:t1", "step_1")


def test_entries_are_recalled_by_words_and_without_words_newest_first(desk: Desk) -> None:
    for number, text in enumerate(["she drinks tea", "her dog is called Rex", "the dog bites"]):
        desk.call("remember", f"tc_{number}", text=text)
    assert [hit["text"] for hit in desk.call("recall", query="dog called Rex")] == [
        "her dog is called Rex",
        "the dog bites",
    ]
    assert [hit["text"] for hit in desk.call("recall", query="tea")] == ["she drinks tea"]
    assert desk.call("recall", query="cats") == []
    assert [hit["text"] for hit in desk.call("recall", limit=2)] == ["the dog bites", "her dog is called Rex"]
    assert set(desk.call("recall")[0]) == {"id", "text", "agent", "created_at"}


def test_a_forgotten_entry_is_not_recalled_and_a_late_repetition_does_not_store_it(desk: Desk) -> None:
    entry = desk.call("remember", text="she drinks tea")["id"]
    assert [desk.call("forget", id=entry) for _ in range(2)] == [{"forgotten": entry}] * 2
    assert desk.call("remember", text="she drinks tea") == {"id": entry}
    assert desk.call("recall", query="tea") == desk.call("recall") == []
    assert b"tea" not in desk.files.held[PATH]
    with pytest.raises(UsageError, match="no entry 'mem_x'"):
        desk.call("forget", id="mem_x")


def test_an_owner_does_not_see_and_cannot_forget_the_entries_of_another_one(desk: Desk) -> None:
    entry = desk.call("remember", text="she drinks tea")["id"]
    for other in (owner_path("acme", "context.user", "bob"), owner_path("beta", "context.user", "alice")):
        assert desk.call("recall", memory=other) == []
        with pytest.raises(UsageError):
            desk.call("forget", memory=other, id=entry)
    assert len(desk.memory.entries) == 1


def test_a_memory_is_bounded_in_entries_bytes_and_forgotten_ids(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roboco.domain.memory.MAX_ENTRIES", MAX_ENTRIES // 5)
    monkeypatch.setattr("roboco.domain.memory.MAX_FORGOTTEN", MAX_FORGOTTEN // 5)
    for number in range(MAX_ENTRIES // 5):
        desk.call("remember", f"tc_{number}", text="x")
    with pytest.raises(UsageError, match="the memory is full: it has 100 entries"):
        desk.call("remember", "tc_more", text="x")
    desk.call("remember", "tc_0", text="x")  # it has this one
    change_memory(desk.files, PATH, lambda memory: memory.without(lambda _: True))
    for number in range(63):
        desk.call("remember", f"tc_large{number}", text="ü" * MAX_ENTRY_CHARS)
    with pytest.raises(UsageError, match="256 KiB"):
        desk.call("remember", "tc_larger", text="ü" * MAX_ENTRY_CHARS)
    assert len(desk.files.held[PATH]) < MAX_MEMORY_BYTES + 50 * MAX_FORGOTTEN
    for number in range(3):
        change_memory(desk.files, PATH, lambda memory: memory.without(lambda _: True))
        for other in range(MAX_ENTRIES // 5):
            desk.call("remember", f"tc_{number}_{other}", text="x")
    assert len(desk.memory.forgotten) == MAX_FORGOTTEN // 5
    with pytest.raises(UsageError, match="text"):
        desk.call("remember", "tc_x", text="x" * (MAX_ENTRY_CHARS + 1))


def test_a_context_that_names_no_owner_has_no_memory(desk: Desk) -> None:
    owners: list[Any] = ["", None, True, ["alice"], "x" * (MAX_OWNER_CHARS + 1)]
    contexts: list[dict[str, Any]] = [{}, {"User": "alice"}, *({"user": owner} for owner in owners)]
    for context in contexts:
        assert memory_path(OF_USER, "acme:t1", context) == ""
    for name, args in (("remember", {"text": "x"}), ("recall", {}), ("forget", {"id": "mem_x"})):
        with pytest.raises(UsageError, match="this task has no memory: submit it with the field of the context"):
            desk.call(name, memory="", **args)


@pytest.mark.parametrize("user", ["../../x", "/etc/passwd", "a\x00b", "ü" * 200, "_", "\ud800"])
def test_any_value_is_one_file_in_the_folder_of_the_tenant(user: str) -> None:
    path = memory_path(OF_USER, "acme:t1", {"user": user})
    folder, _, name = path.rpartition("/")
    assert folder == "_memory/acme"
    assert len(name) == 45
    assert name.isascii()
    assert name.removesuffix(".json").isalnum()


def test_owners_of_other_tenants_fields_and_values_have_other_files() -> None:
    of_account = MemorySettings(of="context.account")
    owners = {
        memory_path(settings, task, {"user": user, "account": user})
        for settings in (OF_USER, of_account, MemorySettings(of="tenant"))
        for task in ("acme:t1", "beta:t1", "t1")
        for user in ("alice", "tenant")
    }
    assert len(owners) == 2 * 3 * 2 + 3
    assert memory_path(OF_USER, "t1", {"user": 7}) == memory_path(OF_USER, "t2", {"user": "7"})
    assert memory_path(None, "t1", {"user": "alice"}) == ""
    for of, value in (("tenant", "x"), ("context.user", ""), ("context.", "x"), ("user", "x"), ("tenant\n", "")):
        with pytest.raises(UsageError, match="no owner of a memory"):
            owner_path("", of, value)


def test_an_unreadable_memory_is_reported_and_not_replaced(desk: Desk) -> None:
    desk.files.put(PATH, b"{")
    with pytest.raises(CorruptHistory, match="_memory/acme/"):
        desk.call("remember", text="x")
    assert desk.files.held[PATH] == b"{"


def team(memory: object, tools: list[str]) -> dict[str, Any]:
    agent = {"name": "clerk", "prompt": "Serve.", "tools": tools}
    return {"name": "desk", "agents": [agent], "memory": memory}


def test_the_tools_need_a_declared_memory_and_their_names_are_free_without_one() -> None:
    named = validate_team(team({"of": "context.user"}, ["remember", "recall", "forget"]))
    assert named.memory == OF_USER
    with pytest.raises(InvalidTeam, match=r"agents\[0\].tools\[0\]: 'recall' needs a memory"):
        validate_team(team(None, ["recall"]))
    with pytest.raises(InvalidTeam, match=r"memory\.of"):
        validate_team(team({"of": "user"}, []))
    own = [{"name": "recall", "function": "shop.cars:recall", "effect": "pure"}]
    assert validate_team(team(None, ["recall"]) | {"tools": own}).tool("recall") is not None
    with pytest.raises(InvalidTeam, match="'recall' is reserved"):
        validate_team(team({"of": "tenant"}, ["recall"]) | {"tools": own})
