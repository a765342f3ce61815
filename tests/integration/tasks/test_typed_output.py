"""Typed answers of a shop's own types, on real workers and over a strict model server."""

import json
from collections.abc import Iterator

import pytest

from roboco import parse_team
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers

MODULE = "tests.support.types_for_agents"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three workers that import a shop's types."""
    with Stack(tmp_path_factory.mktemp("stack"), tool_modules=(MODULE,)) as started:
        yield started


def booked(people: int) -> Reply:
    return Reply(text=json.dumps({"value": [{"day": "2026-12-24", "people": people}]}))


def test_the_answer_has_the_type_of_the_shop(stack: Stack) -> None:
    team = {
        "name": "tables",
        "agents": [
            {
                "name": "host",
                "prompt": "Book.",
                "output": f"{MODULE}:Bookings",
                "validate": f"{MODULE}:at_most_eight",
            },
            {"name": "waiter", "prompt": "Greet {{ output.host[0].people }} people."},
        ],
    }

    def answer(request: Request) -> Reply:
        if request.system.startswith("Greet"):
            return Reply(text=request.system)
        return booked(12 if request.count("assistant") == 0 else 8)

    stack.model.script(answer)
    result = stack.orchestrator.run(parse_team(team), "A table for us, please.").result(60)
    assert result.status == "completed", result.reason
    assert result.outputs == {"host": [{"day": "2026-12-24", "people": 8}]}
    assert result.text == "Greet 8 people."
    assert result.output is None
    assert len(stack.model.requests) == 3
    refused = stack.model.requests[1].request.last_user
    assert "no table has more than 8 seats" in refused
