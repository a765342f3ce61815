"""routes: the two bindings of A2A, and the card of each team.

    POST /a2a/TEAM                                 JSON-RPC
    POST /a2a/TEAM/message:send, GET .../tasks ... HTTP+JSON
    GET  /a2a/TEAM/.well-known/agent-card.json     the card; without /a2a/TEAM, that of the only team of the caller

A stream that is not whole has no end: its client subscribes again. Errors have the form of the binding.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, NamedTuple, cast, get_type_hints

from a2a import types as a2a
from a2a.utils.constants import PROTOCOL_VERSION_CURRENT, VERSION_HEADER
from a2a.utils.error_handlers import build_error_details, build_rest_error_payload
from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP, A2AError, JSONParseError
from a2a.utils.proto_utils import parse_params
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from roboco.domain.canonical_json import validated_json
from roboco.domain.team.team import Team
from roboco.errors import RobocoError
from roboco.gateway.a2a.agent import TeamAgent
from roboco.gateway.access import authenticate
from roboco.gateway.bodies.strict_json import unique_names
from roboco.gateway.gateway import base_url, gateway_of
from roboco.gateway.openai.accepting import AcceptedTurn
from roboco.gateway.openai.following import answer_while_connected
from roboco.gateway.openai.sse import event_stream, frame
from roboco.gateway.principal import Scope
from roboco.gateway.problem import Problem, not_found, problem_of
from roboco.gateway.request_log import MAX_PATH, LoggedRoute, outcome_of, record_operation
from roboco.gateway.teams import named_team, team_names

CARD: Final = "/.well-known/agent-card.json"
_KINDS: Final[dict[str, type[A2AError]]] = {
    "ended": a2a.UnsupportedOperationError,
    "not_found": a2a.TaskNotFoundError,
    "too_large": a2a.InvalidRequestError,
}
"""The errors of A2A by the code of a Problem; those with another code and a status below 500 are of parameters."""
_ENDS: Final = (401, 403, 429)
"""Refusals whose status JSON-RPC keeps, as it keeps those of the server: clients and proxies act on them."""


class Method(NamedTuple):
    """An operation: its route of HTTP+JSON, and its call. `streams` says that its answer is a stream."""

    route: str
    call: Callable[[TeamAgent, Any], Awaitable[Any]]
    streams: bool = False

    def params(self) -> Message:
        """Return the parameters of the call, which are empty."""
        kind: type[Message] = get_type_hints(self.call)["params"]
        return kind()


_CONFIGS: Final = "/tasks/{task_id}/pushNotificationConfigs"
METHODS: Final = {
    "SendMessage": Method("POST /message:send", TeamAgent.send),
    "SendStreamingMessage": Method("POST /message:stream", TeamAgent.send, streams=True),
    "CancelTask": Method("POST /tasks/{id}:cancel", TeamAgent.cancel),
    "SubscribeToTask": Method("GET POST /tasks/{id}:subscribe", TeamAgent.subscribed, streams=True),
    "GetTask": Method("GET /tasks/{id}", TeamAgent.get),
    "ListTasks": Method("GET /tasks", TeamAgent.tasks),
    "CreateTaskPushNotificationConfig": Method(f"POST {_CONFIGS}", TeamAgent.create_config),
    "ListTaskPushNotificationConfigs": Method(f"GET {_CONFIGS}", TeamAgent.configs),
    "GetTaskPushNotificationConfig": Method(f"GET {_CONFIGS}/{{id}}", TeamAgent.get_config),
    "DeleteTaskPushNotificationConfig": Method(f"DELETE {_CONFIGS}/{{id}}", TeamAgent.delete_config),
    "GetExtendedAgentCard": Method("GET /extendedAgentCard", TeamAgent.extended_card),
}
"""The operations. Their routes are tried in this order."""


def routes() -> list[Route]:
    """Return the routes."""
    cards = [LoggedRoute(CARD, _card), LoggedRoute(f"/a2a/{{team}}{CARD}", _card)]
    bound = [(name, one.route.split(), _rest(one)) for name, one in METHODS.items()]
    by_path = [
        LoggedRoute(f"/a2a/{{team}}{path}", serve, methods=verbs, name=name) for name, (*verbs, path), serve in bound
    ]
    return [*cards, *by_path, LoggedRoute("/a2a/{team}", _rpc, methods=["POST"], name="a2a")]


async def _card(request: Request) -> Response:
    """Return the card of a team, or of the only team that the caller may use."""
    try:
        caller, gateway = await authenticate(request), gateway_of(request)
        caller.require(Scope.READ)
        name = request.path_params.get("team")
        if name is None:
            names = await gateway.calls.reads.run(team_names, gateway.orchestrator, caller)
            if len(names) != 1:
                raise not_found("each team has its own card", f"read /a2a/TEAM{CARD}")
            name = names[0]
        team = await gateway.calls.reads.run(named_team, gateway.orchestrator, caller, name)
    except (Problem, RobocoError) as error:
        return _rest_error(error)
    return JSONResponse(MessageToDict(card_of(team, name, f"{base_url(request)}/a2a/{name}")))


def card_of(team: Team, name: str, url: str) -> a2a.AgentCard:
    """Return the card of a team: its agents are its skills."""
    modes = ["text/plain", "application/json"]
    card = a2a.AgentCard(
        name=name,
        description=team.description or f"The team {name}: {', '.join(agent.name for agent in team.agents)}.",
        version="1",
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=True),
        supported_interfaces=[
            a2a.AgentInterface(url=url, protocol_binding=binding, protocol_version=PROTOCOL_VERSION_CURRENT)
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        default_input_modes=modes,
        default_output_modes=modes,
        skills=[
            a2a.AgentSkill(id=agent.name, name=agent.name, description=agent.description or agent.name, tags=[name])
            for agent in team.agents
        ],
    )
    bearer = a2a.HTTPAuthSecurityScheme(scheme="bearer", description="A key of `roboco keys create`.")
    card.security_schemes["bearer"].CopyFrom(a2a.SecurityScheme(http_auth_security_scheme=bearer))
    card.security_requirements.append(a2a.SecurityRequirement(schemes={"bearer": a2a.StringList()}))
    return card


def _rest(method: Method) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            agent = await _agent(request)
            params = method.params()
            if request.method == "POST":
                _parse(await _body(request), params)
            else:
                _parse_query(request.query_params, params)
            for name in request.path_params.keys() - {"team"}:
                setattr(params, name, request.path_params[name])
            return await _serve(request, agent, method, params, lambda result: result)
        except (A2AError, Problem, RobocoError, HTTPException, ParseError) as error:
            return _rest_error(error)

    return serve


async def _rpc(request: Request) -> Response:
    rpc_id: Any = None
    try:
        agent = await _agent(request)
        body = await _body(request)
        rpc_id = body.get("id")
        method = METHODS.get(str(body.get("method")))
        if body.get("jsonrpc") != "2.0" or not isinstance(body.get("params", {}), dict):
            raise a2a.InvalidRequestError("send a request of JSON-RPC 2.0, whose params are an object")
        if method is None:
            raise a2a.MethodNotFoundError(f"the methods are {', '.join(METHODS)}")
        record_operation(action=str(body["method"]))
        _parse(body.get("params", {}), params := method.params())
        del body  # the client may have filled it, and waits long for its answer
        return await _serve(
            request, agent, method, params, lambda result: {"jsonrpc": "2.0", "id": rpc_id, "result": result}
        )
    except (A2AError, Problem, RobocoError, HTTPException, ParseError) as error:
        status, kind, found = _error(error)
        said = {"code": JSON_RPC_ERROR_CODE_MAP[type(kind)], "message": kind.message, "data": build_error_details(kind)}
        kept = status if status in _ENDS or status >= 500 else 200
        record_operation(outcome=outcome_of(status))
        return JSONResponse({"jsonrpc": "2.0", "id": rpc_id, "error": said}, kept, found.headers if found else None)


async def _agent(request: Request) -> TeamAgent:
    """Return the agent that a request names. Raise the error of A2A for another version of the protocol."""
    caller, gateway = await authenticate(request), gateway_of(request)
    caller.require(Scope.READ)
    version = request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER) or "0.3"
    if version.partition(".")[0] != "1":
        raise a2a.VersionNotSupportedError(f"send the header {VERSION_HEADER}: {PROTOCOL_VERSION_CURRENT}")
    name = request.path_params["team"]
    await gateway.calls.reads.run(named_team, gateway.orchestrator, caller, name)
    return TeamAgent(gateway, caller, name, base_url(request))


async def _body(request: Request) -> dict[str, Any]:
    data = b"".join([piece async for piece in request.stream()])  # the request keeps nothing of it
    try:
        body = validated_json(json.loads(data or b"{}", object_pairs_hook=unique_names))
    except (ValueError, RecursionError) as error:
        raise JSONParseError(str(error)[:200]) from None
    if not isinstance(body, dict):
        raise a2a.InvalidRequestError("the body must be an object; a batch is not supported")
    return body


def _parse_query(given: QueryParams, params: Message) -> None:
    """Read the parameters of a query. Raise ParseError for a value that would be left out."""
    parse_params(given, params)
    for name, text in given.items():
        field = next((one for one in params.DESCRIPTOR.fields if one.camelcase_name == name), None)
        is_flag = field is not None and field.type == field.TYPE_BOOL
        if is_flag and text.lower() not in ("true", "false"):
            raise ParseError(f"{name} must be true or false")
        if field is not None and field.enum_type is not None and text not in field.enum_type.values_by_name:
            raise ParseError(f"{name} must be one of {', '.join(field.enum_type.values_by_name)}")


def _parse(given: dict[str, Any], params: Message) -> None:
    """Read the parameters, without the fields that a later release has added."""
    try:
        ParseDict(given, params, ignore_unknown_fields=True)
    except OverflowError as error:
        raise ParseError(str(error)) from None


async def _serve(
    request: Request,
    agent: TeamAgent,
    method: Method,
    params: Message,
    wrap: Callable[[dict[str, Any]], dict[str, Any]],
) -> Response:
    gateway = agent.gateway
    async with AsyncExitStack() as held:  # before the message is accepted: nothing of a refused request is left
        if method.streams or method.call == TeamAgent.send:
            await held.enter_async_context(gateway.limits.open_stream(agent.caller))
        task_id = getattr(params, "task_id", "") or getattr(params, "id", "")
        if task_id:
            record_operation(task=str(task_id)[:MAX_PATH])
        result = await method.call(agent, params)
        if isinstance(result, AcceptedTurn):
            record_operation(task=result.task.task_id, outcome="accepted")
        if method.streams:
            return event_stream(gateway, _frames(agent, result, wrap), held)
        if isinstance(result, AcceptedTurn):
            cast(Any, params).message.Clear()
            work = _answered(agent, result, cast(Any, params).configuration)
            result = await answer_while_connected(request, gateway.closing, work)
        return JSONResponse(wrap(_document(result)))


async def _answered(
    agent: TeamAgent, accepted: AcceptedTurn, options: a2a.SendMessageConfiguration
) -> a2a.SendMessageResponse:
    """Return the task once it waits or has ended, or immediately if the client wants that."""
    if not options.return_immediately:
        async with aclosing(agent.events(accepted)) as events:
            async for _ in events:
                continue
    history = options.history_length if options.HasField("history_length") else None
    return a2a.SendMessageResponse(task=await agent.whole(accepted.task, history))


async def _frames(
    agent: TeamAgent, accepted: AcceptedTurn, wrap: Callable[[dict[str, Any]], dict[str, Any]]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(agent.events(accepted)) as events:
        async for event in events:
            yield frame(wrap(_document(event)))


def _document(message: Message) -> dict[str, Any]:
    """Return a message as JSON. A list has all of its fields, also those that are empty."""
    always = isinstance(message, a2a.ListTasksResponse)
    return MessageToDict(message, always_print_fields_with_no_presence=always)


def _error(error: Exception) -> tuple[int, A2AError, Problem | None]:
    """Return the status, the error of A2A, and the Problem of a request that fails."""
    match error:
        case JSONParseError():
            return 400, error, None
        case A2AError():
            return A2A_ERROR_MAPPING[type(error)].http_code, error, None
        case ParseError():
            return 400, a2a.InvalidParamsError(str(error)[:500]), None
        case _:
            problem = problem_of(error)
            default = a2a.InternalError if problem.status >= 500 else a2a.InvalidParamsError
            return problem.status, _KINDS.get(problem.code, default)(problem.message), problem


def _rest_error(error: Exception) -> Response:
    status, kind, problem = _error(error)
    body = build_rest_error_payload(a2a.InvalidRequestError(str(kind)) if isinstance(kind, JSONParseError) else kind)
    body["error"]["code"] = status
    return JSONResponse(body, status, problem.headers if problem else None)
