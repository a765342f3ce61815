"""OpenAIEmbedder: search by meaning_counts and words with an embeddings server, and by words alone without one."""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from roboco.errors import TransientError
from roboco.tools.search import memory_index, sqlite_index
from roboco.tools.search.bundled_model import BundledModel
from roboco.tools.search.embeddings import OpenAIEmbedder
from roboco.tools.search.memory_index import BATCH_SIZE, Embedder, MemoryIndex
from roboco.tools.search.passage import Passage
from roboco.tools.search.result import SearchResult
from roboco.tools.search.sqlite_index import SqliteIndex
from roboco.tools.search.vector import unit_vector
from tests.support.memory_ports.workspace import MemoryHistories
from tests.support.servers.web import send_json, serving
from tests.unit.domain.steps import steps_of

TASK, SECRET = "t1", "sk-very-secret"
MEANINGS = ("sea", "money", "other")
MEANING_OF = {"ocean": "sea", "waves": "sea", "sailing": "sea", "invoice": "money", "payment": "money"}
TEXTS = ("Ocean waves at dawn", "The invoice of May", "Lunch was fine", "A payment for the ocean liner")


def meaning_counts(text: str) -> list[float]:
    """Return how often the text contains each of the meanings."""
    meanings = [MEANING_OF.get(word, "other") for word in text.lower().split()]
    return [float(meanings.count(one)) for one in MEANINGS]


class EmbeddingsServer:
    """A server of embeddings; `answer` returns the status and body for the texts of a request."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: Callable[[list[str]], tuple[int, Any]] = embeddings_of

    def serve(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer a request."""
        self.requests.append({"path": handler.path, **json.loads(body)})
        self.keys.append(handler.headers["authorization"])
        status, answer = self.answer(self.requests[-1]["input"])
        send_json(handler, answer, status)


