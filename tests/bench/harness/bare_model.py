"""The bare model call: the same completion without Roboco, by a plain reader or by the openai package."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import httpx
from openai import AsyncOpenAI, OpenAI

MODEL = "gpt-4o-mini"


class BareModel:
    """A client that calls the model from this thread over one persistent connection."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
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

    def time_call(self, messages: Sequence[Any]) -> tuple[float, float]:
        """Return the seconds from the call by the openai package to the first text, and to the end of the answer."""
        began = time.perf_counter()
        first = 0.0
        with self._client.chat.completions.create(**request_arguments(messages)) as chunks:
            for chunk in chunks:
                if not first and chunk.choices and chunk.choices[0].delta.content:
                    first = time.perf_counter() - began
        return first, time.perf_counter() - began

    def time_streams(self, prompt: str, streams: int, spread: float) -> list[list[float]]:
        """Return the seconds from sending to receiving each stamped chunk, by stream.

        All streams begin within `spread` seconds.
        """
        return asyncio.run(self._time_streams(prompt, streams, spread))

    async def _time_streams(self, prompt: str, streams: int, spread: float) -> list[list[float]]:
        async with AsyncOpenAI(base_url=self._base_url, api_key="any", max_retries=0) as client:
            calls = [_follow(client, prompt, spread * number / streams) for number in range(streams)]
            return await asyncio.gather(*calls)


async def _follow(client: AsyncOpenAI, prompt: str, delay: float) -> list[float]:
    await asyncio.sleep(delay)
    found: list[float] = []
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": "Go."}]
    async with await client.chat.completions.create(**request_arguments(messages)) as chunks:
        async for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                found += lags(text, time.time_ns())
    return found


def lags(text: str, now: int) -> list[float]:
    """Return the seconds since each of the timestamps in the text."""
    return [(now - int(stamp)) / 1e9 for stamp in text.split()]


def request_arguments(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of each completion request that is made without Roboco."""
    usage = {"include_usage": True}
    return {"model": MODEL, "messages": list(messages), "stream": True, "stream_options": usage}
