"""The parts of the web view that need no page: digests, forms, receipts. Node runs them."""

import json
import shutil
import subprocess
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import TaskStep

HISTORIES = sorted((Path(__file__).parents[3] / "replay/histories").rglob("*.jsonl"))
PROGRAM = Path(__file__).with_name("explanations.mjs")
HOSTILE = 'quote " backslash \\ brace } bracket ] "digest":"x", \u2028 \u202e 🌊 é \x01'
Question = tuple[str, object]


def node() -> str:
    """Return the path of Node, or skip. The package of the browser tests brings one."""
    found = shutil.which("node")
    spec = None if found else find_spec("playwright")
    if spec is not None and spec.origin is not None:
        found = str(Path(spec.origin).parent / "driver" / "node")
    return found or pytest.skip("there is no Node")


def ask(*questions: Question) -> list[Any]:
    """Return the answers of the modules."""
    folder = str(resources.files("roboco.gateway.web") / "assets")
    command = [node(), "--no-warnings", "--experimental-default-type=module", str(PROGRAM), folder]
    done = subprocess.run(
        command, input=json.dumps(questions), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


def pages(lines: list[str], size: int) -> dict[int, str]:
    """Return the pages of `/history`, by their start."""
    starts = range(0, max(1, len(lines)), size)
    following = [*(str(start) for start in starts[1:]), "null"]
    return {
        start: '{"steps":[\n' + ",\n".join(lines[start : start + size]) + f'\n],"next":{after}}}'
        for start, after in zip(starts, following, strict=True)
    }


def chain(*contents: dict[str, Any]) -> list[str]:
    """Return the lines of steps with this metadata."""
    before, lines = "", []
    for seq, metadata in enumerate(contents):
        record = {"seq": seq, "agent_name": "user", "parts": [{"type": "text", "text": HOSTILE}], "metadata": metadata}
        step = TaskStep.model_validate(record).sealed(before)
        before = step.digest
        lines.append(step.line())
    return lines


def test_recorded_histories_are_intact() -> None:
    recorded = [path.read_text().splitlines() for path in HISTORIES]
    answers = ask(*(("verify", pages(lines, 3)) for lines in recorded))
    assert [(len(answer["digests"]), answer["wrong"]) for answer in answers] == [
        (len(lines), None) for lines in recorded
    ]
    assert [answer["digests"][-1] for answer in answers] == [json.loads(lines[-1])["digest"] for lines in recorded]


def test_numbers_and_texts_that_javascript_would_change_are_intact() -> None:
    lines = chain(
        {"n": [1.0, 1e22, 12345678901234567890, -0.0, 1e-7]}, {"digest": "inner", "seq": 9}, {HOSTILE: HOSTILE}
    )
    [found] = ask(("verify", pages(lines, 2)))
    assert found == {"digests": [json.loads(line)["digest"] for line in lines], "wrong": None}


def test_first_wrong_step_is_named() -> None:
    lines = chain(*({"n": 1.0} for _ in range(5)))
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    doubled = lines[3].replace('{"agent_name"', '{"seq":3,"agent_name"')
    damaged = {
        "content": ([*lines[:3], lines[3].replace("1.0", "1.1"), lines[4]], 3),
        "digest": ([*lines[:4], lines[4].replace('"digest":"', '"digest":"0')], 4),
        "missing": ([*lines[:2], *lines[3:]], 2),
        "swapped": (swapped, 1),
        "no digest": ([lines[0], canonical_json({"seq": 1, "prev_digest": json.loads(lines[0])["digest"]})], 1),
        "twice": ([*lines[:3], doubled, lines[4]], 3),
        "no object": ([*lines[:2], "17"], 2),
    }
    answers = ask(*(("verify", pages(changed, 2)) for changed, _ in damaged.values()))
    assert {name: answer["wrong"]["seq"] for name, answer in zip(damaged, answers, strict=True)} == {
        name: seq for name, (_, seq) in damaged.items()
    }


def test_a_wrong_text_is_refused() -> None:
    wrong: list[tuple[Any, str, str]] = [
        ({"type": "integer"}, "1.5", "the value is no integer"),
        ({"type": "integer"}, "9007199254740993", "the value is too large to be exact"),
        ({"type": "number"}, "1e999", "the value is too large to be exact"),
        ({"type": "number"}, "", "the value is missing"),
        ({"type": "number"}, '"1"', "the value is no number"),
        ({"title": "Size", "type": "boolean"}, "1", "Size is no option"),
        ({"enum": ["a"]}, '"b"', "the value is no option"),
        ({}, '{"a": ', "the value is not JSON"),
        ({"type": "array", "items": {"type": "string"}}, '["a', "the value is not JSON"),
    ]
    answers = ask(*(("mistake", {"schema": schema, "text": text}) for schema, text, _ in wrong))
    assert answers == [{"problem": problem} for _, _, problem in wrong]


def test_hostile_schemas_become_bounded_plans() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep, "b": {"type": "null"}}}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}}
    broad = {
        "type": "object",
        "properties": {f"p{n}": {"type": "object", "properties": {f"q{m}": {} for m in range(70)}} for n in range(70)},
    }
    schemas: list[Any] = [
        deep,
        wide,
        broad,
        {"$ref": "http://example.test/schema"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"anyOf": [{"type": "string"}]},
        {"type": "string", "pattern": "(a+)+$", "title": {"x": 1}, "description": "d" * 10**6},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": {}}, "required": ["b"]},
        {"type": "object", "properties": ["a"], "required": "a"},
        {"enum": list(range(10**5))},
        {"type": "array", "items": [{"type": "string"}]},
        17,
        [],
    ]
    plans = ask(*(("plan", schema) for schema in schemas))
    assert all(len(json.dumps(plan)) < 30_000 for plan in plans[:3])
    kinds = [plan["kind"] for plan in plans]
    assert kinds == ["object", "json", "object", "json", "object", "json", "string", *["json"] * 7]
    assert plans[4]["fields"][0]["kind"] == "json"
    assert len(plans[6]["hint"]) <= 600


