"""Records as the documents on Roboco's objects write them: what they lack, and what their digest covers."""

import json

import pytest

from roboco.domain.history.part import Artifact
from roboco.domain.history.step import parse_step, verify_chain
from roboco.domain.stream.event import parse_stream_message
from roboco.errors import CorruptHistory

NOW = "2026-01-02T03:04:05Z"
STEP = {"step_id": "step_1", "agent_name": "writer", "parts": [{"type": "text", "text": "hello"}], "created_at": NOW}


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
