"""The bare model call: the same completion without Roboco, by a plain reader or by the openai package."""

import json
import time
from collections.abc import Sequence
from typing import Any

import httpx
from openai import OpenAI

MODEL = "gpt-4o-mini"


class BareModel:
    """A client that calls the model from this thread over one persistent connection."""

    def __init__(self, base_url: str) -> None:
        self._client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
        self._plain = httpx.Client(base_url=base_url, headers={"Authorization": "Bearer any"})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._plain.close()

    def time_plain_call(self, messages: Sequence[Any]) -> float:
        """Return the seconds of a call by the least that reads a stream: httpx, lines and JSON."""
        began, texts = time.perf_counter(), list[str]()
        with self._plain.stream("POST", "/chat/completions", json=request_arguments(messages)) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    texts += [choice["delta"].get("content") or "" for choice in json.loads(line[6:])["choices"]]
        assert any(texts), "the model has sent no text"
        return time.perf_counter() - began

    def time_call(self, messages: Sequence[Any]) -> float:
        """Return the seconds of a call by the openai package."""
        began = time.perf_counter()
        with self._client.chat.completions.create(**request_arguments(messages)) as chunks:
            texts = [choice.delta.content for chunk in chunks for choice in chunk.choices]
        assert any(texts), "the model has sent no text"
        return time.perf_counter() - began


def request_arguments(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of each completion request that is made without Roboco."""
    usage = {"include_usage": True}
    return {"model": MODEL, "messages": list(messages), "stream": True, "stream_options": usage}
