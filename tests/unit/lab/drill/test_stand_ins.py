"""Stand-ins: they have the interface of the user's tools, count executions, and have no effect."""

import threading
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from roboco import ToolContext
from roboco.lab.drill.executions import FOLDER_VARIABLE, Executions
from roboco.lab.drill.stand_ins import MODULE, StandIn, function_name, write_plans
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.function_tool import FunctionTool, Verified
from tests.unit.lab.drill import drilled_tools

TOOLS = "tests.unit.lab.drill.drilled_tools"
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string", "enum": ["here"]}, "not-a-name": {"type": "string"}},
    "required": ["place"],
}
PLANS = [
    StandIn("pay", f"{TOOLS}:pay"),
    StandIn("send_mail", f"{TOOLS}:send_mail"),
    StandIn("add", f"{TOOLS}:add", real=True),
    StandIn("levels", description="High water levels.", schema=SCHEMA),
]
PAY, SEND_MAIL, ADD, LEVELS = range(4)


@pytest.fixture
def executions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Executions:
    write_plans(tmp_path, PLANS)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return Executions(tmp_path)


def load(number: int) -> FunctionTool:
    return FunctionLoader((MODULE,)).tool(function_name(number))


def context(call_id: str = "tc_1") -> ToolContext:
    return ToolContext("task", "clerk", call_id, f"task/{call_id}", 1, {}, "step_1", threading.Event())


def test_a_stand_in_of_a_server_has_the_listed_arguments(executions: Executions) -> None:
    described = load(LEVELS).schema("levels")["function"]
    assert described["description"] == "High water levels."
    assert described["parameters"]["properties"]["place"]["enum"] == ["here"]
    assert described["parameters"]["required"] == ["place"]
    assert load(LEVELS).call({"place": "here"}, context())


def test_a_stand_in_counts_and_does_not_call_the_users_function(executions: Executions) -> None:
    result = load(PAY).call({"order": "o", "amount": 1}, context())
    TypeAdapter(drilled_tools.Receipt).validate_python(result)
    load(SEND_MAIL).call({"to": "x"}, context("tc_2"))
    assert [(one.tool, one.key) for one in executions.read()] == [("pay", "task/tc_1"), ("send_mail", "task/tc_2")]


def test_verify_knows_whether_the_stand_in_ran(executions: Executions) -> None:
    mail = load(SEND_MAIL)
    assert mail.verify_call({"to": "x"}, context()) == Verified(happened=False)
    mail.call({"to": "x"}, context())
    found = mail.verify_call({"to": "x"}, context())
    assert found is not None
    assert found.happened
    assert load(PAY).verify_call({}, context()) is None


def test_one_execution_takes_an_order(executions: Executions) -> None:
    executions.order("pay", "raise")
    load(SEND_MAIL).call({"to": "x"}, context())
    assert not executions.was_taken()
    with pytest.raises(RuntimeError, match="the drill lets"):
        load(PAY).call({"order": "o", "amount": 1}, context())
    assert executions.was_taken()
    load(PAY).call({"order": "o", "amount": 1}, context())
    executions.withdraw()
    assert not executions.was_taken()
