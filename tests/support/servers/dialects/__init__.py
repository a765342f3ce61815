"""Dialects of the scripted model server: what each provider refuses, and how it answers. A test names one.

`openai.py` is the default. Start with `compatible.py` for a further provider, and name it here.
"""

from collections.abc import Callable, Mapping

from roboco.lab.servers.chat_protocol import ChatRequest
from roboco.lab.servers.dialect import Dialect
from tests.support.servers.dialects import chat_rules
from tests.support.servers.dialects.azure import Azure
from tests.support.servers.dialects.deepseek import DeepSeek, Kimi
from tests.support.servers.dialects.gemini import Gemini
from tests.support.servers.dialects.groq import Groq
from tests.support.servers.dialects.local import VLLM, LMStudio, NoStreamOptions, Ollama
from tests.support.servers.dialects.mistral import Mistral
from tests.support.servers.dialects.openai import OpenAIDialect
from tests.support.servers.dialects.openrouter import OpenRouter


class Lenient(Dialect):
    """Refuses what no provider accepts, and needs no key."""

    def check(self, request: ChatRequest) -> None:
        chat_rules.check(request.body)


DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "openai": OpenAIDialect,
    "azure": Azure,
    "deepseek": DeepSeek,
    "gemini": Gemini,
    "groq": Groq,
    "kimi": Kimi,
    "lmstudio": LMStudio,
    "mistral": Mistral,
    "no_stream_options": NoStreamOptions,
    "ollama": Ollama,
    "openrouter": OpenRouter,
    "vllm": VLLM,
    "lenient": Lenient,
}
"""`lenient` is for benchmarks."""
