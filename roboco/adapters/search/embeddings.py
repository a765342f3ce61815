"""OpenAIEmbedder: vectors from any server that implements OpenAI's embeddings protocol."""

import os
import threading
import time
from collections.abc import Sequence

import openai
from openai import OpenAI

from roboco.adapters.search.vector import Vector, unit_vector
from roboco.errors import TransientError

SEARCH_TIMEOUT = 5.0
"""Seconds for all requests of one search."""
RETRY_DELAY = 30.0
"""Seconds for which no request is sent to an endpoint that failed, so that not every search waits for it."""
BATCH_SIZE = 48
"""Maximum number of texts in one request."""


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
        self._lock = threading.Lock()
        self._client: tuple[int, str, OpenAI] | None = None

    @property
    def model(self) -> str:
        """Return the name of the model and its endpoint, which identify compatible vectors."""
        return f"{self._model} at {self._base_url or os.environ.get('OPENAI_BASE_URL') or 'the default endpoint'}"

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector of length 1 for each text.

        Raise TransientError if the endpoint fails, is slow, or failed less than `retry_delay` seconds ago.
        """
        if time.monotonic() < self._retry_at:
            raise TransientError(f"embeddings model {self._model!r} failed less than {self._retry_delay:g} s ago")
        until = time.monotonic() + self._timeout
        try:
            batches = [texts[place : place + BATCH_SIZE] for place in range(0, len(texts), BATCH_SIZE)]
            return [vector for batch in batches for vector in self._request_batch(batch, until)]
        except TransientError:
            self._retry_at = time.monotonic() + self._retry_delay
            raise

    def _request_batch(self, texts: Sequence[str], until: float) -> list[Vector]:
        left = until - time.monotonic()
        if left <= 0:
            raise TransientError(f"embeddings model {self._model!r} did not answer within {self._timeout:g} s")
        try:
            answer = self._connected_client().embeddings.create(
                model=self._model, input=list(texts), encoding_format="float", timeout=left
            )
            placed = {item.index: unit_vector(item.embedding) for item in answer.data}
            return [placed[index] for index in range(len(texts))]
        except openai.APITimeoutError as error:
            raise TransientError(
                f"embeddings model {self._model!r} did not answer within {self._timeout:g} s"
            ) from error
        except openai.APIStatusError as error:
            raise TransientError(f"embeddings model {self._model!r} refused: status {error.status_code}") from error
        except openai.OpenAIError as error:
            raise TransientError(f"embeddings model {self._model!r} failed: {type(error).__name__}") from error
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise TransientError(f"embeddings model {self._model!r} sent no vector for each text") from error

    def _connected_client(self) -> OpenAI:
        """Return this process's client. A self-hosted server may need no key."""
        key = os.environ.get(self._key_env, "")
        if not (key.isascii() and key.isprintable()):
            raise TransientError(f"the key in {self._key_env} is not valid in an HTTP header; set it again")
        with self._lock:
            if self._client is None or self._client[:2] != (os.getpid(), key):
                client = OpenAI(api_key=key or "none", base_url=self._base_url, max_retries=0)
                self._client = (os.getpid(), key, client)
            return self._client[2]
