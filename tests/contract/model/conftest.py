"""The model client and the scripted server that it calls."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roboco.model.openai_model import OpenAIModel
from tests.contract.model.model_calls import API_KEY, close_model
from tests.support.servers.model_server import ModelServer


@pytest.fixture(scope="module")
def models() -> Iterator[Callable[..., OpenAIModel]]:
    """Yield a function that creates models. At the end, close their loops and connections."""
    created: list[OpenAIModel] = []

    def create(**options: Any) -> OpenAIModel:
        created.append(OpenAIModel(**options))
        return created[-1]

    yield create
    for model in created:
        close_model(model)


@pytest.fixture(scope="module")
def model(models: Callable[..., OpenAIModel]) -> OpenAIModel:
    """Return one model for all tests of a module, with a short retry delay."""
    return models(retry_delay=0.01)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Yield the server that OPENAI_BASE_URL names. It must report no violation of the protocol."""
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
        yield server
        assert server.violations == []
