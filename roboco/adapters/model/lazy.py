"""A model that is imported when it is first called."""

import importlib

from roboco.adapters.per_process import PerProcess
from roboco.ports import Model, ModelStream, Request, Say


class ModelAtFirstUse:
    """Calls models over the openai package, which is half of what Roboco imports: whoever submits tasks needs none."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._model = PerProcess(lambda: _imported(allowed))

    def stream(self, request: Request, say: Say | None = None) -> ModelStream:
        """Begin the call."""
        return self._model().stream(request, say)


def _imported(allowed: tuple[str, ...]) -> Model:
    model: Model = importlib.import_module("roboco.adapters.model.openai_model").OpenAIModel(allowed)
    return model