def test_a_receipt_names_each_moment() -> None:
    receipt = {"requested_at": "2026-11-23T20:00:00.000Z", "applied_at_seq": None, "expired": False, "effect": None}
    ended = {"seen_at": "2026-11-23T20:00:00.034Z", "closed_at": "2026-11-23T20:00:00.039Z", "chunks_after": 1}
    applied = receipt | ended | {"applied_at_seq": 7, "effect": "reply_ended"}
    skewed = receipt | {"seen_at": "2026-11-23T19:59:59.000Z", "expired": True}
    texts = [lines[1:] for lines in ask(*(("receipt", one) for one in (receipt, applied, skewed)))]
    assert texts == [
        ["not applied yet"],
        [
            "seen by the worker +34 ms",
            "connection closed +5 ms",
            "1 chunk after the request",
            "applied at step 7",
            "reply ended",
        ],
        ["seen by the worker (clocks differ)", "expired: the task ended before it was applied"],
    ]


def test_a_step_says_who_decided_what() -> None:
    verdict = {"approved": True, "reason": "fine", "args": {"n": 1}, "item_id": "verdict-a", "by": "alice"}
    metadata: dict[str, Any] = {
        "approvals": {"a": verdict, "b": {"approved": False, "reason": "", "args": None}},
        "resolved": {"a": "verdict-a", "c": "answer-c", "d": "0f"},
        "resolved_by": {"c": "bob"},
    }
    decisions = ask(
        *(("decision", {"step": {"metadata": metadata}, "call": call}) for call in ("a", "b", "c", "d", "toString"))
    )
    resolved = [{"decision": "answer-c", "by": "bob"}, {"decision": "0f"}]
    assert decisions == [metadata["approvals"]["a"], metadata["approvals"]["b"], *resolved, None]


def test_a_call_that_expires_says_when() -> None:
    reason = "a person must approve: pay (tc_1); until 2026-01-31 12:00:00 UTC, then pay is denied; reminder 1"
    questions = [{"reason": one, "now": 1_769_857_200_000} for one in (reason, "a person must approve: pay (tc_1)")]
    left = ["1 h left, then pay is denied", ""]
    assert ask(*(("left", question) for question in questions)) == left


def test_amounts_have_four_digits_and_no_currency() -> None:
    shown = ["0.000134", "0.01235", "1,235", ""]
    assert ask(("money", [0.000134, 0.0123456, 1234.5678, 0])) == [shown]


def test_steps_with_an_error_are_the_failures_of_a_task() -> None:
    def step(seq: int, *parts: dict[str, Any]) -> dict[str, Any]:
        about = {"agent_name": "tool_executor", "step_id": f"s{seq}", "metadata": {}, "digest": "d"}
        return about | {"seq": seq, "created_at": "2026-01-01T00:00:00Z", "parts": parts}

    def result(*, failed: bool) -> dict[str, Any]:
        return {"type": "tool_result", "tool_result": {"tool_call_id": "c", "is_error": failed}}

    error = {"type": "error", "code": "model", "message": "it refuses"}
    steps = [step(0, result(failed=False)), step(1, result(failed=True)), step(2, error)]
    assert ask(("failures", [*steps, steps[1]])) == [[1, 2]]
