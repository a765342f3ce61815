"""Steps: their digest, their chain, and the fields of other releases."""

import hashlib
import json
import sys
from typing import Any

import pytest
from hypothesis import given

from roboco.domain.history.step import TaskStep, digest_of, parse_step, verify_chain
from roboco.errors import CorruptHistory
from tests.unit.domain.steps import artifact, call, failed, histories, result, steps_of, text

CHAIN = steps_of(
    ("user", 'Grüße, 世界 😀 \u2028 "quoted" \\ \x00'),
    ("one", [text(""), call("tc_1", args={"ü": [1.5, None, True, 1e22]})], {"usage": {"tokens_in": 3}}),
    ("tool_executor", [result("tc_1", {"b": 1, "a": [{}]}), artifact("a.txt")]),
    ("orchestrator", [failed("limit")]),
)
LINES = [step.line() for step in CHAIN]


def verify_as_documented(lines: list[str]) -> None:
    previous = ""
    for line in lines:
        step = json.loads(line)
        digest = step.pop("digest")
        body = json.dumps(step, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert step["prev_digest"] == previous
        assert hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest() == digest
        previous = digest


def test_anyone_can_verify_a_history_with_ten_lines() -> None:
    verify_as_documented(LINES)
    assert verify_chain(LINES) == len(LINES)
    assert verify_chain([line.encode() for line in LINES]) == len(LINES)
    assert verify_chain([]) == 0


@given(histories())
def test_every_history_can_be_verified_and_read_back(steps: list[TaskStep]) -> None:
    lines = [step.line() for step in steps]
    assert all("\n" not in line for line in lines)
    verify_as_documented(lines)
    assert verify_chain(lines) == len(steps)
    assert [parse_step(line) for line in lines] == steps
    assert [parse_step(line).line() for line in lines] == lines


@pytest.mark.parametrize("seq", range(len(LINES)))
def test_a_changed_byte_is_found_and_the_step_named(seq: int) -> None:
    line = LINES[seq]
    for place in range(0, len(line), 7):
        if line[place] not in "e1a":
            continue
        changed = [*LINES]
        changed[seq] = line[:place] + chr(ord(line[place]) + 1) + line[place + 1 :]
        with pytest.raises(CorruptHistory, match=f"step {seq} "):
            verify_chain(changed)


@pytest.mark.parametrize("change", [str.upper, lambda line: line + " ", lambda line: line.replace('":', '": ', 1)])
def test_another_spelling_of_the_same_step_is_found(change: Any) -> None:
    with pytest.raises(CorruptHistory, match="step 1 "):
        verify_chain([LINES[0], change(LINES[1]), *LINES[2:]])


@pytest.mark.parametrize("seq", range(len(LINES) - 1))
def test_a_removed_line_and_a_swapped_pair_are_found(seq: int) -> None:
    swapped = [*LINES]
    swapped[seq : seq + 2] = reversed(LINES[seq : seq + 2])
    for lines in (LINES[:seq] + LINES[seq + 1 :], swapped):
        with pytest.raises(CorruptHistory, match=f"step {seq} .*position is {seq + 1}"):
            verify_chain(lines)


def test_a_step_that_was_sealed_anew_is_found_by_the_next_one() -> None:
    forged = CHAIN[1].model_copy(update={"agent_name": "two"}).sealed(CHAIN[0].digest)
    with pytest.raises(CorruptHistory, match=r"step 2 .*does not follow"):
        verify_chain([LINES[0], forged.line(), *LINES[2:]])


@pytest.mark.parametrize("line", ["", "[]"])
def test_an_invalid_step_is_named(line: str) -> None:
    with pytest.raises(CorruptHistory, match="step 1 is not"):
        verify_chain([LINES[0], line])
    with pytest.raises(CorruptHistory):
        parse_step(line)


def test_unknown_fields_are_kept_and_sealed() -> None:
    part = text("hi") | {"colour": "red"}
    tool = call("tc_1") | {"later": 1}
    tool["tool_call"]["newer"] = {"a": [1]}
    record = {
        "step_id": "s",
        "created_at": "2026-01-02T03:04:05Z",
        "agent_name": "one",
        "parts": [part, tool],
        "branch": {"of": "x"},
    }
    step = TaskStep.model_validate(record).sealed("")
    written = json.loads(step.line())
    assert written["branch"] == {"of": "x"}
    assert written["parts"][0]["colour"] == "red"
    assert (written["parts"][1]["later"], written["parts"][1]["tool_call"]["newer"]) == (1, {"a": [1]})
    assert parse_step(step.line()) == step
    assert verify_chain([step.line()]) == 1
    changed = json.loads(step.line())
    changed["parts"][0]["colour"] = "blue"
    assert digest_of(changed) != step.digest


def test_steps_that_were_read_leave_no_texts_in_memory() -> None:
    """Pydantic would keep up to 16,384 of their ids and texts in each process."""
    before = sys.getallocatedblocks()
    for number in range(2_000):
        parse_step(CHAIN[0].model_copy(update={"step_id": f"step_{number:032x}"}).model_dump_json())
    assert sys.getallocatedblocks() - before < 500
