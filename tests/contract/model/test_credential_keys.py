"""Keys that are credentials: each tenant calls with its own, and a refused one is asked for again, once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import Request as ModelRequest
from roboco.process.credentials import Credentials
from tests.contract.model.model_calls import IGNORE_ABANDONED_GENERATORS, make_request, read_failure, read_reply
from tests.support import tenant_credentials
from tests.support.servers.model_server import ModelServer, Reply, Request
from tests.support.tenant_credentials import ASKED, VALUES

pytestmark = IGNORE_ABANDONED_GENERATORS
FUNCTION = f"{tenant_credentials.__name__}:find"


@pytest.fixture
def model(server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch) -> OpenAIModel:
    monkeypatch.setattr(tenant_credentials, "VALUES", dict(VALUES))
    ASKED.clear()
    allowed = (f"credential:model-key@{server.base_url}",)
    return models(allowed=allowed, retry_delay=0.01, credentials=Credentials(FUNCTION))


def ask(tenant: str, **profile: Any) -> ModelRequest:
    """Return a request for a task of the tenant."""
    return replace(make_request(api_key={"credential": "model-key"}, **profile), tenant=tenant)


def keys_of(server: ModelServer) -> list[str]:
    """Return the key of each request."""
    return [record.request.headers["authorization"] for record in server.requests]


def accepting(key: str) -> Callable[[Request], Reply]:
    """Return a server that accepts this key, and repeats any other in its refusal."""
    wanted = f"Bearer {key}"
    return lambda request: (
        Reply(text="hi")
        if request.headers["authorization"] == wanted
        else Reply(status=401, text=f"Incorrect API key provided: {request.headers['authorization']}")
    )


def test_each_tenant_calls_with_its_own_key(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="hi"))
    for tenant in ("acme", "globex", "acme"):
        assert read_reply(model.stream(ask(tenant)))[0] == "hi"
    assert keys_of(server) == [f"Bearer canary-model-of-{tenant}" for tenant in ("acme", "globex", "acme")]
    assert ASKED == [("acme", "model-key"), ("globex", "model-key")]


def test_a_rotated_key_works_without_a_restart(server: ModelServer, model: OpenAIModel) -> None:
    server.script(accepting("canary-model-of-acme"))
    read_reply(model.stream(ask("acme")))
    tenant_credentials.VALUES["acme", "model-key"] = "canary-rotated"
    server.script(accepting("canary-rotated"))
    assert read_reply(model.stream(ask("acme")))[0] == "hi"
    assert keys_of(server)[1:] == ["Bearer canary-model-of-acme", "Bearer canary-rotated"]
    assert read_reply(model.stream(ask("acme")))[0] == "hi"
    assert len(server.requests) == 4


def test_a_key_that_stays_refused_is_asked_for_again_once(server: ModelServer, model: OpenAIModel) -> None:
    server.script(accepting("another"))
    _, error = read_failure(model.stream(ask("acme")))
    assert (error.code, error.retryable) == ("auth", False)
    assert "credential 'model-key' of tenant 'acme'" in error.message
    assert "canary" not in error.message
    assert (len(server.requests), len(ASKED)) == (1, 2)
    tenant_credentials.VALUES["acme", "model-key"] = "canary-wrong-too"
    _, error = read_failure(model.stream(ask("acme")))
    assert "canary" not in error.message
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("value", "retryable", "text"),
    [
        (None, False, "there is none"),
        (tenant_credentials.busy(), True, "the vault answers 503"),
        ("canary\nkey", False, "not valid in an HTTP header"),
    ],
)
def test_a_failure_of_the_function_is_final_or_an_outage(
    server: ModelServer, model: OpenAIModel, value: object, retryable: bool, text: str
) -> None:
    tenant_credentials.VALUES["acme", "model-key"] = value
    _, error = read_failure(model.stream(ask("acme")))
    assert (error.code, error.retryable) == ("no_key", retryable)
    assert "credential 'model-key' of tenant 'acme'" in error.message
    assert text in error.message
    assert "canary" not in error.message
    assert server.requests == []


def test_no_credential_is_asked_for_an_address_that_is_not_allowed(server: ModelServer, model: OpenAIModel) -> None:
    _, error = read_failure(model.stream(ask("acme", base_url="http://127.0.0.1:9/v1")))
    assert error.code == "not_allowed"
    other = replace(make_request(api_key={"credential": "crm"}), tenant="acme")  # at the worker's own model server
    _, error = read_failure(model.stream(other))
    assert error.code == "not_allowed"
    assert (ASKED, server.requests) == ([], [])


def test_a_request_shows_no_key() -> None:
    assert "canary" not in repr(replace(ask("acme"), credential="canary-key"))
