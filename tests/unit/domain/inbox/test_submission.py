"""Submissions and messages: accepted as a whole, or refused with all mistakes."""

from typing import Any

import pytest

from roboco import documents
from roboco.domain.inbox.submission import MAX_CONTEXT_BYTES, MAX_MESSAGE_BYTES, parse_message, parse_submission
from roboco.errors import UsageError

GOOD: dict[str, Any] = {"task_id": "t1", "team": "desk", "prompt": "go"}


WHOLE: dict[str, Any] = {
    "task_id": "t1",
    "team": "desk",
    "prompt": "go",
    "context": {"a": [1, None]},
    "agent": "one",
    "title": "A title",
    "eta": "2026-01-02T12:00:00Z",
    "priority": "high",
    "goals": [{"name": "found", "description": "find it"}],
    "client_tools": [{"name": "client_show", "description": "shows it"}],
    "client_context": {"page": 1},
    "scope": {"start_time": 1, "index": "a"},
    "artifacts": ["a.csv"],
    "notify": [{"celery": {"task": "a"}}],
}


@pytest.mark.parametrize(
    ("arguments", "digest"),
    [
        (GOOD, "203cdcc9bccbd85dcac061cc044171f13c74c413091569db1c9921501c176f28"),
        (WHOLE, "cca05cbc72e3e7d5cc698bd21aa90aba8d8883b09689187bd5b6534e9bd10a6f"),
    ],
)
def test_a_submission_has_the_same_digest_in_each_release(arguments: dict[str, Any], digest: str) -> None:
    """Otherwise a client that submits again after an update is refused. A new field is left out if it is not set."""
    assert parse_submission(arguments).digest() == digest


def test_a_submission_is_parsed() -> None:
    submission = parse_submission(GOOD | {"context": {"a": [1, None]}, "agent": "one", "team": {"name": "x"}})
    assert submission.model_dump() == {
        "task_id": "t1",
        "team": {"name": "x"},
        "prompt": "go",
        "context": {"a": [1, None]},
        "agent": "one",
        "model": None,
        "title": None,
        "eta": None,
        "countdown": None,
        "priority": "normal",
        "goals": [],
        "client_tools": [],
        "client_context": {},
        "answer_form": None,
        "state": {},
        "scope": None,
        "artifacts": [],
        "notify": [],
        "history": [],
        "conversation": False,
        "item_id": None,
        "by": None,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task_id": ...}, "task_id: is missing"),
        ({"team": ...}, "team: is missing"),
        ({"prompt": ...}, "prompt: is missing"),
        ({"countdown": -1}, "countdown: "),
        ({"eta": 5}, "eta: "),
        ({"priority": "urgent"}, "priority: "),
        ({"item_id": "answer-c1"}, "item_id: 'answer-c1' has a prefix"),
        ({"item_id": "../a"}, "item id .* is not allowed"),
        ({"prompt": 5}, r"prompt: .* \(found 5\)"),
        ({"prompt": ""}, "prompt: "),
        ({"prompt": " \n"}, "prompt: is empty"),
        (
            {"prompt": "x" * (MAX_MESSAGE_BYTES + 1)},
            f"prompt: has {MAX_MESSAGE_BYTES + 1} bytes or more, at most {MAX_MESSAGE_BYTES}",
        ),
        ({"prompt": "\x01" * 43_700}, "prompt: has 262200 bytes or more"),
        ({"prompt": "😀" * 65_540}, "prompt: has 262160 bytes or more"),
        ({"client_context": {"a": "😀" * 17_000}}, "68.* bytes of JSON"),
        ({"context": {"a": "😀" * 17_000}}, "context: 68.* bytes of JSON"),
        ({"notify": [{}]}, "give either 'celery' or 'webhook'"),
        ({"notify": [{"webhook": "https://a.example"}]}, "give 'secret_env', the variable"),
        ({"notify": [{"celery": {"args": []}}]}, "is not a signature"),
        ({"notify": [{"celery": {"task": "a", "args": ["x" * 70_000]}}]}, "at most 65536"),
        ({"notify": [{"celery": {"task": "a"}, "on": ["running"]}]}, "passes too soon for a notification"),
        ({"notify": [{"celery": {"task": "a"}}] * 9}, "notify: .* at most 8"),
        ({"context": []}, r"context: .* \(found \[\]\)"),
        ({"context": {"a": "x" * MAX_CONTEXT_BYTES}}, f"context: .* at most {MAX_CONTEXT_BYTES}"),
        ({"team": 5}, r"team: .* \(found 5\)"),
        ({"agent": 5}, r"agent: .* \(found 5\)"),
        ({"promt": "x"}, "promt: no such argument, possible are .*task_id, team, prompt, context, agent"),
        ({"task_id": ..., "promt": "x"}, "task_id: is missing; promt: no such argument"),
    ],
)
def test_an_invalid_argument_is_named(changes: dict[str, Any], message: str) -> None:
    arguments = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    with pytest.raises(UsageError, match=message):
        parse_submission(arguments)


def test_the_digest_depends_only_on_the_work() -> None:
    submission = parse_submission(GOOD)
    assert submission.digest() == parse_submission(dict(reversed(GOOD.items()))).digest()
    for changes in ({"prompt": "stop"}, {"context": {"a": 1}}, {"agent": "one"}, {"item_id": "m"}):
        assert parse_submission(GOOD | changes).digest() != submission.digest()
    for changes in ({"task_id": "t2"}, {"team": "other"}):
        assert parse_submission(GOOD | changes).digest() == submission.digest()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_context_that_is_no_json_is_refused(number: float) -> None:
    with pytest.raises(UsageError, match="JSON"):
        parse_submission(GOOD | {"context": {"a": [number]}})


def test_a_message_is_a_text_of_bounded_length() -> None:
    assert parse_message("hi \ud83d\ude00") == "hi \U0001f600"
    assert parse_message("x" * MAX_MESSAGE_BYTES)
    for wrong in (None, 5, "", "  \n", b"hi", ["hi"]):
        with pytest.raises(UsageError, match="message: must be a text that is not empty"):
            parse_message(wrong)
    for large in ("x" * (MAX_MESSAGE_BYTES + 1), "\x01" * 43_700):
        with pytest.raises(UsageError, match=f"at most {MAX_MESSAGE_BYTES}"):
            parse_message(large)


@pytest.mark.parametrize(
    ("start", "end", "is_valid"), [(1, 1, True), (2, 1, False), (None, 1, True), (2.0, 1.0, False)]
)
def test_a_scope_that_ends_before_it_starts_is_refused(start: Any, end: Any, is_valid: bool) -> None:
    arguments = GOOD | {"scope": {"start_time": start, "end_time": end}}
    if is_valid:
        parse_submission(arguments)
        return
    with pytest.raises(UsageError, match="scope: Value error, start_time 2 is after end_time 1"):
        parse_submission(arguments)


def test_models_are_arguments_as_their_plain_data() -> None:
    view = documents.ClientViewingContext(dataset_ids=["ds_1"])
    tool = documents.ClientToolSpec(name="client_look", description="Look.", input_schema={"type": "object"})
    scope = documents.AnalysisScope(start_time=1)
    given = {"client_context": view, "client_tools": [tool], "scope": scope}
    plain = {
        "client_context": {"dataset_ids": ["ds_1"], "file_ids": []},
        "client_tools": [{"name": "client_look", "description": "Look.", "input_schema": {"type": "object"}}],
        "scope": {"start_time": 1},
    }
    assert parse_submission(GOOD | given) == parse_submission(GOOD | plain)
