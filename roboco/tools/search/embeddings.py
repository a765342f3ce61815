"""OpenAIEmbedder: vectors from any server that implements OpenAI's embeddings protocol."""

import json
import logging
import os
import time
from collections.abc import Sequence

import httpx2

from roboco.errors import TransientError
from roboco.http.http_exchange import exchange
from roboco.model.allowlist import DEFAULT_BASE_URL, account_headers
from roboco.tools.search.vector import Vector, unit_vector

_log = logging.getLogger(__name__)

SEARCH_TIMEOUT = 5.0
"""Seconds for the requests of one batch."""
RETRY_DELAY = 30.0
"""Seconds for which no request is sent to an endpoint that failed, so that not every search waits for it."""
_REFUSALS = frozenset({400, 413, 422, 500})
"""Statuses with which servers refuse a text: too long, or of characters that they do not know."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of an answer. The largest vectors of today take 4 MB for a batch."""


class _RefusedError(TransientError):
    """The server answered, and refused the texts or one of them."""


class OpenAIEmbedder:
    """Requests vectors from the endpoint. The key is read from an environment variable and never appears in errors."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key_env: str = "OPENAI_API_KEY",
        timeout: float = SEARCH_TIMEOUT,
        retry_delay: float = RETRY_DELAY,
    ) -> None:
        self._model = model
        self._base_url = base_url
        self._key_env = key_env
        self._timeout = timeout
        self._retry_delay = retry_delay
        self._retry_at = 0.0

    @property
    def model(self) -> str:
        """Return the name of the model and its endpoint, which identify compatible vectors."""
        return f"{self._model} at {self._base_url or os.environ.get('OPENAI_BASE_URL') or 'the default endpoint'}"

    @property
    def _server(self) -> str:
        return self._base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL

    def query(self, text: str) -> "Vector | None":
        """Return the vector of a query, as of any text."""
        return self.vectors([text])[0]

    def vectors(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return a vector of length 1 for each text, None for one that the server refuses while it accepts another.

        Raise TransientError if the endpoint fails, is slow, or failed less than `retry_delay` seconds ago.
        """
        if time.monotonic() < self._retry_at:
            raise TransientError(f"embeddings model {self._model!r} failed less than {self._retry_delay:g} s ago")
        try:
            return self._accepted(texts, time.monotonic() + self._timeout)
        except TransientError:
            self._retry_at = time.monotonic() + self._retry_delay
            raise

    def _accepted(self, texts: Sequence[str], until: float) -> "list[Vector | None]":
        """Halve a batch that the server refuses, so that one text does not keep the others from their vectors."""
        try:
            return [*self._request(texts, until)]
        except _RefusedError as error:
            if len(texts) == 1:
                self._request(["ok"], until)  # raises if the server refuses any text
                _log.warning("a passage has no vector: %s", error)
                return [None]
        half = len(texts) // 2
        return self._accepted(texts[:half], until) + self._accepted(texts[half:], until)

    def _request(self, texts: Sequence[str], until: float) -> list[Vector]:
        left = until - time.monotonic()
        if left <= 0:
            raise TransientError(f"embeddings model {self._model!r} did not answer within {self._timeout:g} s")
        key = os.environ.get(self._key_env, "")
        if not (key.isascii() and key.isprintable()):
            raise TransientError(f"the key in {self._key_env} is not valid in an HTTP header; set it again")
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        if self._server == DEFAULT_BASE_URL:
            headers |= account_headers()
        body = json.dumps({"model": self._model, "input": list(texts), "encoding_format": "float"}).encode()
        try:
            answer = exchange("POST", f"{self._server.rstrip('/')}/embeddings", headers, left, MAX_BYTES, body)
            if answer.status != 200:
                kind = _RefusedError if answer.status in _REFUSALS else TransientError
                raise kind(f"embeddings model {self._model!r} refused: status {answer.status}")
            placed = {item["index"]: unit_vector(item["embedding"]) for item in json.loads(answer.body)["data"]}
            return [placed[index] for index in range(len(texts))]
        except TimeoutError as error:
            raise TransientError(
                f"embeddings model {self._model!r} did not answer within {self._timeout:g} s"
            ) from error
        except httpx2.HTTPError as error:
            raise TransientError(f"embeddings model {self._model!r} failed: {type(error).__name__}") from error
        except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise _RefusedError(f"embeddings model {self._model!r} sent no vector for each text") from error
