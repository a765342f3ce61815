"""The object shapes and the example code of the documents on Roboco's objects are accepted as written."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from roboco.domain.history.part import (
    Artifact,
    ArtifactPart,
    TextPart,
)
from roboco.domain.history.step import TaskStep, parse_step, verify_chain
from roboco.domain.stream.event import parse_stream_message
from roboco.errors import CorruptHistory

NOW = "2026-01-02T03:04:05Z"
STEP = {"step_id": "step_1", "agent_name": "writer", "parts": [{"type": "text", "text": "hello"}], "created_at": NOW}


@pytest.mark.parametrize(
    "given",
    [
        {"id": "step_1", "created_at": NOW},
        {"step_id": "step_1", "timestamp": NOW},
        {"step_id": "step_1", "timestamp": datetime(2026, 1, 2, 3, 4, 5)},  # as utcnow() returns it
    ],
    ids=["document 000", "document 001", "document 001 with utcnow"],
)
def test_task_step_is_read_and_constructed_by_the_names_of_each_document(given: dict[str, Any]) -> None:
    whole = given | {"agent_name": "writer", "parts": [TextPart(text="hello")]}
    step = TaskStep(**whole)
    assert step == TaskStep.model_validate(whole)
    assert (step.id, step.step_id) == ("step_1", "step_1")
    assert step.timestamp == step.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("missing", ["step_id", "created_at"])
def test_recorded_step_without_an_id_or_a_time_is_corrupt(missing: str) -> None:
    """Otherwise each parse would create a new value."""
    record = {name: value for name, value in STEP.items() if name != missing}
    with pytest.raises(CorruptHistory, match=f"a recorded TaskStep must have the field '{missing}'"):
        parse_step(json.dumps(record))
    with pytest.raises(ValueError, match=missing):
        parse_stream_message({"type": "event_step_end", "task_id": "t1", "timestamp": NOW, "step": record})


def test_recorded_time_without_a_zone_is_kept_for_its_digest() -> None:
    step = parse_step(json.dumps(STEP | {"created_at": "2026-01-02T03:04:05"})).sealed("")
    assert '"created_at":"2026-01-02T03:04:05"' in step.line()
    assert verify_chain([step.line()]) == 1


@pytest.mark.parametrize(
    ("uri", "artifact_id"),
    [
        ("file://artifacts/main.py", "main.py"),
        ("file://./artifacts/a1.bin", "a1.bin"),
        ("https://example.com/a.txt", "https://example.com/a.txt"),
    ],
)
def test_artifact_without_an_id_has_the_name_in_its_uri(uri: str, artifact_id: str) -> None:
    record = {"uri": uri, "mime_type": "text/plain"}
    for artifact in (Artifact(**record), Artifact.model_validate_json(json.dumps(record))):
        assert (artifact.artifact_id, artifact.uri) == (artifact_id, uri)
    assert Artifact(artifact_id="a1", **record).artifact_id == "a1"


def test_artifact_part_may_have_the_fields_of_its_artifact() -> None:
    flat = {"artifact_id": "a1", "uri": "file://./artifacts/a1.bin", "mime_type": "image/png"}
    part = ArtifactPart.model_validate(flat)
    assert part.artifact == Artifact(artifact_id="a1", uri="file://./artifacts/a1.bin", mime_type="image/png")
    step = parse_step(json.dumps(STEP | {"parts": [{"type": "artifact"} | flat]}))
    assert step.parts == (part,)
    assert (part.artifact_id, part.uri, part.mime_type) == tuple(flat.values())
