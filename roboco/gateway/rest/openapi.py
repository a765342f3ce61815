"""openapi: complete the OpenAPI document that FastAPI derives from the routes.

FastAPI knows parameters, bodies and responses. Here follow the ways to authenticate, the problem document, the groups
of operations, and the docstrings of fields, which pydantic does not read by itself.
"""

import asyncio
import json
from functools import cache
from threading import Lock
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from roboco.gateway.rest.models import ProblemDocument
from roboco.team_files.field_descriptions import field_docstrings

PATH: Final = "/v1/openapi.json"
DESCRIPTION: Final = """Start, follow, steer and stop tasks of teams of LLM agents.

A control that is answered with 503, or not at all, may be sent again with the same `Idempotency-Key` or `item_id`: it
has one effect. Each failure is a problem document (RFC 9457) with a `code` for programs and a `remedy` for people."""
TAGS: Final = (
    ("teams", "The teams that a key may submit."),
    ("tasks", "Create, list, show, fork, retry and compare tasks."),
    (
        "controls",
        "Messages, interruptions, stops, pauses, limits. Each is accepted once, and has a receipt.",
    ),
    ("calls", "Decisions of people and answers of clients on tool calls."),
    ("records", "The history, the conversation, the explanations and the usage of a task."),
    ("files", "Files of tasks, of any size, with ranges."),
    ("operations", "Queues, workers, rate limits, dead letters, stuck tasks and bulk controls, for operators."),
    ("streams", "Live items of tasks, resumable after each."),
    ("sign-in", "The caller, and the cookie of a browser."),
    ("openai", "OpenAI's API: a model is the name of a team. The descriptions of its bodies are OpenAI's."),
    ("health", "Probes of an orchestrator of containers. They need no key."),
)
LICENSE: Final = {"name": "Not named by the gateway", "identifier": "LicenseRef-Unspecified"}
SECURITY_SCHEMES: Final[dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key `rbk_ID_SECRET`, or a token of the OpenID Connect provider.",
    },
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key `rbk_ID_SECRET`."},
}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "DrainWorker": {"worker": "celery@agents-7f9c", "timeout": 60},
    "SwitchOff": {"target": "model:gpt-4o", "reason": "wrong answers since the update", "interrupt": False},
    "SwitchOn": {"target": "model:gpt-4o"},
    "NewTask": {"team": "desk", "prompt": "Write a note about the parcel.", "context": {"customer": "Ann"}},
    "NewMessage": {"message": "Shorter, please.", "if_busy": "interrupt"},
    "Interruption": {"message": "Stop writing. Which sources do you use?"},
    "StopRequest": {"reason": "no longer needed"},
    "ItemRequest": {"item_id": "pause-1"},
    "LimitsRequest": {"limits": {"max_steps": 200}},
    "TaskRetry": {"reason": "the key of the model server is valid again", "limits": {"max_steps": 200}},
    "ApprovalRequest": {"reason": "checked with the customer"},
    "DenialRequest": {"reason": "the amount is wrong"},
    "AnswerRequest": {"status": "success", "result": {"selection": [3, 4]}},
    "ResolutionRequest": {"happened": True, "result": {"id": 7}},
    "BulkRequest": {"control": "stop", "tenant": "acme", "team": ["research"], "until": "2h", "reason": "wrong prompt"},
    "NewComparison": {"model": "large", "runs": 3},
    "ErasureOrder": {"reason": "asked by the customer", "forks": "erase"},
    "ErasuresOrder": {"tenant": "acme", "status": ["ended"], "until": "2026-01-31T00:00:00Z", "dry_run": True},
    "MemoryErasure": {"tenant": "acme", "of": "context.user", "value": "alice"},
    "ForkTask": {"seq": 4, "message": "Try it in English."},
}
"""The example of each body of a request, by the name of its schema."""


OPENAI_STATUSES: Final = (400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503)
OPENAI_ERROR: Final[dict[str, Any]] = {
    "description": "An error, in the shape of OpenAI's API.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {
                            "message": {"type": "string"},
                            "type": {"type": "string"},
                            "param": {"type": ["string", "null"]},
                            "code": {"type": "string"},
                        },
                    }
                },
            }
        }
    },
}


def describe(app: FastAPI) -> None:
    """Let the application return the completed document, also at `PATH`.

    It is built at its first use, in a thread: that takes seconds, in which the process serves other requests. FastAPI
    cannot build it in two threads at once.
    """
    building = Lock()

    def document() -> dict[str, Any]:
        with building:
            app.openapi_schema = app.openapi_schema or _completed(app)
        return app.openapi_schema

    @cache
    def body(root: str) -> bytes:
        served = document() | {"servers": [{"url": root or "/"}]}
        return json.dumps(served, separators=(",", ":")).encode()

    async def read_document(request: Request) -> Response:
        root = request.scope.get("root_path", "")  # where an application mounts the gateway
        return Response(await asyncio.to_thread(body, root), media_type="application/json")

    app.openapi = document  # type: ignore[method-assign] # FastAPI documents this way
    app.add_api_route(PATH, read_document, include_in_schema=False)


def _completed(app: FastAPI) -> dict[str, Any]:
    tags = [{"name": name, "description": text} for name, text in TAGS]
    document = get_openapi(
        title=app.title, version=app.version, routes=app.routes, description=DESCRIPTION, tags=tags, summary="Roboco"
    )
    components = document.setdefault("components", {})
    components["securitySchemes"] = SECURITY_SCHEMES
    schemas = components.setdefault("schemas", {})
    schemas["ProblemDocument"] = _problem_schema(schemas)
    for name, example in EXAMPLES.items():
        if name in schemas:
            schemas[name]["examples"] = [example]
    _describe_fields(schemas)
    _close_pattern_objects(document)
    document["servers"] = [{"url": "/"}]
    document["info"]["license"] = LICENSE
    document["security"] = [{name: []} for name in SECURITY_SCHEMES]
    for operation in _operations(document, "openai"):
        operation["responses"] |= {str(status): OPENAI_ERROR for status in OPENAI_STATUSES}
    for operation in _operations(document, "health"):
        operation["security"] = []
    return document


def _problem_schema(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of problems, and add those to which it refers."""
    schema = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas |= schema.pop("$defs", {})
    schema["required"] = [name for name in schema["required"] if name != "mistakes"]
    return schema


def _describe_fields(schemas: dict[str, Any]) -> None:
    """Add the docstrings of fields to the schemas of the models of Roboco. FastAPI suffixes some names."""
    models = {kind.__name__: kind for kind in _models(BaseModel)}
    for name, schema in schemas.items():
        kind = models.get(name.removesuffix("-Input").removesuffix("-Output"))
        texts = {} if kind is None else field_docstrings(kind)
        for field, described in schema.get("properties", {}).items():
            if field in texts:
                described.setdefault("description", texts[field])


def _close_pattern_objects(value: Any) -> None:
    """Forbid names outside the pattern of an object whose names have one: pydantic checks them, but omits this."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict(part):
                if "patternProperties" in part:
                    part.setdefault("additionalProperties", False)
                waiting += part.values()
            case list(items):
                waiting += items
            case _:
                pass


def _models(kind: type[BaseModel]) -> list[type[BaseModel]]:
    found = [one for one in kind.__subclasses__() if one.__module__.startswith("roboco.")]
    return found + [deeper for one in kind.__subclasses__() for deeper in _models(one)]


def _operations(document: dict[str, Any], tag: str) -> list[dict[str, Any]]:
    return [
        operation
        for path in document["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict) and tag in operation.get("tags", ())
    ]
