"""cors: pages of other origins. A refusal says what an operator must set: browsers show it among their requests."""

import logging

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from roboco.gateway.problem import forbidden, problem_response

_log = logging.getLogger(__name__)


class Cors(CORSMiddleware):
    """Allows pages of the origins of ROBOCO_GATEWAY_CORS_ORIGINS."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the answer to a browser's question whether a page may send its request."""
        origin = request_headers["origin"][:200]
        if self.is_allowed_origin(origin):
            return super().preflight_response(request_headers)
        _log.warning("a page of %r was refused: ROBOCO_GATEWAY_CORS_ORIGINS does not list its origin", origin)
        remedy = f"an operator adds {origin} to ROBOCO_GATEWAY_CORS_ORIGINS"
        return problem_response(forbidden(f"pages of {origin} may not call this gateway", remedy))
