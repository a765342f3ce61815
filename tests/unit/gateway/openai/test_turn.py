"""Requests of OpenAI's clients: the last message is the prompt, results name their task, and nothing is dropped."""

import base64
from typing import Any

import pytest

from roboco.gateway.openai.bodies import ChatBody, ResponseBody
from roboco.gateway.openai.forms import CHAT, RESPONSES, asked_of, check_parameters, sampling_of
from roboco.gateway.openai.ids import ResponseId, shown_call_id, split_call_id
from roboco.gateway.openai.tools import client_tools
from roboco.gateway.openai.turn import Decided, Returned, Said, Turn, chat_entries, input_entries, turn_of
from roboco.gateway.problem import Problem

CALL = {"id": "tc_1.task_a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def chat(*messages: dict[str, Any]) -> Turn:
    """Return the turn of chat messages."""
    return turn_of(chat_entries(messages), "messages", continues=False)


def response(given: Any, continues: bool = False) -> Turn:
    """Return the turn of a response's input."""
    return turn_of(input_entries(given), "input", continues)


def test_the_last_message_is_the_prompt_and_the_others_are_history() -> None:
    turn = chat(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "tc_1.task_a", "content": "sun"},
        {"role": "assistant", "content": "It is sunny."},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    )
    assert (turn.prompt, turn.instructions) == ("two", "Be brief.")
    assert turn.history == (
        Said("user", "one"),
        Said("assistant", "(called f with {})"),
        Said("assistant", "(the result of call tc_1: sun)"),
        Said("assistant", "It is sunny."),
    )


def test_results_at_the_end_answer_the_task_that_their_calls_name() -> None:
    turn = chat(
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "tc_1.task_a", "content": "sun"},
    )
    assert turn.answers == (Returned("tc_1.task_a", "sun"),)
    assert turn.answered_task == "task_a"
    with pytest.raises(Problem, match="different responses"):
        _ = response(
            [
                {"type": "function_call_output", "call_id": "tc_1.task_a", "output": "1"},
                {"type": "function_call_output", "call_id": "tc_2.task_b", "output": "2"},
            ]
        ).answered_task


def test_a_response_may_be_a_text_items_or_decisions() -> None:
    assert response("hi").prompt == "hi"
    assert response([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], True).prompt == "a\n\nb"
    given = [{"type": "mcp_approval_response", "approval_request_id": "mcpr_tc_1.task_a", "approve": False}]
    assert response(given).answers == (Decided("mcpr_tc_1.task_a", False, ""),)
    assert response(given).answered_task == "task_a"
    replayed = [
        {"role": "user", "content": "a"},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"role": "user", "content": "c"},
    ]
    assert response(replayed).history == (Said("user", "a"), Said("assistant", "b"))


@pytest.mark.parametrize(
    ("given", "continues", "param"),
    [
        ([{"role": "assistant", "content": "a"}], False, "input"),
        ([{"role": "user", "content": " "}], False, "input"),
        ([{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}], True, "input"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], False, "input.0.content.0"),
        ([{"role": "robot", "content": "a"}], False, "input.0.role"),
        ([{"type": "computer_call"}], False, "input.0"),
        ([{"role": "user", "content": 7}], False, "input.0.content"),
    ],
)
def test_input_that_cannot_be_honoured_is_refused_with_its_place(given: Any, continues: bool, param: str) -> None:
    with pytest.raises(Problem) as refused:
        response(given, continues)
    assert (refused.value.status, refused.value.extra["param"]) == (400, param)


def test_function_names_get_a_prefix_and_collisions_are_refused() -> None:
    tool = {"type": "function", "name": "search", "description": "Find.", "parameters": {"type": "object"}}
    [declared] = client_tools([tool], nested=False)
    assert declared == {"name": "client_search", "description": "Find.", "input_schema": {"type": "object"}}
    names = [one["name"] for one in client_tools([tool, tool | {"name": "client_search"}], nested=False)]
    assert names == ["client_search", "client_client_search"]
    wrong = ([tool, tool], [{"type": "web_search"}], [tool | {"name": "a b"}], [tool | {"name": "x" * 58}])
    for tools in wrong:
        with pytest.raises(Problem):
            client_tools(tools, nested=False)


def test_parameters_that_change_an_answer_are_refused() -> None:
    check_parameters({"temperature": 0.5, "user": "u", "n": None, "metadata": {"a": "b"}}, CHAT)
    check_parameters({"store": True, "text": {"format": {"type": "text"}}}, RESPONSES)
    for name, value in {"n": 2, "unheard_of": 1, "stop": ["."], "logprobs": True, "top_logprobs": 2}.items():
        with pytest.raises(Problem) as refused:
            check_parameters({name: value}, CHAT)
        assert (refused.value.code, refused.value.extra["param"]) == ("unsupported_parameter", name)


