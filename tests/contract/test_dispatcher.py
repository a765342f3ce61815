"""The dispatcher on a real broker."""

import base64
import json
import threading
from collections.abc import Callable

import pytest
from redis import Redis

from roboco.broker.app import app_settings, create_app
from roboco.broker.dispatcher import CeleryDispatcher
from roboco.local.valkey import ValkeyServer
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment

pytestmark = pytest.mark.redis
Send = Callable[[CeleryDispatcher], None]
SENDS: dict[str, Send] = {
    "advance": lambda sender: sender.advance("task_1"),
    "notify": lambda sender: sender.notify("task_1"),
    "turn": lambda sender: sender.turn(TurnAssignment("task_1", 3, 7, 1), "writer"),
    "tool": lambda sender: sender.tool(ToolAssignment("task_1", 3, 7, "call_1", 1, "low"), "search", 12.5),
    "listing": lambda sender: sender.list_tools(ListingRequest("task_1", "docs")),
}


@pytest.mark.parametrize("name", SENDS)
def test_a_send_holds_at_most_one_connection_of_the_pool(valkey: ValkeyServer, name: str) -> None:
    """Threads that each held one and waited for a second one would wait for each other forever."""
    with create_app(app_settings(valkey.url) | {"broker_pool_limit": 1}) as app:
        thread = threading.Thread(target=SENDS[name], args=(CeleryDispatcher(app),), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


def test_the_event_of_a_sent_message_names_its_work(valkey: ValkeyServer) -> None:
    with create_app(app_settings(valkey.url)) as app, Redis.from_url(valkey.url) as client, client.pubsub() as events:
        events.subscribe("/0.celeryev/task.sent")
        assert events.get_message(timeout=10)
        CeleryDispatcher(app).turn(TurnAssignment("task_1", 3, 7, 1), "writer")
        sent = _next_event(events)
        assert (sent["type"], sent["name"], sent["queue"]) == ("task-sent", "roboco.turn", "roboco.agents")
        assert "writer" in sent["args"]
        assert sent["uuid"].startswith("task_1/")


def _next_event(events: object) -> dict[str, str]:
    message = events.get_message(ignore_subscribe_messages=True, timeout=10)  # type: ignore[attr-defined]
    body: dict[str, str] = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
    return body
