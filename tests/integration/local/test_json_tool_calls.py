"""Tool calls in JSON with a real model: the tiny local one, which has no native tool calls."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from roboco.domain.team.model_profile import ModelProfile
from roboco.local import llama
from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import Reply, Request
from roboco.schemas.json_schema import value_error
from tests.contract.model.model_calls import IGNORE_ABANDONED_GENERATORS, close_model
from tests.integration.local.test_local_servers import find_model, find_or_skip

pytestmark = [IGNORE_ABANDONED_GENERATORS, pytest.mark.slow]

INTEGER = {"type": "integer"}
NUMBERS = {
    "type": "object",
    "properties": {"a": INTEGER, "b": INTEGER, "unit": {"type": ["string", "null"], "maxLength": 20}},
    "required": ["a", "b"],
}
ADD = {"type": "function", "function": {"name": "add", "description": "adds two numbers", "parameters": NUMBERS}}
MESSAGES = ({"role": "system", "content": "You are helpful."}, {"role": "user", "content": "What is 17 + 25?"})


@pytest.fixture
def address(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the address of the local model's server."""
    pytest.importorskip("xllamacpp")
    assert request.config.cache is not None
    cache = request.config.cache.mkdir("local-model")
    server = llama.launch_llama(find_or_skip(lambda: find_model(cache)), tmp_path)
    llama.wait_loaded(server)
    yield server.base_url
    server.stop()


def test_the_local_model_calls_a_tool(address: str) -> None:
    """The grammar permits only a tool call, so the result is the same on every machine."""
    model = OpenAIModel((address,))
    profile = ModelProfile(model="local", base_url=address, tool_calls="json", temperature=0, max_tokens=400)
    with closing(model.stream(Request(profile, MESSAGES, (ADD,), "required"))) as stream:
        *texts, reply = stream
    close_model(model)
    assert isinstance(reply, Reply)
    assert (texts, reply.finish_reason, reply.reprompts) == ([], "tool_calls", 0)
    assert [call.name for call in reply.calls] == ["add"] * len(reply.calls)
    assert [wrong for call in reply.calls if (wrong := value_error(NUMBERS, json.loads(call.arguments)))] == []
    assert reply.tokens_in > 50
