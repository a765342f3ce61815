"""The operations of the web view: forms that the gateway's own description yields, requests, and answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway_rest import rest_world
from tests.unit.gateway.web.test_explanations import ask

FILLED = {"cursor", "limit", "dry_run", "bulk_id"}
"""Fields that the page fills in."""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with rest_world(tmp_path_factory.mktemp("gateway")) as rest:
        yield rest.app.openapi()


def test_each_operation_for_operators_has_a_form_with_all_its_fields(document: dict[str, Any]) -> None:
    [actions] = ask(("actions", document))
    described = {
        operation["operationId"]: (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if "operations" in operation.get("tags", ()) or "what-if" in path
    }
    assert actions.keys() == described.keys()
    assert {"report_usage", "list_stuck_tasks", "drain_worker", "start_what_if", "export_task"} <= actions.keys()
    for name, action in actions.items():
        path, operation = described[name]
        assert (action["path"], action["title"]) == (path, operation["summary"])
        in_path = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert in_path <= set(action["schema"]["required"])
        assert not FILLED & action["schema"]["properties"].keys()
        others = [one for one in operation.get("parameters", ()) if one["in"] != "path" and action["method"] != "get"]
        assert not any(one.get("required") for one in others), f"{name}: the form has no field for these parameters"


def test_people_need_json_only_for_objects(document: dict[str, Any]) -> None:
    [forms] = ask(("actionForms", document))
    fields = {(name, one["name"]): one for name, form in forms.items() for one in form.get("fields", ())}
    assert {key for key, one in fields.items() if one["kind"] == "json"} <= {
        ("start_what_if", "team"),
        ("start_what_if", "prompts"),
        *((name, field) for name, field in fields if name == "control_tasks"),
    }
    assert fields["erase_tasks", "team"]["kind"] == "list"
    assert fields["report_usage", "format"]["options"] == ['"json"', '"jsonl"', '"csv"']
    assert fields["control_tasks", "what_if"]["text"] == ""  # its default is null, which is no option
    limits = fields["control_tasks", "limits"]
    assert limits["title"] == "limits"
    assert [one["text"] for one in limits["fields"]] == [""] * len(limits["fields"]), "a bulk stop takes no limits"
    stopped = next(one for one in forms["erase_task"]["fields"] if one["name"] == "stop")
    assert stopped["text"] == "false"


def test_requests_have_values_in_the_address_the_query_or_the_body() -> None:
    erase = {"path": "/v1/operations/erasures/{task_id}", "method": "post"}
    report = {"path": "/v1/usage", "method": "get"}
    changed, read = ask(
        ("request", {"action": erase, "values": {"task_id": "a/../?&$&", "reason": "x", "stop": False}, "key": "k"}),
        ("request", {"action": report, "values": {"by": "day", "team": ["a", "b&c"]}, "key": "k"}),
    )
    assert changed[0] == "v1/operations/erasures/a%2F..%2F%3F%26%24%26"
    assert changed[1]["body"] == '{"reason":"x","stop":false}'
    assert changed[1]["headers"] == {"Content-Type": "application/json", "Idempotency-Key": "k"}
    assert read == ["v1/usage?by=day&team=a&team=b%26c", {}]


def test_pages_are_joined_and_the_last_outcome_of_a_task_counts() -> None:
    pages = [
        {"matching": 2, "unreadable": 1, "outcomes": [{"task_id": "a", "outcome": "failed"}], "cursor": "1"},
        {"matching": 3, "unreadable": 0, "outcomes": [], "cursor": "2"},
        {
            "matching": 1,
            "unreadable": 2,
            "outcomes": [{"task_id": "a", "outcome": "accepted"}, {"task_id": "b", "outcome": "ended"}],
        },
    ]
    [found] = ask(("joined", pages))
    assert (found["matching"], found["unreadable"]) == (6, 3)
    assert [(one["task_id"], one["outcome"]) for one in found["outcomes"]] == [("a", "accepted"), ("b", "ended")]
    assert ask(("joined", pages[:2]))[0]["cursor"] == "2"


def test_a_confirmed_request_leaves_what_has_changed_since_its_count() -> None:
    """A decision would else include calls that were made while the user read the count."""
    count = {"matching": 2, "until": "2026-01-31T09:30:00Z", "cursor": ""}
    decision, erasure, parts = ask(("confirmed", count), ("confirmed", {"cursor": ""}), ("parts", count))
    assert decision == {"dry_run": False, "until": "2026-01-31T09:30:00Z"}
    assert erasure == {"dry_run": False}
    assert parts == [{"matching": 2}, []]
