"""Ids: the characters that they may have, and the ids and paths derived from a position."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.ids import (
    call_id_at,
    check_item_id,
    check_task_id,
    check_tenant,
    may_be_sub_task,
    qualified_id,
    step_id_at,
    sub_task_id,
    tenant_of,
)
from roboco.domain.paths import (
    artifact_path,
    events_path,
    history_path,
    intent_path,
    item_path,
    open_marker_path,
    outcome_path,
    segments_path,
    summary_path,
    team_path,
)
from roboco.errors import UsageError

PIECES = st.sampled_from(["a", "Z", "0", "_", "-", ".", "..", "/", "\\", "{", "}", ":", "\n", "\0", " ", "ü", "_open"])


VALID_TASK_IDS = ["0", "x" * 128, "a-b_c:Task.1"]
INVALID_TASK_IDS = [
    "",
    "_open",
    "-a",
    "a..b",
    "a/b",
    "a\n",
    "ü",
    "x" * 129,
    "{a}",
    "a:",
    ":b",
    "a:b:c",
    "A:b",
    None,
    b"a",
]


@pytest.mark.parametrize("task_id", INVALID_TASK_IDS)
def test_invalid_task_ids_are_refused(task_id: object) -> None:
    assert [check_task_id(one) for one in VALID_TASK_IDS] == VALID_TASK_IDS
    with pytest.raises(UsageError, match="is not allowed: use 1 to 128"):
        check_task_id(task_id)


def test_invalid_item_ids_and_tenants_are_refused() -> None:
    assert (check_item_id("a-B_9"), check_tenant("a-b_9")) == ("a-B_9", "a-b_9")
    for item_id in ("", "_a", "a.b", "a/b", "a\n", "x" * 65, None):
        with pytest.raises(UsageError, match="is not allowed: use 1 to 64"):
            check_item_id(item_id)
    for tenant in ("", "A", "a:b", "a.b", "a" * 33, "-a", 5):
        with pytest.raises(UsageError, match="is not allowed: use 1 to 32"):
            check_tenant(tenant)


def test_error_for_a_long_id_is_short() -> None:
    with pytest.raises(UsageError) as raised:
        check_task_id("/" * 10_000)
    assert len(str(raised.value)) < 300


def test_derived_ids_are_stable_and_differ_by_position() -> None:
    ids = [step_id_at(task, seq) for task in ("a", "b") for seq in (0, 1, 10)]
    contents: list[tuple[str, object]] = [("add", {}), ("add", {"a": 1}), ("add", "{}"), ("adda", {}), ("send", {})]
    places = list(product(("a", "b"), (0, 1, 10), (0, 1)))
    ids += [call_id_at(*place, *content) for place in places for content in contents]
    assert len(set(ids)) == len(ids)
    assert re.fullmatch(r"step_[0-9a-f]{32}", step_id_at("a", 0))
    assert re.fullmatch(r"tc_[0-9a-f]{32}", call_id_at("a", 0, 0, "add", {}))
    assert step_id_at("a", 0) == step_id_at("a", 0)
    one = call_id_at("a", 0, 0, "add", {"a": 1, "b": 2})
    assert one == call_id_at("a", 0, 0, "add", {"b": 2, "a": 1}) == "tc_094363f59314c1d55d4265175edec7d3", (
        "the same in each release"
    )
    assert check_item_id(one)


@given(st.lists(PIECES, max_size=5).map("".join))
def test_no_path_leaves_the_tasks_folder(name: str) -> None:
    for of_task in (team_path, summary_path, history_path, segments_path, events_path):
        try:
            path = of_task(name)
        except UsageError:
            continue
        assert path.startswith(f"{name}/")
        assert ".." not in path.split("/")
        assert not path.startswith(("/", "_open"))
        assert open_marker_path(name) == f"_open/{name}"
    for below in (artifact_path, item_path, intent_path, outcome_path):
        try:
            path = below("task", name)
        except (UsageError, ValueError):
            continue
        assert path.startswith("task/")
        assert path.count("/") == 2
        assert not {"", ".", ".."} & set(path.split("/"))


def test_ids_are_qualified_with_the_tenant() -> None:
    assert qualified_id(None, "acme:1") == "acme:1"
    assert qualified_id(None, "1") == "1"
    assert qualified_id("acme", "1") == qualified_id("acme", "acme:1") == "acme:1"
    assert (tenant_of("acme:1"), tenant_of("1")) == ("acme", "")
    assert tenant_of(sub_task_id("acme:1", "tc_" + "a" * 32)) == "acme"
    with pytest.raises(UsageError, match="task 'other:1' is not one of tenant 'acme'"):
        qualified_id("acme", "other:1")


@pytest.mark.parametrize("task_id", ["t", f"{'a' * 32}:{'b' * 100}"])
def test_sub_tasks_at_any_depth_have_ids_of_their_task(task_id: str) -> None:
    child = sub_task_id(task_id, "tc_" + "1" * 32)
    grandchild = sub_task_id(child, "tc_" + "2" * 32)
    assert may_be_sub_task(child, task_id)
    assert may_be_sub_task(grandchild, task_id)
    assert may_be_sub_task(grandchild, child)
    assert not may_be_sub_task(task_id, task_id)
