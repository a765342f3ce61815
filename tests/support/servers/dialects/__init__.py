"""Dialects of the scripted model server: what each provider refuses, and how it answers. A test names one.

`openai.py` is the default. Start with `compatible.py` for a further provider, and name it here.
"""

from collections.abc import Callable, Mapping

from roboco.lab.servers.dialect import Dialect
from tests.support.servers.dialects.azure import Azure
from tests.support.servers.dialects.deepseek import DeepSeek, Kimi
from tests.support.servers.dialects.gemini import Gemini
from tests.support.servers.dialects.groq import Groq
from tests.support.servers.dialects.local import LMStudio, LocalDialect, NoStreamOptions, Ollama
from tests.support.servers.dialects.mistral import Mistral
from tests.support.servers.dialects.openai import OpenAIDialect
from tests.support.servers.dialects.openrouter import OpenRouter

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
    "vllm": LocalDialect,
    "lenient": Dialect,
}
"""`lenient` is for benchmarks."""
