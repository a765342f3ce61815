"""Real tasks with model servers as they are: what servers were reported to send, byte by byte."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from roboco import TaskStep, parse_team
from tests.support.stack import LONG_LEASE, Stack

pytestmark = pytest.mark.workers

TIMEOUT = 120.0
EVENTS, JSON = "text/event-stream", "application/json"


def event(value: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps(value).encode()


def d(**delta: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def f(reason: str, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, **more}]})


def call(index: Any, call_id: Any, name: str | None, arguments: Any) -> bytes:
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    fragment = {"index": index, "id": call_id, "type": "function", "function": function}
    return d(tool_calls=[{key: value for key, value in fragment.items() if value is not None}])


U = event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
END = b"data: [DONE]\n\n"
CALLED = f("tool_calls") + U + END
A = '{"a":1,"b":2}'
TWICE = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
ONCE = [("add", {"a": 1, "b": 2})]
FOUR = d(content="Four.") + f("stop")


@dataclass
class Case:
    """A reply of a server, and what must become of the task."""

    body: bytes
    text: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    error: str = ""
    """The code of the error part, or ""."""
    quote: str = ""
    """What the error quotes."""
    requests: int = 1
    content_type: str = EVENTS
    status: int = 200
    hangs: bool = False
    """True if the connection stays open after the body."""
    usage: tuple[int, int] | None = None


CASES: dict[str, Case] = {
    # K1: parallel calls that share an index
    "k1 two ids": Case(
        call(0, "x1", "add", A) + call(0, "x2", "add", '{"a":3,"b":4}') + CALLED, calls=TWICE, requests=2
    ),
    "k1 two names": Case(
        call(0, None, "add", A) + call(0, None, "add", '{"a":3,"b":4}') + CALLED, calls=TWICE, requests=2
    ),
    "k1 fragments": Case(
        call(0, "x1", "add", '{"a":1,')
        + call(0, None, None, '"b":2}')
        + call(0, "x2", "add", '{"a":3')
        + call(0, None, None, ',"b":4}')
        + CALLED,
        calls=TWICE,
        requests=2,
    ),
    "k1 no index": Case(
        call(None, "x1", "add", A) + call(None, "x2", "add", '{"a":3,"b":4}') + CALLED, calls=TWICE, requests=2
    ),
    # K2: the name again
    "k2 name again": Case(call(0, "x1", "add", "") + call(0, "x1", "add", A) + CALLED, calls=ONCE, requests=2),
    "k2 name in each": Case(
        call(0, "x1", "add", '{"a":1,') + call(0, "x1", "add", '"b":2}') + CALLED, calls=ONCE, requests=2
    ),
    "k2 name in parts": Case(
        call(0, "x1", "ad", "") + call(0, None, "d", "") + call(0, None, None, A) + CALLED, calls=ONCE, requests=2
    ),
    "k2 empty id": Case(
        call(None, "x1", "add", '{"a":1,') + call(None, "", None, '"b":2}') + CALLED, calls=ONCE, requests=2
    ),
    "k2 whole call again": Case(call(0, "x1", "add", A) + call(0, "x1", "add", A) + CALLED, calls=ONCE, requests=2),
    # K3: shapes
    "k3 parts": Case(
        d(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}])
        + d(content=[{"type": "text", "text": "Four."}])
        + f("stop")
        + U
        + END,
        text="Four.",
        usage=(10, 5),
    ),
    "k3 arguments object": Case(call(0, "x", "add", {"a": 1, "b": 2}) + CALLED, calls=ONCE, requests=2),
    "k3 keep-alive": Case(b"data:\n\n" + b": comment\n\n" + d(content="Four.") + f("stop") + END, text="Four."),
    "k3 json": Case(
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Four."},"finish_reason":"stop"}]}',
        text="Four.",
        content_type=JSON,
    ),
    "k3 json as a stream": Case(
        b'\n\n {"choices":[{"index":0,"message":{"role":"assistant","content":"Four."},"finish_reason":"stop"}]}',
        text="Four.",
    ),
    "k3 message in events": Case(
        event({"choices": [{"message": {"content": "Four."}, "finish_reason": "stop"}]}) + END, text="Four."
    ),
    "k3 html": Case(b"<html>Sign in</html>", error="model", quote="Sign in", requests=2, content_type="text/html"),
    "k3 error field": Case(
        b'error: {"code":400,"message":"the request exceeds the available context size"}\n\n',
        error="context_length",
        quote="available context size",
    ),
    "k3 object error": Case(
        event({"object": "error", "message": "This model's maximum context length is 4096 tokens", "code": 400}),
        error="context_length",
        quote="4096 tokens",
    ),
    "k3 error text": Case(
        event({"error": "model runner has unexpectedly stopped"}),
        error="model",
        quote="unexpectedly stopped",
        requests=2,
    ),
    "k3 plain text": Case(b"upstream connect error", error="model", quote="upstream connect error", requests=2),
    "k3 no json": Case(b"data: {oops\n\n", error="unreadable", quote="oops", requests=2),
    "k3 nothing": Case(b"", error="broken_stream", quote="closed the stream", requests=2),
    "k3 error in a choice": Case(
        event({"choices": [{"index": 0, "delta": {}, "error": {"message": "it broke"}}]}),
        error="model",
        quote="it broke",
        requests=2,
    ),
    # K4: whole replies
    "k4 no end": Case(FOUR + U, text="Four.", usage=(10, 5)),
    "k4 open": Case(FOUR + U, text="Four.", hangs=True),
    "k4 open, no usage": Case(FOUR, text="Four.", hangs=True),
    "k4 no reason": Case(d(content="Four.") + U + END, text="Four."),
    "k4 no blank line": Case(d(content="Four.") + f("stop").rstrip(), text="Four."),
    # K5: silent success
    "k5 empty": Case(f("stop") + U + END, error="empty", quote="said nothing", requests=2),
    "k5 only reasoning": Case(d(reasoning_content="think") + f("length") + U + END, error="length", quote="max_tokens"),
    "k5 refusal": Case(
        d(refusal="I cannot help with that.") + f("stop") + U + END, error="refused", quote="I cannot help with that."
    ),
    "k5 filter": Case(
        d(content="Here is") + f("content_filter") + U + END, text="Here is", error="content_filter", quote="filter"
    ),
    "k5 function call": Case(
        d(function_call={"name": "add", "arguments": A}) + f("function_call") + U + END, calls=ONCE, requests=2
    ),
    "k5 error reason": Case(
        event(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": ""},
                        "finish_reason": "error",
                        "error": {"code": 502, "message": "Upstream idle timeout"},
                    }
                ]
            }
        )
        + END,
        error="model",
        quote="Upstream idle timeout",
        requests=2,
    ),
    # K8: usage
    "k8 xai": Case(
        FOUR
        + event(
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 9,
                    "total_tokens": 1019,
                    "completion_tokens_details": {"reasoning_tokens": 1000},
                },
            }
        )
        + END,
        text="Four.",
        usage=(10, 1009),
    ),
    "k8 openai": Case(
        FOUR
        + event(
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 1009,
                    "total_tokens": 1019,
                    "completion_tokens_details": {"reasoning_tokens": 1000},
                },
            }
        )
        + END,
        text="Four.",
        usage=(10, 1009),
    ),
    "k8 floats": Case(
        FOUR + event({"choices": [], "usage": {"prompt_tokens": 100.0, "completion_tokens": 5.0}}) + END,
        text="Four.",
        usage=(100, 5),
    ),
    # K9, K17: errors
    **{
        f"k9 {number}": Case(
            json.dumps({"error": {"message": text}}).encode(),
            error="context_length",
            quote=text[:36],
            content_type=JSON,
            status=400,
        )
        for number, text in enumerate(
            [
                "Input is too long for requested model.",
                "The input (140007 tokens) is longer than the model's context length (131072 tokens).",
                "This model's maximum prompt length is 131072 but the request contains 139000 tokens.",
                "Trying to keep the first 5000 tokens when context overflows. However, the model is loaded with "
                "context length of only 4096 tokens",
            ]
        )
    },
    "k17 list": Case(
        b'[{"error":{"code":400,"message":"Invalid value at \'tools[0]\'"}}]',
        error="status",
        quote="Invalid value at 'tools[0]'",
        content_type=JSON,
        status=400,
    ),
    "k17 detail": Case(
        b'{"detail":"model has no tools"}', error="status", quote="model has no tools", content_type=JSON, status=400
    ),
    "k17 tool_use_failed": Case(
        b'{"error":{"code":"tool_use_failed","message":"Failed to call a function.","failed_generation":"<x>"}}',
        error="malformed_tool_call",
        quote="Failed to call a function",
        requests=3,
        content_type=JSON,
        status=400,
    ),
    # K18: a byte order mark
    "k18": Case(b"\xef\xbb\xbf" + d(content="Four.") + d(content=" Five.") + f("stop") + END, text="Four. Five."),
    "crlf": Case((d(content="Four.") + f("stop") + U + END).replace(b"\n", b"\r\n"), text="Four.", usage=(10, 5)),
}


class RawServer:
    """A model server that sends the bytes of a case, which the user's message names."""

    def __init__(self) -> None:
        self.requests: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._released = threading.Event()
        raw = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                raw.answer(self, body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, client: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        [name] = {message["content"] for message in body["messages"] if message["content"] in (*CASES, "k19")}
        self.requests[name].append(body)
        case = CASES.get(name, Case(b""))
        if any(message["role"] == "tool" for message in body["messages"]):
            case = Case(d(content="Done.") + f("stop") + U + END)
        client.send_response(case.status)
        client.send_header("Content-Type", case.content_type)
        client.send_header("Connection", "close")
        client.end_headers()
        if name == "k19":
            for _ in range(12):
                client.wfile.write(d(reasoning_content="let me think "))
                client.wfile.flush()
                time.sleep(0.3)
            client.wfile.write(FOUR + U + END)
        client.wfile.write(case.body)
        client.wfile.flush()
        if case.hangs:
            self._released.wait(TIMEOUT)

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    running = RawServer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def histories(server: RawServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[TaskStep]]]:
    """Yield the histories of all cases, whose tasks run together."""
    team = {
        "name": "dialects",
        "models": {
            "raw": {"model": "m", "base_url": server.base_url, "first_token_timeout": 2.0, "idle_timeout": 20.0}
        },
        "agents": [{"name": "one", "prompt": "You add.", "model": "raw", "tools": ["add"]}],
        "tools": [{"name": "add", "function": "tests.support.tools_for_agents:add", "effect": "pure"}],
    }
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, lease_seconds=LONG_LEASE, allowlist={"model_servers": (server.base_url,)}) as stack:
        tasks = {name: stack.orchestrator.run(parse_team(team), name) for name in (*CASES, "k19")}
        found = {}
        for name, task in tasks.items():
            task.result(TIMEOUT)
            found[name] = task.history()
        yield found


@pytest.mark.parametrize("name", CASES)
def test_a_reported_reply_is_read_or_quoted(name: str, server: RawServer, histories: dict[str, list[TaskStep]]) -> None:
    case, steps = CASES[name], histories[name]
    turns = [step for step in steps if step.by_agent]
    first = turns[0]
    assert [(one.tool_name, one.args) for one in first.calls] == case.calls
    assert first.text == case.text
    error = first.error
    assert ("" if error is None else error.code) == case.error, error
    assert error is None or case.quote in error.message
    assert len(server.requests[name]) == case.requests
    if case.calls:
        results = [result.result for step in steps for result in step.results]
        assert results == [args["a"] + args["b"] for _, args in case.calls]
        assert turns[-1].text == "Done."
    usage = first.metadata["usage"]
    if case.usage is not None:
        assert (usage["tokens_in"], usage["tokens_out"]) == case.usage
    if case.status == 200:
        assert usage["tokens_in"] > 0, "the provider has received the request"
