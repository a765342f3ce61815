"""Log records of refused and failed messages: no field of any record contains words of a message."""

import json
from pathlib import Path
from typing import Any

import pytest

from roboco.broker.names import COORDINATOR_QUEUE, CREATING_TASKS
from roboco.client.wiring import producer_app
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

CANARY = "canary-of-the-message"
TEAM: dict[str, Any] = {"name": "echo", "agents": [{"name": "echo", "prompt": CANARY}]}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("roboco.submit", {"team": TEAM, "prompt": [CANARY]}),
    ("roboco.submit", {"team": TEAM | {"rounds": CANARY}, "prompt": CANARY}),
    ("roboco.submit", {"team": "no-such-team", "prompt": CANARY, "context": {"password": CANARY}}),
    ("roboco.submit", {"team": TEAM, "prompt": CANARY, "priority": f"{CANARY} 'and' \"more\""}),
    ("roboco.submit", {"team": TEAM, "prompt": CANARY, "notify": [{"webhook": f"https://{CANARY}/ ", "on": [CANARY]}]}),
    ("roboco.send", {"task_id": "unknown", "message": CANARY}),
    ("roboco.interrupt", {"task_id": "unknown", "message": {"text": CANARY}}),
    ("roboco.answer", {"task_id": "unknown", "call_id": "tc_1", "result": CANARY}),
    ("roboco.fork", {"source": "unknown", "message": CANARY}),
]
UNKNOWN = ("shop.unknown", {"prompt": CANARY})
MALFORMED = {
    "headers": {"task": "roboco.submit", "id": "malformed", "argsrepr": CANARY},
    "content-type": "application/json",
    "content-encoding": "utf-8",
    "body": f'[[], {{"prompt": "{CANARY}"}}]',
    "properties": {"delivery_tag": "1", "delivery_info": {"exchange": "", "routing_key": COORDINATOR_QUEUE}},
}


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_log_record_holds_words_of_a_message(tmp_path: Path, form: str) -> None:
    with (
        Stack(tmp_path, pools=("coordinator",), modules="tests.support.log_capture", log_format=form) as stack,
        producer_app(stack.settings) as app,
    ):
        for number, (name, arguments) in enumerate([*REFUSED, UNKNOWN]):
            app.send_task(name, kwargs=arguments, queue=COORDINATOR_QUEUE, task_id=f"refused-{number}")
        stack.orchestrator._client.lpush(COORDINATOR_QUEUE, json.dumps(MALFORMED))
        app.send_task("roboco.send", args=[CANARY], queue=COORDINATOR_QUEUE, task_id="by-position")
        expected = [f"[refused-{number}] raised" for number in range(len(REFUSED))]
        until(lambda: all(one in stack.log("coordinator") for one in expected), 60, "the log has all refusals")
        creating = [number for number, (name, _) in enumerate(REFUSED) if name in CREATING_TASKS]
        until(
            lambda: len(stack.orchestrator.operator.dead_letters()) == 3 + len(creating),
            60,
            "the dead letters are stored",
        )
        letters = {str(letter.headers.get("id")): letter for letter in stack.orchestrator.operator.dead_letters()}
        for number, (name, _) in enumerate(REFUSED):
            ident = f"refused-{number}"
            kept = f"; it is dead letter {letters[ident].letter_id}" if number in creating else ""
            [line] = [one for one in stack.log("coordinator").splitlines() if f"message {ident} ({name} of " in one]
            assert "WARNING" in line
            assert f") is refused{kept}: " in line
            assert (ident in letters) == (number in creating)
        assert letters["refused-2"].reason.startswith("refused: team 'no-such-team' was named")
        records = (tmp_path / "records.txt").read_text()
        for text in (records, stack.log("coordinator")):
            assert text.count("prompt: Input should be a valid string (found ...)") >= 1
            assert CANARY not in text
        assert records.count("'data': {") >= len(REFUSED)