def embeddings_of(texts: list[str]) -> tuple[int, Any]:
    """Return a proper answer whose vectors are out of order."""
    data = [
        {"object": "embedding", "index": index, "embedding": meaning_counts(text)} for index, text in enumerate(texts)
    ]
    return 200, {"object": "list", "model": "m", "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingsServer]:
    monkeypatch.setenv("EMBEDDINGS_KEY", SECRET)
    server = EmbeddingsServer()
    with serving(server.serve) as address:
        server.url = f"{address}/v1"
        yield server


def embedder_of(endpoint: EmbeddingsServer, **options: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder("m", endpoint.url, "EMBEDDINGS_KEY", **options)


def index_of(folder: Path, rank: Embedder | None, *lines: str) -> MemoryIndex:
    histories = MemoryHistories()
    for step in steps_of(*(("one", line) for line in lines or TEXTS)):
        histories.append(TASK, step)
    return MemoryIndex(histories, lambda *_: None, folder, rank)


def seqs(found: SearchResult) -> list[int]:
    return [hit.seq for hit in found.hits]


def test_a_query_without_common_words_finds_a_text_of_the_same_meaning(
    endpoint: EmbeddingsServer, tmp_path: Path
) -> None:
    assert seqs(index_of(tmp_path, None).search(TASK, "sailing", 2)) == []
    found = index_of(tmp_path, embedder_of(endpoint)).search(TASK, "sailing", 2)
    assert (seqs(found)[0], found.note) == (0, "")
    assert endpoint.requests[0]["path"] == "/v1/embeddings"
    assert endpoint.requests[0]["model"] == "m"
    assert set(endpoint.keys) == {f"Bearer {SECRET}"}


def test_a_vector_is_requested_once(endpoint: EmbeddingsServer, tmp_path: Path) -> None:
    index_of(tmp_path, embedder_of(endpoint)).search(TASK, "sailing", 2)
    index_of(tmp_path, embedder_of(endpoint), *TEXTS, "one more").search(TASK, "waves", 2)
    assert [len(request["input"]) for request in endpoint.requests] == [1, len(TEXTS), 1, 1]
    other = OpenAIEmbedder("other", endpoint.url, "EMBEDDINGS_KEY")
    index_of(tmp_path, other, *TEXTS, "one more").search(TASK, "waves", 2)
    assert len(endpoint.requests[-1]["input"]) == len(TEXTS) + 1


@pytest.mark.parametrize(
    ("answer", "reasons"),
    [
        (lambda _: (401, {"error": {"message": f"bad key {SECRET}"}}), "refused: status 401"),
        (lambda _: (200, {"object": "list", "data": []}), "sent no vector for each text|failed"),
        (lambda _: (200, {"data": [{"index": 0, "embedding": ["x"]}]}), "sent no vector for each text"),
        (
            lambda texts: (200, {"data": [{"index": i, "embedding": [0.0]} for i in range(len(texts))]}),
            "sent no vector",
        ),
    ],
)
def test_hits_are_ranked_by_words_if_the_server_fails(
    endpoint: EmbeddingsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Any, reasons: str
) -> None:
    endpoint.answer = answer
    caplog.set_level(logging.DEBUG)
    found = index_of(tmp_path, embedder_of(endpoint)).search(TASK, "ocean payment", 4)
    assert seqs(found) == seqs(index_of(tmp_path / "words", None).search(TASK, "ocean payment", 4)) != []
    assert found.note.startswith("ranked by words alone: embeddings model 'm' ")
    assert any(part in found.note for part in reasons.split("|"))
    assert SECRET not in found.note + caplog.text


def test_a_text_that_the_server_refuses_keeps_no_other_from_its_vector(
    endpoint: EmbeddingsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_index, "EMBEDDING_SECONDS", 60.0)
    endpoint.answer = lambda texts: (400, {}) if any("poison" in text for text in texts) else embeddings_of(texts)
    index = index_of(
        tmp_path, embedder_of(endpoint, timeout=60.0), "Ocean waves", "poison", *["Lunch"] * 100, "The payment"
    )
    for query, seq in (("sailing", 0), ("invoice", 102), ("poison lunch", 1)):
        found = index.search(TASK, query, 1)
        assert (seqs(found), bool(found.note)) == ([seq], "poison" in query)
    assert "a passage has no vector: embeddings model 'm' refused: status 400" in caplog.text
    assert len(endpoint.requests) < 30


def test_a_search_does_not_wait_for_all_vectors(
    endpoint: EmbeddingsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_index, "EMBEDDING_SECONDS", 0.0)
    index = index_of(tmp_path, embedder_of(endpoint, retry_delay=0.0), *(f"ocean {number}" for number in range(100)))
    first = index.search(TASK, "ocean", 1)
    assert first.hits
    assert first.note == "passages without a vector were found by words alone: a later search has their vectors"
    for _ in range(1000):
        found = index.search(TASK, "sailing", 1)
        if not found.note:
            break
        threading.Event().wait(0.01)
    assert (found.note, len(found.hits)) == ("", 1)


def test_the_oldest_passages_of_a_very_long_history_have_no_vector(
    endpoint: EmbeddingsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_index, "MAX_VECTORS", 60)
    lines = [f"ocean {number}" for number in range(200)]
    index_of(tmp_path, embedder_of(endpoint), *lines).search(TASK, "sailing", 1)
    assert [text for request in endpoint.requests[1:] for text in request["input"]] == lines[-60:]
    more = [f"waves {number}" for number in range(100)]
    found = index_of(tmp_path, embedder_of(endpoint), *lines, *more).search(TASK, "sailing", 300)
    assert min(seqs(found)) >= 200


def test_a_late_vector_of_another_history_is_dropped() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        file = SqliteIndex(database)
        [old, new] = (steps_of(("one", text)) for text in ("old", "new"))
        for step in (old[0], new[0]):
            file.clear()
            file.add([Passage(step, "text", step.text)], (), step)
            file.without_vector("m 3", 1)
        file.add_vectors("m 3", [(1, "old")], b"late")
        assert file.vectors() == b""
        file.add_vectors("other 3", [(1, "new")], b"late")
        assert file.vectors() == b""
        file.add_vectors("m 3", [(1, "new")], b"right")
        file.add_vectors("m 3", [(1, "new")], b"twice")
        assert file.vectors() == b"right"


def test_the_model_of_the_extra_finds_the_same_meaning_in_other_languages(tmp_path: Path) -> None:
    lines = ("Die Katze schläft auf dem Sofa.", "The train to Madrid was late again.", "El banco rechazó el préstamo.")
    index = index_of(tmp_path, BundledModel(), *lines)
    for query, seq in (("Where is the pet resting?", 0), ("¿Por qué llegó tarde?", 1), ("Did they get the credit?", 2)):
        found = index.search(TASK, query, 1)
        assert (seqs(found), found.note) == ([seq], "")


def test_a_text_that_the_model_cannot_read_keeps_no_other_from_its_vector(caplog: pytest.LogCaptureFixture) -> None:
    found = BundledModel().vectors(["a cat", "\ud83d", "", "a dog", "\ufdfa" * 240])
    assert [one is None for one in found] == [False, True, False, False, False]
    assert "a passage has no vector: the model failed with UnicodeEncodeError" in caplog.text


def test_a_failed_server_is_not_asked_before_the_retry_delay(endpoint: EmbeddingsServer, tmp_path: Path) -> None:
    endpoint.answer = lambda _: (500, {})
    rank = embedder_of(endpoint)
    for _ in range(3):
        assert index_of(tmp_path, rank).search(TASK, "ocean", 4).note
    assert [request["input"] for request in endpoint.requests] == [["ocean"], ["ok"]]
    without_delay = embedder_of(endpoint, retry_delay=0.0)
    assert index_of(tmp_path, without_delay).search(TASK, "ocean", 4).note
    endpoint.answer = embeddings_of
    assert index_of(tmp_path, without_delay).search(TASK, "ocean", 4).note == ""


def test_the_error_for_an_unsendable_key_does_not_contain_it(
    endpoint: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDINGS_KEY", "schlüssel\n")
    with pytest.raises(TransientError, match="the key in EMBEDDINGS_KEY is not valid in an HTTP header"):
        embedder_of(endpoint).vectors(["x"])


def test_vectors_of_many_texts_are_requested_in_batches(endpoint: EmbeddingsServer, tmp_path: Path) -> None:
    lines = [f"ocean {number}" for number in range(100)]
    assert index_of(tmp_path, embedder_of(endpoint), *lines).search(TASK, "ocean", 5).hits
    assert max(len(request["input"]) for request in endpoint.requests) == BATCH_SIZE
    assert sum(len(request["input"]) for request in endpoint.requests) == 1 + len(lines)


def test_vectors_of_another_length_are_of_another_model(endpoint: EmbeddingsServer, tmp_path: Path) -> None:
    assert seqs(index_of(tmp_path, embedder_of(endpoint)).search(TASK, "sailing", 1)) == [0]
    endpoint.answer = lambda texts: (
        200,
        {"data": [{"index": at, "embedding": [*meaning_counts(text), 0.5]} for at, text in enumerate(texts)]},
    )
    found = index_of(tmp_path, embedder_of(endpoint)).search(TASK, "sailing", 1)
    assert (seqs(found), found.note) == ([0], "")
    assert [len(request["input"]) for request in endpoint.requests] == [1, len(TEXTS)] * 2


def test_a_vector_without_a_direction_is_refused() -> None:
    assert list(unit_vector([0.0, 3.0, 4.0])) == pytest.approx([0.0, 0.6, 0.8])
    for numbers in ([], [0.0], [float("nan")], [float("inf")]):
        with pytest.raises(ValueError, match="without a direction"):
            unit_vector(numbers)