def test_sampling_parameters_are_ignored_unless_the_operator_passes_them_on() -> None:
    given = {"temperature": 0.5, "max_completion_tokens": 9, "seed": None, "text": {"verbosity": "low"}, "user": "u"}
    assert sampling_of(given, ()) == ({}, ["max_completion_tokens", "temperature", "text.verbosity"])
    assert sampling_of(given, ("max_tokens", "verbosity")) == ({"max_tokens": 9, "verbosity": "low"}, ["temperature"])
    assert sampling_of({"reasoning": {"effort": "high", "summary": "auto"}}, ()) == ({}, ["reasoning.effort"])


FUNCTIONS = [{"type": "function", "function": {"name": name}} for name in ("weather", "save")]


def chat_form(**given: Any) -> dict[str, Any]:
    body = ChatBody.model_validate({"model": "desk", "messages": [{"role": "user", "content": "a"}], **given})
    return asked_of(body, ()).with_form("", False)


@pytest.mark.parametrize(
    ("given", "form", "tools"),
    [
        ({}, None, []),
        ({"response_format": {"type": "text"}}, None, []),
        ({"response_format": {"type": "json_object"}}, {"schema": {"type": "object"}}, []),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"title": "A"}}}},
            {"schema": {"title": "A"}},
            [],
        ),
        ({"tools": FUNCTIONS, "tool_choice": "auto"}, None, ["client_weather", "client_save"]),
        ({"tools": FUNCTIONS, "tool_choice": "none"}, {"calls": "none"}, []),
        ({"tools": FUNCTIONS, "tool_choice": "required"}, {"calls": "required"}, ["client_weather", "client_save"]),
        ({"tools": FUNCTIONS, "tool_choice": FUNCTIONS[1]}, {"calls": "required"}, ["client_save"]),
        (
            {
                "tools": FUNCTIONS,
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": FUNCTIONS[:1]}},
            },
            None,
            ["client_weather"],
        ),
        ({"parallel_tool_calls": False}, {"one_call": True}, []),
        ({"parallel_tool_calls": True}, None, []),
    ],
)
def test_a_request_demands_the_form_of_its_answer(given: dict[str, Any], form: Any, tools: list[str]) -> None:
    options = chat_form(**given)
    assert options.get("answer_form") == form
    assert [tool["name"] for tool in options.get("client_tools", [])] == tools


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": FUNCTIONS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": FUNCTIONS, "tool_choice": {"type": "file_search"}}, "tool_choice"),
    ],
)
def test_a_form_that_cannot_be_honoured_is_refused_with_its_name(given: dict[str, Any], param: str) -> None:
    with pytest.raises(Problem) as refused:
        chat_form(**given)
    assert refused.value.extra["param"] == param


def test_a_later_message_has_a_form_of_its_own() -> None:
    body = ResponseBody.model_validate({"model": "desk", "input": "a", "text": {"format": {"type": "json_object"}}})
    asked = asked_of(body, ())
    assert asked.with_form("be brief", True)["answer_form"] == {
        "schema": {"type": "object"},
        "instructions": "be brief",
        "calls": "none",
    }


def test_ids_name_a_task_and_a_position() -> None:
    assert ResponseId.parse(str(ResponseId("acme:task_1.b", 7))) == ResponseId("acme:task_1.b", 7)
    assert split_call_id(shown_call_id("tc_1", "acme:task_1.b")) == ("tc_1", "acme:task_1.b")
    assert split_call_id("call_of_another_service") == ("call_of_another_service", "")
    for text in ("", "resp_", "resp_a", "resp__1", "resp_../x_1", "resp_a_" + "9" * 10, "resp_" + "a" * 300 + "_1"):
        with pytest.raises(Problem):
            ResponseId.parse(text)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "https://shop.example/a.png"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://shop.example/a.pdf"},
        {"type": "image_url", "image_url": {"url": "data:image/png,abc"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,%"}},
        {"type": "file", "file": {"file_data": "aGVsbG8="}},
    ],
)
def test_a_file_that_is_no_data_of_a_known_kind_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(Problem) as refused:
        response([{"role": "user", "content": [{"type": "input_text", "text": "a"}, part]}])
    assert refused.value.extra["param"] == "input.0.content.1"


def test_a_message_may_have_files_alone() -> None:
    pdf = base64.b64encode(b"%PDF-1.7").decode()
    given = [{"role": "user", "content": [{"type": "input_file", "file_data": f"data:application/pdf;base64,{pdf}"}]}]
    assert (response(given).prompt, response(given).files[0].data) == ("(files)", b"%PDF-1.7")
    assert response(given).files[0].name.endswith(".pdf")
