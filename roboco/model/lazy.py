"""A model client that is imported at its first call."""

import importlib

from roboco.ports.model import CallModel, Listener, ModelStream, Request
from roboco.process.credentials import Credentials
from roboco.process.per_process import PerProcess

_MODULE = "roboco.model.openai_model"


class LazyModel:
    """Calls models with packages that clients need not have, and never load."""

    def __init__(self, allowed: tuple[str, ...], credentials: Credentials) -> None:
        self._call_model = PerProcess(lambda: _import_model(allowed, credentials))

    def stream(self, request: Request, listener: Listener | None) -> ModelStream:
        """Start the call."""
        return self._call_model()(request, listener)


def preload_model() -> None:
    """Import the package now, in a process that forks children which call models."""
    importlib.import_module(_MODULE)


def _import_model(allowed: tuple[str, ...], credentials: Credentials) -> CallModel:
    call_model: CallModel = importlib.import_module(_MODULE).OpenAIModel(allowed, credentials).stream
    return call_model
