"""The errand, the workload of all peers: its three agents, and the model request of each agent. Pure."""

from collections.abc import Sequence
from typing import Any

AGENTS = ("researcher", "writer", "reviewer")
USER_PROMPT = "Go."
"""The text of the user's message."""


def messages(prompt: str, texts: Sequence[str]) -> list[Any]:
    """Return the messages of an agent with this prompt, after the texts of the earlier agents."""
    earlier = [{"role": "user", "content": text} for text in (USER_PROMPT, *texts)]
    return [{"role": "system", "content": prompt}, *earlier]


def arguments(prompt: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the arguments with which every peer calls the openai package."""
    usage = {"include_usage": True}
    return {"model": "gpt-4o-mini", "messages": messages(prompt, texts), "stream": True, "stream_options": usage}
