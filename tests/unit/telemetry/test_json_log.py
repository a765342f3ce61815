"""Logs as JSON: each line is one object, names the work it belongs to, and contains no secret."""

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.model.loop_thread import LoopThread
from roboco.ports.lease_renewals import AttemptLease, LeaseStatus
from roboco.ports.telemetry import Operation
from roboco.telemetry.json_log import JsonFormatter
from roboco.telemetry.redaction import Redactor
from roboco.telemetry.telemetry import ProcessTelemetry
from tests.support.memory_ports.renewals import ScriptedRenewals

SECRETS = {
    "OPENAI_API_KEY": "sk-the-key-of-the-shop",
    "AWS_SECRET_ACCESS_KEY": "aws/secret+key",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer abcdef",
    "ROBOCO_SIGNING_KEYS": "first-key-of-two, second-key-of-two",
    "FLOWER_BASIC_AUTH": "me:word-of-flower",
    "SHOP_ACCESS": "named-elsewhere",
    "SHORT_KEY": "a",
    "HOME": "/home/roboco",
}


class JsonLinesHandler(logging.Handler):
    """A handler that keeps log records as JSON lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter(Redactor(SECRETS, ("SHOP_ACCESS",))))
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        assert "\n" not in line
        self.lines.append(json.loads(line))


@pytest.fixture
def lines() -> Any:
    handler, logger = JsonLinesHandler(), logging.getLogger("tests.json")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False
    yield handler.lines
    logger.propagate = True
    logger.removeHandler(handler)


log = logging.getLogger("tests.json")
TURN_OPERATION = Operation("turn", "task_1", 3, 1)


def test_a_record_with_unfit_arguments_is_logged() -> None:
    record = log.makeRecord("tests.json", logging.INFO, "f", 1, "%d of %d", ("one \ud83d",), None)
    line = json.loads(JsonFormatter(Redactor({})).format(record))
    assert line["message"].startswith("%d of %d (")
    assert json.loads(JsonFormatter(Redactor({})).format(log.makeRecord("", 20, "", 1, "half \ud83d", (), None)))[
        "message"
    ]


def test_no_secret_is_in_a_message_or_an_exception(lines: list[dict[str, Any]]) -> None:
    try:
        raise ValueError("key sk-the-key-of-the-shop was refused")
    except ValueError:
        log.exception("at redis://user:pass-word@host:1/0 with %s, %s", "aws/secret+key", SECRETS["SHOP_ACCESS"])
    log.warning("header %s of %s a", SECRETS["OTEL_EXPORTER_OTLP_HEADERS"], SECRETS["HOME"])
    log.warning("Bearer abcdef, second-key-of-two, word-of-flower")
    logged_text = json.dumps(lines)
    for secret in (
        "first-key",
        "second-key",
        "word-of",
        "sk-the",
        "pass-word",
        "aws/secret",
        "abcdef",
        "named-elsewhere",
    ):
        assert secret not in logged_text
    assert "redis://user:***@host:1/0" in logged_text
    assert "/home/roboco a" in logged_text


def test_lines_name_the_work_and_its_later_annotations(lines: list[dict[str, Any]]) -> None:
    telemetry = ProcessTelemetry(None, None)
    with telemetry.operation(TURN_OPERATION) as doing:
        log.info("claimed")
        doing.annotate(agent="writer", model="small", tokens_in=3)
        log.info("speaks")
        with telemetry.operation(Operation("tool", "task_1", 4, 2, "tc_1")):
            log.info("calls")
    log.info("done")
    named = [{key: line[key] for key in line.keys() & {"task_id", "step", "agent", "tool_call_id"}} for line in lines]
    turn = {"task_id": "task_1", "step": 3}
    assert named == [
        turn,
        turn | {"agent": "writer"},
        {"task_id": "task_1", "step": 4, "agent": "writer", "tool_call_id": "tc_1"},
        {},
    ]


def test_lines_of_the_loop_thread_and_the_heartbeat_name_the_work(lines: list[dict[str, Any]]) -> None:
    loop, beaten = LoopThread(), threading.Event()

    async def stream() -> None:
        await asyncio.sleep(0)
        log.info("streams")
        await asyncio.to_thread(log.info, "reads")

    def report_loss() -> None:
        log.info("is lost")
        beaten.set()

    renewals = ScriptedRenewals({"a": [LeaseStatus.LOST]})
    with (
        ProcessTelemetry(None, None).operation(TURN_OPERATION) as doing,
        LeaseHeartbeat(renewals.renew, renewals.server_of, 0.01).renewing(AttemptLease("a"), report_loss),
    ):
        running = loop.submit(stream())
        doing.annotate(agent="writer")
        assert running.ended.wait(60)
        assert beaten.wait(60)
    assert {line["message"] for line in lines} == {"streams", "reads", "is lost"}
    assert {(line["task_id"], line["step"]) for line in lines} == {("task_1", 3)}
