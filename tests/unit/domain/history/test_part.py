"""Parts: their JSON, and names that cannot leave the workspace."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from roboco.domain.history.part import Part, UnknownPart, artifact_name, artifact_uri

PARTS: TypeAdapter[Any] = TypeAdapter(Part)


@pytest.mark.parametrize("part", [{"type": ["a"]}, {"text": "hi"}, {"type": "text"}, 3])
def test_an_invalid_part_is_refused(part: Any) -> None:
    with pytest.raises(ValidationError):
        PARTS.validate_python(part)


@pytest.mark.parametrize("kind", ["image", "unknown", ""])
def test_a_part_of_another_kind_is_kept_as_it_is(kind: str) -> None:
    given = {"type": kind, "data": {"b": [1]}, "unknown_type": "x"} if kind else {"type": kind}
    read = PARTS.validate_python(given)
    assert isinstance(read, UnknownPart)
    assert read.type == "unknown"
    assert PARTS.dump_python(read, mode="json") == given
    assert PARTS.validate_json(read.model_dump_json()) == read


@pytest.mark.parametrize("name", ["A_b-c.1", "_x", "x" * 128])
def test_a_name_and_its_uris_are_the_same_artifact(name: str) -> None:
    assert artifact_name(name) == name
    assert artifact_name(f"file://artifacts/{name}") == name
    assert artifact_name(f"file://./artifacts/{name}") == name
    assert artifact_uri(name) == f"file://artifacts/{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", ".hidden", "a/b", "../a", "a\\b", "a\n", "a\0", "ü", "x" * 129, "a b", "-a"),
        *("file:///etc/passwd", "file://artifacts/../team.json", "file://artifacts/", "file://artifacts/a/b"),
        *("file://./../artifacts/a", "file://artifacts//a"),
    ],
)
def test_a_name_cannot_leave_the_workspace(name: str) -> None:
    with pytest.raises(ValueError, match="not allowed"):
        artifact_name(name)
