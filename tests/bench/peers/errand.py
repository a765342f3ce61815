"""The errand of all peers: what its three agents are told, and what each of them says to the model. Pure."""

from collections.abc import Sequence
from typing import Any

AGENTS = ("researcher", "writer", "reviewer")
USER_PROMPT = "Go."
"""What the user says."""


def messages(prompt: str, texts: Sequence[str]) -> list[Any]:
    """The model's input for an agent with this prompt, after the texts of those before it."""
    said = [{"role": "user", "content": text} for text in (USER_PROMPT, *texts)]
    return [{"role": "system", "content": prompt}, *said]


def arguments(prompt: str, texts: Sequence[str]) -> dict[str, Any]:
    """What the openai package is called with, whoever calls it."""
    usage = {"include_usage": True}
    return {"model": "gpt-4o-mini", "messages": messages(prompt, texts), "stream": True, "stream_options": usage}
