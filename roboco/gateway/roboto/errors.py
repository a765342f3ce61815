"""The envelope of answers, and errors in roboto.ai's form: {"error": {"error_code": ..., "message": ...}}.

The client makes an exception from the two fields, and any other field would become an argument of it. It repeats a
POST after 429, 502 and 503. So a request that may have been carried out gets 504, unless its repetition is harmless.
"""

from collections.abc import Mapping
from typing import Final

from fastapi.responses import JSONResponse

from roboco.domain.canonical_json import well_formed
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.problem import Problem

_CODES: Final[Mapping[str, tuple[int, str]]] = {
    "unauthorized": (401, "RobotoUnauthorizedException"),
    "forbidden": (401, "RobotoUnauthorizedException"),
    "not_found": (404, "RobotoNotFoundException"),
    "ended": (400, "RobotoInvalidStateTransitionException"),
    "busy": (400, "RobotoInvalidStateTransitionException"),
    "conflict": (409, "RobotoConflictException"),
    "rate_limited": (429, "RobotoLimitExceededException"),
    "overloaded": (429, "RobotoServiceUnavailableException"),
    "unavailable": (503, "RobotoServiceUnavailableException"),
    "method_not_allowed": (404, "RobotoUnknownOperationException"),
}
"""The status and exception of the codes of problems."""


def enveloped(data: object) -> JSONResponse:
    """Return the answer with this data."""
    return JSONResponse({"data": data})


def error_response(problem: Problem, repeatable: bool = True) -> JSONResponse:
    """Return the problem in roboto.ai's form. If the request is not repeatable, it gets no status that is repeated."""
    status, code = _code_of(problem)
    if status == 503 and not repeatable:
        status, code = 504, "RobotoServiceTimeoutException"
    message = f"{problem.detail}; {problem.remedy}" if problem.remedy else problem.detail
    return JSONResponse({"error": {"error_code": code, "message": well_formed(message)}}, status, problem.headers)


class RobotoRoute(StrictJsonRoute):
    """A route whose errors have roboto.ai's form."""

    repeatable = True
    """True if the same request again changes nothing more."""


class CreatingRoute(RobotoRoute):
    """A route that creates a session with each request."""

    repeatable = False


def _code_of(problem: Problem) -> tuple[int, str]:
    other = (500, "RobotoInternalException") if problem.status >= 500 else (400, "RobotoInvalidRequestException")
    return _CODES.get(problem.code, other)
