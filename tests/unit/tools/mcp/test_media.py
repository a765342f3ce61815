"""Media: files in the results of MCP servers' tools become artifacts, and no base64 reaches a model."""

import base64
import json
from typing import Any

import pytest

from roboco.domain.history.part import (
    MAX_MEDIA_FILES,
    ArtifactPart,
    ToolCall,
    ToolCallPart,
    ToolOutcome,
    ToolResult,
    ToolResultPart,
)
from roboco.domain.prompt.chat import messages_of
from roboco.domain.team.model_profile import FileKind
from roboco.tools.mcp.result import result_of
from roboco.workspace.artifacts.store import list_artifacts, read_artifact
from roboco.workspace.artifacts.tool_files import remove_media, store_media
from tests.support.mcp_server_stdio import PIXEL
from tests.support.memory_ports.workspace import MemoryFiles
from tests.unit.domain.steps import TASK, steps_of


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: bytes = PIXEL, mime_type: str = "image/png") -> dict[str, Any]:
    """Return a part as a server sends it."""
    return {"type": "image", "mimeType": mime_type, "data": base64_of(data)}


def file(data: bytes, mime_type: str | None, kind: str = "resource") -> dict[str, Any]:
    """Return a part with a file as a server sends it."""
    if kind == "audio":
        return {"type": kind, "mimeType": mime_type, "data": base64_of(data)}
    return {"type": kind, "resource": {"uri": "shop://menu", "mimeType": mime_type, "blob": base64_of(data)}}


def outcome_of(*parts: dict[str, Any]) -> ToolOutcome:
    """Return the outcome of a call with these parts as its result."""
    result, media = result_of({"content": list(parts)})
    return ToolOutcome(result=ToolResult(tool_call_id="tc_1", result=result), media=media)


def store_parts(files: MemoryFiles, *parts: dict[str, Any]) -> ToolOutcome:
    return store_media(files, TASK, "step", outcome_of(*parts))


def test_image_becomes_an_artifact_that_the_result_names() -> None:
    files = MemoryFiles()
    outcome = store_parts(files, {"type": "text", "text": "a dot"}, image())
    (artifact,) = outcome.artifacts
    assert (artifact.mime_type, artifact.size, artifact.step_id) == ("image/png", len(PIXEL), "step")
    assert read_artifact(files, TASK, artifact.uri) == PIXEL
    described = {"type": "image", "mime_type": "image/png", "artifact": artifact.uri, "size": len(PIXEL)}
    assert outcome.result.result == [{"type": "text", "text": "a dot"}, described]
    assert (outcome.media, base64_of(PIXEL) in outcome.model_dump_json()) == ((), False)


@pytest.mark.parametrize(
    ("part", "mime_type", "name"),
    [
        (image(b"GIF89a\1\0\1\0\0\0\0;", "image/png"), "image/gif", "image-*.gif"),
        (image(b"<svg/>", "image/svg+xml"), "image/svg+xml", "image-*.txt"),
        (image(b"\0\1\2"), "application/octet-stream", "image-*"),
        (file(b"ID3\3\0\0\0\0\0\0", None, "audio"), "audio/mpeg", "audio-*.mp3"),
        (file(b"a,b\n", None), "text/plain", "file-*.txt"),
        (image(b"text", "text/plain\r\nX-Header: 1"), "text/plain", "image-*.txt"),
    ],
)
def test_the_media_type_is_detected_from_the_bytes(part: dict[str, Any], mime_type: str, name: str) -> None:
    (artifact,) = store_parts(MemoryFiles(), part).artifacts
    before, _, ending = name.partition("*")
    assert artifact.mime_type == mime_type
    assert artifact.name.startswith(before)
    assert artifact.name[len(before) + 32 :] == ending


def test_unreadable_data_is_left_out_with_the_reason() -> None:
    files = MemoryFiles()
    parts = [
        image() | {"data": "no base64!"},
        image(b""),
        *[image(b"%d" % number) for number in range(MAX_MEDIA_FILES + 1)],
    ]
    outcome = store_parts(files, *parts)
    left_out = [one.get("left_out") for one in outcome.result.result]
    assert left_out[:2] == ["its data is not base64", "its data is empty"]
    assert left_out[2:] == [None] * MAX_MEDIA_FILES + [f"a result keeps at most {MAX_MEDIA_FILES} files"]
    assert "data" not in json.dumps(outcome.result.result).replace("its data", "")
    assert len(outcome.artifacts) == MAX_MEDIA_FILES


def test_structured_content_does_not_repeat_the_data() -> None:
    structured = {"result": [{"data": base64_of(PIXEL), "width": 1}]}
    result, _ = result_of({"structuredContent": structured, "content": [image()]})
    assert result[0]["value"] == {"result": [{"data": "(the data of part 2 of this result)", "width": 1}]}


