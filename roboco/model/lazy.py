"""A model client that is imported at its first call."""

import importlib

from roboco.ports.model import CallModel
from roboco.process.credentials import Credentials
from roboco.process.per_process import PerProcess

_MODULE = "roboco.model.openai_model"


def lazy_model(allowed: tuple[str, ...], credentials: Credentials) -> CallModel:
    """Return the calls of models, with packages that clients need not have, and never load."""
    call_model = PerProcess(lambda: _import_model(allowed, credentials))
    return lambda request, listener: call_model()(request, listener)


def preload_model() -> None:
    """Import the package now, in a process that forks children which call models."""
    importlib.import_module(_MODULE)


def _import_model(allowed: tuple[str, ...], credentials: Credentials) -> CallModel:
    call_model: CallModel = importlib.import_module(_MODULE).OpenAIModel(allowed, credentials).stream
    return call_model
