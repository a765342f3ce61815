"""The OpenAPI document of the REST routes, for generated clients."""

from typing import Any

from tests.contract.gateway.operations import LISTING, TAGS, listing


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of the REST routes."""
    every = (operation for path in document["paths"].values() for operation in path.values())
    return [operation for operation in every if TAGS.intersection(operation.get("tags", ()))]


def test_the_document_changes_only_on_purpose(document: dict[str, Any]) -> None:
    assert listing(document) == LISTING.read_text(), "if it is meant, run python -m tests.contract.gateway.operations"


def test_each_operation_has_a_unique_id_a_summary_and_problem_documents(document: dict[str, Any]) -> None:
    found = operations(document)
    ids = [operation["operationId"] for operation in found]
    assert len(set(ids)) == len(ids)
    for operation in found:
        assert operation["summary"]
        assert operation["description"]
        for status in ("400", "401", "403", "422", "429", "500", "503"):
            assert list(operation["responses"][status]["content"]) == ["application/problem+json"]


def test_each_body_has_an_example_and_each_of_its_fields_a_description_or_a_reference(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    bodies = {
        one.get("$ref", "").rpartition("/")[2]
        for operation in operations(document)
        for media in operation.get("requestBody", {}).get("content", {}).values()
        for one in (media["schema"], *media["schema"].get("anyOf", ()))
    } - {""}
    assert {"NewTask", "NewMessage", "ApprovalRequest", "ForkTask"} <= bodies
    for name in bodies:
        assert schemas[name]["examples"], name
        assert schemas[name]["additionalProperties"] is False
