"""Errors in roboto.ai's form: its client raises one of its exceptions for each."""

import json

import pytest
from roboto.exceptions import RobotoDomainException

from roboco.errors import AlreadyEnded, CorruptHistory, NotFound, Overloaded, RetryLater, StateConflict
from roboco.gateway.problem import Problem, problem_of, unavailable
from roboco.gateway.roboto.errors import error_response


@pytest.mark.parametrize(
    ("problem", "status", "name"),
    [
        (problem_of(NotFound("x")), 404, "RobotoNotFoundException"),
        (problem_of(AlreadyEnded("x")), 400, "RobotoInvalidStateTransitionException"),
        (problem_of(StateConflict("x")), 409, "RobotoConflictException"),
        (problem_of(Overloaded("x")), 429, "RobotoServiceUnavailableException"),
        (problem_of(RetryLater("x", 3)), 503, "RobotoServiceUnavailableException"),
        (problem_of(CorruptHistory("x")), 500, "RobotoInternalException"),
        (Problem(401, "unauthorized", "x"), 401, "RobotoUnauthorizedException"),
        (Problem(413, "too_large", "x"), 400, "RobotoInvalidRequestException"),
    ],
)
def test_a_problem_becomes_an_exception_of_the_client(problem: Problem, status: int, name: str) -> None:
    answer = error_response(problem)
    body = json.loads(bytes(answer.body))
    assert (answer.status_code, set(body), set(body["error"])) == (status, {"error"}, {"error_code", "message"})
    raised = RobotoDomainException.from_json(body)
    assert (type(raised).__name__, raised.message.partition(";")[0]) == (name, "x")


def test_a_request_that_makes_a_session_gets_no_status_that_is_repeated() -> None:
    assert error_response(unavailable("x"), repeatable=True).status_code == 503
    assert error_response(unavailable("x"), repeatable=False).status_code == 504


def test_a_message_may_quote_a_lone_surrogate_of_the_request() -> None:
    assert "\ufffd" in json.loads(bytes(error_response(Problem(400, "invalid", "no \ud800")).body))["error"]["message"]
