"""Files in messages: those that the model accepts are parts, the others are named."""

from typing import Any

import pytest

from roboco.domain.history.part import Artifact, ArtifactPart
from roboco.domain.prompt.chat import attached_part, attached_tokens, data_of, file_mime_type, kind_of, messages_of
from roboco.domain.team.model_profile import FileKind, ModelProfile
from roboco.domain.tokens import IMAGE_TOKENS
from tests.unit.domain.steps import steps_of

FILES = [
    ("a.png", "image/png", 100),
    ("b.pdf", "application/pdf", 400_000),
    ("c.mp3", "audio/mpeg", 50_000),
    ("d.zip", "application/zip", 9),
]
ARTIFACTS = [Artifact(uri=f"file://artifacts/{name}", mime_type=kind, size=size) for name, kind, size in FILES]


def message(*accepted: FileKind) -> dict[str, Any]:
    """Return the message of a user with these files, for a model that accepts these kinds."""
    content = [{"type": "text", "text": "See."}, *(ArtifactPart(artifact=one).model_dump() for one in ARTIFACTS)]
    [found] = messages_of("one", tuple(steps_of(("user", content))), frozenset(accepted))
    return found


def test_files_that_a_model_does_not_accept_are_named() -> None:
    text = message()["content"]
    assert isinstance(text, str)
    assert [line for line in text.splitlines() if line.startswith("(not shown")] == [
        f"(not shown: file://artifacts/{name}, since your model accepts no {kind})"
        for name, kind in (("a.png", "image"), ("b.pdf", "pdf"), ("c.mp3", "audio"))
    ]


def test_files_that_a_model_accepts_are_parts_by_their_uris() -> None:
    text, image, document, sound = message("image", "pdf", "audio")["content"]
    assert "not shown" not in text["text"]
    assert image["image_url"] == {"url": "file://artifacts/a.png"}
    assert document["file"] == {"filename": "b.pdf", "file_data": "file://artifacts/b.pdf"}
    assert sound["input_audio"] == {"data": "file://artifacts/c.mp3", "format": "mp3"}
    assert [data_of(part) for part in (text, image)] == [None, "file://artifacts/a.png"]


def test_tokens_of_a_file_follow_from_its_size() -> None:
    assert [attached_tokens(attached_part(one)) for one in ARTIFACTS[:3]] == [IMAGE_TOKENS, 10_000, 100]
    assert attached_tokens({"type": "text", "text": "x"}) == 0


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"RIFF....WEBP", "image/webp"),
        (b"RIFF....WAVE", "audio/wav"),
        (b"ID3\4", "audio/mpeg"),
        (b"", None),
    ],
)
def test_the_bytes_decide_the_type(data: bytes, found: str | None) -> None:
    assert file_mime_type(data) == found
    assert found is None or kind_of(Artifact(uri="file://artifacts/x", mime_type=found)) is not None


def test_the_earlier_form_of_a_profile_is_read() -> None:
    assert ModelProfile(model="m", images=True).accepted == {"image"}
    assert ModelProfile(model="m", images=True, accepts=("pdf",)).accepted == {"image", "pdf"}


@pytest.mark.parametrize(("provider", "kind"), [("anthropic", "audio"), ("groq", "pdf"), ("mistral", "audio")])
def test_a_kind_that_the_protocol_lacks_is_refused(provider: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match=f"provider '{provider}' takes no {kind}"):
        ModelProfile(model="m", provider=provider, accepts=(kind,))