NO_CONTENT = "(the tool returned no content)"
NOT_JSON = "(left out: the structured content is no JSON: Out of range float values are not JSON compliant)"
RESULTS: list[tuple[dict[str, Any], Any]] = [
    (
        {"content": [{"type": "text", "text": "line 4"}], "structuredContent": {"count": 3}},
        [{"type": "structured", "value": {"count": 3}}, {"type": "text", "text": "line 4"}],
    ),
    ({"content": [{"type": "text", "text": '{"count": 3}'}], "structuredContent": {"count": 3}}, {"count": 3}),
    ({"structuredContent": {"count": 3}}, {"count": 3}),
    ({"content": [], "structuredContent": [1, 2]}, [1, 2]),
    ({"content": None}, NO_CONTENT),
    ({"content": []}, NO_CONTENT),
    ({}, NO_CONTENT),
    ({"content": "plain"}, "plain"),
    ({"toolResult": 5}, {"toolResult": 5}),
    ({"structuredContent": {"value": float("nan")}}, NOT_JSON),
    ({"content": [{"type": "text", "text": {"a": 1}}]}, '{"a":1}'),
    ({"content": [{"type": "markdown", "text": "a"}]}, "a"),
    ({"content": [{"type": "resource", "resource": {"uri": "a://b"}}]}, [{"type": "resource", "uri": "a://b"}]),
    ({"content": [{"type": "image", "data": "__79-_8"}]}, [{"type": "image"}]),
    (
        {"content": [{"type": "text", "text": "a"}, {"type": "widget", "x": 1}, None, "c"]},
        [
            {"type": "text", "text": "a"},
            {
                "type": "left_out",
                "reason": "a part of type 'widget', which is unknown or lacks its content",
                "json": '{"type":"widget","x":1}',
            },
            {"type": "left_out", "reason": "a part without a type", "json": "null"},
            {"type": "text", "text": "c"},
        ],
    ),
    (
        {"content": [{"type": "resource_link", "uri": "a://b", "name": "n", "title": "T", "description": "D"}]},
        [{"type": "resource_link", "uri": "a://b", "name": "n", "title": "T", "description": "D"}],
    ),
    (
        {"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "hello"}}]},
        [{"type": "resource", "uri": "a://b", "text": "hello"}],
    ),
]


def test_a_result_is_read_part_by_part() -> None:
    assert [(raw, found) for raw, expected in RESULTS if (found := result_of(raw)[0]) != expected] == []


@pytest.mark.parametrize("value", ["text", [{"type": "../../x", "data": "aGk=", "mime_type": 5}], [image()]])
def test_structured_content_is_not_read_as_a_list_of_parts(value: Any) -> None:
    assert result_of({"content": [], "structuredContent": value}) == (value, ())
    parts, media = result_of({"content": [image(b"another")], "structuredContent": value})
    assert (parts[0], len(media)) == ({"type": "structured", "value": value}, 1)


def test_media_that_cannot_be_stored_are_left_out() -> None:
    dropped = remove_media(outcome_of({"type": "text", "text": "a dot"}, image()))
    assert dropped.result.result[1] == {"type": "image", "mime_type": "image/png", "left_out": "it could not be stored"}
    assert dropped.media == ()
    assert remove_media(dropped) == dropped


@pytest.mark.parametrize("accepted", [frozenset({"image"}), frozenset({"pdf", "audio"})])
def test_only_models_that_accept_images_receive_them(accepted: frozenset[FileKind]) -> None:
    outcome = store_parts(MemoryFiles(), image())
    (artifact,) = outcome.artifacts
    call = ToolCall(id="tc_1", tool_name="shop_photo", args={})
    parts = [ToolResultPart(tool_result=outcome.result), ArtifactPart(artifact=artifact)]
    calls = [ToolCallPart(tool_call=call).model_dump()]
    group = steps_of(("one", calls), ("tool_executor", [part.model_dump() for part in parts]))
    result, files = messages_of("one", tuple(group), accepted)[1:]
    assert f"(stored as {artifact.uri})" in result["content"]
    if "image" in accepted:
        assert [part["image_url"]["url"] for part in files["content"][1:]] == [artifact.uri]
    else:
        assert files["content"].endswith(f"\n(not shown: {artifact.uri}, since your model accepts no image)")


def test_the_same_bytes_are_stored_as_one_artifact() -> None:
    files = MemoryFiles()
    first, again = (
        store_parts(files, image(), image()),
        store_parts(files, {"type": "text", "text": "once more"}, image()),
    )
    assert first.artifacts == again.artifacts
    assert [one["artifact"] for one in first.result.result] == [first.artifacts[0].uri] * 2
    assert len(list_artifacts(files, TASK)) == 1
