"""problems: errors in OpenAI's shape, `{"error": {"message", "type", "param", "code"}}`.

Clients repeat a request after 408, 409, 429 and 5xx, unless `x-should-retry` says otherwise. So an error that the same
request would meet again carries `x-should-retry: false`, and a refusal before acceptance `true`.
"""

from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from roboco.domain.canonical_json import well_formed
from roboco.gateway.problem import Problem, not_found, problem_response

PARAM: Final = "param"
"""The member of `Problem.extra` that names the parameter."""
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
_CODES: Final = {"unauthorized": "invalid_api_key", "rate_limited": "rate_limit_exceeded"}
_RETRIED_STATUSES: Final = (429, 503)
"""Refusals before acceptance: the same request may succeed later."""


def wrong_parameter(param: str, detail: str, remedy: str = "", code: str = "invalid") -> Problem:
    """Return the Problem of a parameter that is wrong or not supported."""
    problem = Problem(400, code, f"{param}: {detail}", remedy)
    problem.extra[PARAM] = param
    return problem


def unknown_model(name: str) -> Problem:
    """Return the Problem of a team that the caller has not."""
    problem = Problem(404, "model_not_found", f"no team {name!r}", "list the teams with GET /models")
    problem.extra[PARAM] = "model"
    return problem


def error_object(problem: Problem) -> dict[str, Any]:
    """Return the error in OpenAI's shape."""
    kind = _TYPES.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    code = _CODES.get(problem.code, problem.code)
    param = problem.extra.get(PARAM)
    shown = None if param is None else well_formed(str(param))
    return {"error": {"message": well_formed(problem.message), "type": kind, "param": shown, "code": code}}


def error_response(problem: Problem) -> JSONResponse:
    """Return the response of a Problem."""
    again = "true" if problem.status in _RETRIED_STATUSES else "false"
    return JSONResponse(error_object(problem), problem.status, {"x-should-retry": again, **problem.headers})


def response_at(path: str, problem: Problem, unknown: bool = False) -> Response:
    """Return the response of a Problem in the shape of the API to which the path belongs.

    `unknown` says that no route has the path: a client of OpenAI's API may have another base URL than this API has.
    """
    ours = path.startswith(OPENAI)
    if unknown and (ours or any(f"{route}/" in f"{path}/" for route in _ROUTES)):
        named = f"no route {path[:200]!r}"
        problem = not_found(named, "the routes of " + _SERVED if path.startswith(_BASE) else "the base URL of " + _AT)
        return error_response(problem)
    return error_response(problem) if ours else problem_response(problem)


OPENAI: Final = "/openai/"
"""The begin of the paths of OpenAI's API."""
_BASE: Final = "/openai/v1/"
_ROUTES: Final = ("/models", "/chat/completions", "/completions", "/responses", "/embeddings", "/conversations")
_AT: Final = "OpenAI's API at this gateway ends with /openai/v1: change it in the client"
_SERVED: Final = "OpenAI's API at this gateway are models, responses, conversations and chat/completions"


def problem_of_validation(error: RequestValidationError, request: Request) -> Problem:
    """Return 400 with the first wrong parameter, and without its value, which may be a secret."""
    mistake = error.errors()[0]
    if mistake["type"] == "json_invalid":
        detail = f"is not JSON: {mistake.get('ctx', {}).get('error', '')} at character {mistake['loc'][-1]}"
        return wrong_parameter("body", detail)
    if mistake["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
        return wrong_parameter("body", "is not read as JSON", "send the header Content-Type: application/json")
    if mistake["loc"] == ("body", "model") and mistake["type"] == "string_too_long":
        return unknown_model(str(mistake["input"])[:80])
    where = [str(part) for part in mistake["loc"] if part not in ("body", "query", "path", "header")]
    return wrong_parameter(".".join(where)[:200] or "body", str(mistake["msg"]))
