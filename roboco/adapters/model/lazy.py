"""A model client that is imported at its first call."""

import importlib

from roboco.adapters.per_process import PerProcess
from roboco.ports import Model, ModelStream, Request, Say


class ModelAtFirstUse:
    """Calls models with the openai package, which takes half of Roboco's import time: clients never load it."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._model = PerProcess(lambda: _imported(allowed))

    def stream(self, request: Request, say: Say | None = None) -> ModelStream:
        """Start the call."""
        return self._model().stream(request, say)


def _imported(allowed: tuple[str, ...]) -> Model:
    model: Model = importlib.import_module("roboco.adapters.model.openai_model").OpenAIModel(allowed)
    return model
