"""A model that is imported when it is first called."""

import importlib
from functools import cached_property

from roboco.ports import Model, ModelStream, Request, Say


class ModelAtFirstUse:
    """Calls models over the openai package, which is half of what Roboco imports: whoever submits tasks needs none."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed

    def stream(self, request: Request, say: Say | None = None) -> ModelStream:
        """Begin the call."""
        return self._model.stream(request, say)

    @cached_property
    def _model(self) -> Model:
        model: Model = importlib.import_module("roboco.adapters.model.openai_model").OpenAIModel(self._allowed)
        return model
