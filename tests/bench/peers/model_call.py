"""One agent's call of the model by the openai package, token by token; address and key are of the environment."""

from collections.abc import AsyncIterator, Iterator, Sequence

from openai import AsyncOpenAI, OpenAI

from tests.bench.peers.errand import arguments


def stream_tokens(client: OpenAI, prompt: str, texts: Sequence[str]) -> Iterator[str]:
    """What the agent says, after the texts of those before it."""
    with client.chat.completions.create(**arguments(prompt, texts)) as chunks:
        for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                yield text


async def astream_tokens(client: AsyncOpenAI, prompt: str, texts: Sequence[str]) -> AsyncIterator[str]:
    """The same in an event loop."""
    async with await client.chat.completions.create(**arguments(prompt, texts)) as chunks:
        async for chunk in chunks:
            if chunk.choices and (text := chunk.choices[0].delta.content):
                yield text
