"""operator_calls: calls of operators, for all tenants, in their own line. A problem names the server that is silent."""

from collections.abc import Callable

from fastapi import Request, Response

from roboco.errors import Overloaded, RetryLater, TransientError
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from roboco.gateway.problem import unavailable
from roboco.gateway.rest.answers import Outcome, tagged_json, tagged_response


async def read_operation(request: Request, gateway: Gateway, caller: Principal, read: Callable[[], object]) -> Response:
    """Return the JSON of a read for an operator, with an entity tag. It raises the Problems of `run_operation`."""
    return tagged_response(request, await run_operation(gateway, caller, lambda: tagged_json(read)))


async def run_operation(gateway: Gateway, caller: Principal, call: Callable[[], Outcome]) -> Outcome:
    """Return the result of the call for an operator. Raise Problem `unavailable` with the name of a silent server."""
    caller.require_operator()
    try:
        return await gateway.calls.operations.run(call)
    except (Overloaded, RetryLater):
        raise
    except TransientError as error:
        raise unavailable(str(error)) from None
