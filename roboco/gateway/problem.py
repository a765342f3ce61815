"""Problem: the error of a request, which each protocol writes in its own form.

The REST routes use RFC 9457, `application/problem+json`: type, title, status, detail, and the members `code`, for
programs, and `remedy`, for people. Other protocols map `status` and `code` to their own errors.
"""

import json
import logging
import math
from collections.abc import Mapping
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from roboco.errors import CorruptHistory, RetryLater, TransientError, UsageError

_log = logging.getLogger(__name__)
_TRY: Final = "correct the request as the detail says; GET /v1/openapi.json describes each request"
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "not_found": ("Not found", "check the id; GET /v1/tasks and GET /v1/teams list what this key reaches"),
    "ended": ("The task has ended", "fork the task with POST /v1/tasks/{task_id}/fork, or submit a new one"),
    "erased": ("The task was erased", _TRY),
    "conflict": ("Conflict", "read the task's state; use another id or Idempotency-Key for other content"),
    "invalid": ("Invalid request", _TRY),
    "invalid_team": ("Invalid team", "correct each mistake of the team that the detail names"),
    "not_runnable": ("A tool cannot run", "an operator installs the module that the detail names"),
    "method_not_allowed": ("Method not allowed", "use a method that the header Allow names"),
    "range_not_satisfiable": (
        "Range not satisfiable",
        "ask for a range within the size that the header Content-Range names",
    ),
    "unauthorized": ("Not authenticated", _TRY),
    "forbidden": ("Forbidden", "use a key that may do this, or ask the operator"),
    "overloaded": ("Overloaded", _TRY),
    "rate_limited": ("Too many requests", _TRY),
    "unavailable": ("Temporarily unavailable", _TRY),
    "too_large": ("Too large", "send less; files of any size are uploaded with PUT /v1/tasks/{task_id}/files/{name}"),
    "internal": ("Internal error", "an operator finds the cause in the log of the gateway"),
}
"""The title of each code, and the remedy of problems that name none."""
_STATUSES: Final[Mapping[str, int]] = {"not_found": 404, "ended": 409, "conflict": 409, "forbidden": 403, "erased": 410}
"""The HTTP status of the codes of UsageError that have another one than 400."""
_CODES: Final[Mapping[int, str]] = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
"""The codes of refusals of FastAPI, by status."""
PROBLEM_JSON: Final = "application/problem+json"
RETRY_SECONDS: Final = 2
"""`Retry-After` of an error whose server has named no time."""
MAX_DETAIL: Final = 2000
"""Characters of a detail."""


class Problem(Exception):
    """A request that fails. `detail` says what is wrong, and `remedy` what the caller can do."""

    def __init__(
        self, status: int, code: str, detail: str, remedy: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail[:MAX_DETAIL]
        self.remedy = remedy
        self.headers = dict(headers or {})
        self.extra: dict[str, Any] = {}
        """Further members of the problem document."""

    @property
    def title(self) -> str:
        """The short name of this kind of problem."""
        return KINDS.get(self.code, ("Error", ""))[0]

    @property
    def message(self) -> str:
        """Return the detail with the remedy, for protocols whose errors have one text."""
        return f"{self.detail} ({self.remedy})" if self.remedy else self.detail

    def document(self) -> dict[str, Any]:
        """Return the problem document of RFC 9457."""
        found = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        return found | {"remedy": self.remedy or KINDS.get(self.code, KINDS["invalid"])[1]} | self.extra


def problem_response(problem: Problem) -> Response:
    """Return the problem document as a response, in ASCII: a text of the request may hold a lone surrogate."""
    return Response(json.dumps(problem.document()), problem.status, problem.headers, PROBLEM_JSON)


def not_found(detail: str, remedy: str = "") -> Problem:
    """Return the Problem of something that does not exist, or belongs to another tenant."""
    return Problem(404, "not_found", detail, remedy)


def forbidden(detail: str, remedy: str = "") -> Problem:
    """Return the Problem of a request that the caller may not make."""
    return Problem(403, "forbidden", detail, remedy)


def invalid(detail: str, remedy: str = "", status: int = 400) -> Problem:
    """Return the Problem of a wrong request."""
    return Problem(status, "invalid", detail, remedy)


def rate_limited(limit: str, seconds: float) -> Problem:
    """Return the Problem of a request that reaches a limit."""
    wait = str(max(1, math.ceil(seconds)))
    remedy = f"repeat the request after {wait} s"
    problem = Problem(429, "rate_limited", f"the limit {limit} is reached", remedy, {"Retry-After": wait})
    problem.extra["limit"] = limit
    return problem


def unavailable(detail: str, seconds: float = RETRY_SECONDS) -> Problem:
    """Return the Problem of a server that does not answer. The same request may succeed later."""
    wait = str(max(1, round(seconds)))
    return Problem(503, "unavailable", detail, f"repeat the request after {wait} s", {"Retry-After": wait})


def problem_of(error: Exception) -> Problem:
    """Return the Problem of an error of the client library, or of a request that FastAPI refuses."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _of_mistakes(error)
        case HTTPException():
            code = _CODES.get(error.status_code, "invalid")
            return Problem(error.status_code, code, str(error.detail), headers=error.headers)
        case _:
            return _of_roboco(error)


def _of_roboco(error: Exception) -> Problem:
    match error:
        case UsageError():
            return Problem(_STATUSES.get(error.code, 400), error.code, str(error))
        case RetryLater():
            return unavailable(str(error), error.seconds)
        case TransientError() if error.code == "overloaded":
            wait = {"Retry-After": str(RETRY_SECONDS)}
            return Problem(429, "overloaded", str(error), "submit again later", wait)
        case TransientError():
            _log.warning("a request fails: %s", error)  # its text has addresses of servers
            return unavailable("a server behind the gateway does not answer, or is busy")
        case CorruptHistory():
            return Problem(500, error.code, str(error), "an operator must repair the history: `roboco dead-letters`")
        case _:
            return Problem(500, "internal", str(error))


def _of_mistakes(error: RequestValidationError) -> Problem:
    """Return the Problem with the place and the problem of each mistake, and no value, which may be a secret."""
    mistakes = [{"at": ".".join(map(str, one["loc"])), "problem": one["msg"]} for one in error.errors()[:20]]
    problem = invalid("; ".join(f"{one['at']}: {one['problem']}" for one in mistakes), status=422)
    problem.extra["mistakes"] = mistakes
    return problem
