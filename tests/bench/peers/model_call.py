"""An agent's call of the model with the openai package, token by token; address and key are in the environment."""

from collections.abc import AsyncIterator, Iterator, Sequence

from openai import AsyncOpenAI, OpenAI

from tests.bench.peers.errand import arguments


def stream_tokens(client: OpenAI, prompt: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield the tokens of the agent, after the texts of the earlier agents."""
    with client.chat.completions.create(**arguments(prompt, texts)) as chunks:
        for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                yield text


async def astream_tokens(client: AsyncOpenAI, prompt: str, texts: Sequence[str]) -> AsyncIterator[str]:
    """Yield the same tokens in an event loop."""
    async with await client.chat.completions.create(**arguments(prompt, texts)) as chunks:
        async for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                yield text
