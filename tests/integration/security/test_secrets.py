"""Secrets: canaries take the place of every secret, and no output of Roboco may contain one."""

import base64
import json
import os
import shlex
import signal
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import redis
from celery import Celery

from roboco import Orchestrator, parse_team
from roboco.domain.paths import summary_path
from roboco.local.process import Server, free_port, start_server
from roboco.local.seaweed import S3Server
from roboco.local.valkey import start_valkey
from roboco.workspace.s3 import connect_s3
from tests.support import forked
from tests.support.mcp_servers import SHOP, run_http_server
from tests.support.servers.hook_server import HookServer
from tests.support.servers.model_server import ModelServer, Reply, Request
from tests.support.servers.trace_server import TraceServer
from tests.support.stack import POOLS, ROOT, TOOLS, Stack, s3_environment, until

pytestmark = [pytest.mark.workers, pytest.mark.redis, pytest.mark.slow]

IN_ENVIRONMENT = {
    "OPENAI_API_KEY": "canary-openai",
    "TEAM_KEY": "canary-team",
    "EMBEDDINGS_KEY": "canary-embeddings",
    "SHOP_TOKEN": "canary-shop",
    "WEB_TOKEN": "canary-web",
    "DATABASE_PASSWORD": "canary-database",
    "HOOK_SECRET": "canary-hook",
    "FLOWER_BASIC_AUTH": "me:canary-flower",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=canary-otel",
}
OF_REDIS, OF_BROKER, OF_CALLBACKS = "canary-redis", "canary-broker", "canary-callbacks"
OF_MESSAGES, OF_MESSAGES_BEFORE = "canary-messages-0123456789012345", "canary-formerly-0123456789012345"
PLANTED = (
    *(value.removeprefix("me:").removeprefix("authorization=") for value in IN_ENVIRONMENT.values()),
    *(OF_REDIS, OF_BROKER, OF_CALLBACKS, OF_MESSAGES, OF_MESSAGES_BEFORE),
    *("canary-crm-of-no-tenant", "canary-model-of-no-tenant"),
)
UNSIGNED = {
    "task_id": "order-17",
    "team": {"name": "e", "agents": [{"name": "e", "prompt": "Be short."}]},
    "prompt": "Hello.",
}
COMMANDS = ("doctor", "dead-letters --json", "show {}", "session {}", "why {}", "top --once")
PAGES = ("/api/workers?refresh=1", "/api/tasks", "/api/queues/length", "/metrics", "/", "/tasks", "/broker")


class CanaryStack(Stack):
    """Workers that log at DEBUG, and Flower, with secrets of every kind in their environment."""

    level = "DEBUG"
    flower = ""
    guarded = 0
    """The process id of the Redis that requires passwords."""
    traces: TraceServer
    hooks: HookServer

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the workers, with its secrets."""
        return super().environment | IN_ENVIRONMENT | {"OTEL_EXPORTER_OTLP_ENDPOINT": self.traces.url}

    def start(self, pool: str, modules: str | None = None, **environment: str) -> Server:
        """Start a worker that serves metrics. The tools worker logs in JSON."""
        self.ports = getattr(self, "ports", {}) | {pool: free_port()}
        variables = {
            "ROBOCO_METRICS_PORT": str(self.ports[pool]),
            "ROBOCO_LOG_FORMAT": "json" if pool == "tools" else "text",
        }
        return super().start(pool, modules, **(variables | environment))

    def start_flower(self) -> None:
        """Start Flower, and wait until it shows the workers."""
        port = free_port()
        self.flower = f"http://127.0.0.1:{port}"
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "roboco.workers.watcher",
            "flower",
            f"--port={port}",
            "--debug",
        ]
        env = self.environment | {"FLOWER_UNAUTHENTICATED_API": "true"}
        self.workers["flower"] = start_server("flower", command, env=env, log=self.folder / "flower.log", cwd=ROOT)
        until(lambda: all(pool in self.page("/api/workers?refresh=1") for pool in ("agents", "tools")), 60, "Flower")

    def page(self, path: str) -> str:
        """Return a page of Flower."""
        me = base64.b64encode(IN_ENVIRONMENT["FLOWER_BASIC_AUTH"].encode()).decode()
        return fetch(urllib.request.Request(f"{self.flower}{path}", headers={"Authorization": f"Basic {me}"}))

    def run_command(self, line: str) -> str:
        """Run the command of `roboco`, and return its output and errors."""
        return forked.run_command(*line.split(), env=self.environment, folder=self.folder)[1]


def fetch(request: str | urllib.request.Request) -> str:
    """Return the body of the response, or the error."""
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())
    except OSError as error:
        return str(error)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[CanaryStack]:
    """Yield three workers and Flower. Their Redis, broker, store, models and MCP servers require secrets."""
    folder = tmp_path_factory.mktemp("canaries")
    with ExitStack() as exits:
        web, guarded = free_port(), start_valkey(folder / "guarded")
        exits.callback(guarded.stop)
        exits.enter_context(run_http_server(web))
        traces, hooks = exits.enter_context(TraceServer()), exits.enter_context(HookServer())
        refusing = exits.enter_context(ModelServer())
        refusing.script(lambda request: Reply(status=401, text=f"wrong key {request.headers['authorization']}"))
        with redis.Redis.from_url(guarded.url) as client:
            for user, password in {"state": OF_REDIS, "broker": OF_BROKER, "shop": OF_CALLBACKS}.items():
                client.execute_command("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all")
        exits.enter_context(s3_environment(s3))
        settings: dict[str, Any] = {
            "redis_url": f"redis://state:{OF_REDIS}@127.0.0.1:{guarded.port}/0",
            "broker_url": f"redis://broker:{OF_BROKER}@127.0.0.1:{guarded.port}/1",
            "allowlist": {
                "model_servers": tuple(
                    f"{secret}@{refusing.base_url}" for secret in ("EMBEDDINGS_KEY", "TEAM_KEY", "credential:model-key")
                ),
                "mcp_servers": (shlex.join(SHOP), f"http://127.0.0.1:{web}/mcp"),
                "mcp_env": ("SHOP_TOKEN", "WEB_TOKEN"),
                "callbacks": ("shop.notified",),
                "webhooks": (hooks.url,),
                "webhook_env": ("HOOK_SECRET",),
            },
            "signing_keys": (OF_MESSAGES, OF_MESSAGES_BEFORE),
            "callback_broker_url": f"redis://shop:{OF_CALLBACKS}@127.0.0.1:{guarded.port}/2",
            "embeddings_model": f"m@{refusing.base_url}",
            "credentials": "tests.support.tenant_credentials:find",
        }
        canary_stack = CanaryStack(folder, s3=s3, **settings)
        canary_stack.traces, canary_stack.hooks, canary_stack.guarded = traces, hooks, guarded.pid
        started = exits.enter_context(canary_stack)
        started.start_flower()
        yield started


def team(stack: CanaryStack, **profile: Any) -> Any:
    """Return a team whose tools receive secrets and try to leak them, with these fields of its model."""
    shop, web = (entry for entry in stack.settings.allowlist.mcp_servers)
    patient = {"connect_timeout": 60}
    return parse_team(
        {
            "name": "canaries",
            "models": {"standard": {"model": "m", "default": True} | profile},
            "agents": [{"name": "one", "prompt": "Work.", "tools": ["mcp:shop", "mcp:web", "spill", "memory_search"]}],
            "tools": [{"name": "spill", "function": f"{TOOLS}:spill_credential", "effect": "pure"}],
            "mcp_servers": {
                "shop": {"command": shlex.split(shop), "env": ["SHOP_TOKEN"], "tools": ["leak", "who"]} | patient,
                "web": {"url": web, "headers": {"Authorization": "WEB_TOKEN"}, "tools": ["leak", "who"]} | patient,
            },
        }
    )


def call_every_tool(request: Request) -> Reply:
    """Return a call of every tool, and after it a text."""
    if any(message["role"] == "tool" for message in request.messages):
        return Reply(text="done")
    calls: list[tuple[str, dict[str, str]]] = [(name, {}) for name in ("shop_leak", "web_leak", "shop_who", "web_who")]
    calls += [("spill", {}), ("spill", {"fails": "true"})]
    return Reply(tool_calls=[*calls, ("memory_search", {"query": "canary"})])


def dump_redis(url: str) -> str:
    """Return every key of the database with its value."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        read = {
            "string": client.get,
            "list": lambda key: client.lrange(key, 0, -1),
            "hash": client.hgetall,
            "set": client.smembers,
            "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            "stream": client.xrange,
        }
        kinds = [(key, client.type(key)) for key in client.scan_iter()]
        return repr([(key, read[kind](key)) for key, kind in kinds if kind != "none"])  # a key may expire meanwhile


def dump_workspace(stack: CanaryStack) -> str:
    """Return every object of the workspace."""
    client, bucket = connect_s3(stack.settings.s3_endpoint_url), stack.settings.workspace.split("/")[2]
    found = client.list_objects_v2(Bucket=bucket, Prefix=stack.folder.name)
    assert not found["IsTruncated"]
    keys = [one["Key"] for one in found["Contents"]]
    objects = []
    for key in keys:
        with suppress(client.exceptions.NoSuchKey):  # applied or delivered meanwhile
            objects.append((key, client.get_object(Bucket=bucket, Key=key)["Body"].read()))
    return repr(objects)


def outputs(stack: CanaryStack, task_id: str) -> Iterator[tuple[str, str]]:
    """Yield each output of Roboco, with its name."""
    for path in stack.folder.glob("*.log"):
        yield path.name, path.read_text(errors="replace")
    yield "state", dump_redis(stack.settings.redis_url)
    yield "broker", dump_redis(stack.settings.broker)
    yield "workspace", dump_workspace(stack)
    yield "callbacks", dump_redis(str(stack.settings.callback_broker_url))
    yield "models", repr([(record.request.body) for record in stack.model.requests])
    yield "webhooks", repr(stack.hooks.posted)
    yield "traces", stack.traces.raw.decode(errors="replace")
    for pool in POOLS:
        yield f"metrics of {pool}", fetch(f"http://127.0.0.1:{stack.ports[pool]}/metrics")
    for line in COMMANDS:
        yield f"roboco {line}", stack.run_command(line.format(task_id))
    nodes = json.loads(stack.page("/api/workers"))
    for page in (*PAGES, *(f"/worker/{node}" for node in nodes)):
        yield f"Flower {page}", stack.page(page)
    orchestrator: Orchestrator = stack.orchestrator
    for thing in (
        stack.settings,
        orchestrator,
        orchestrator._engine,
        orchestrator._engine.services.toolbox,
        orchestrator._client,
    ):
        yield type(thing).__name__, repr(thing) + str(thing)


def test_no_output_holds_a_secret(stack: CanaryStack, s3: S3Server) -> None:
    stack.model.script(call_every_tool)
    hook: dict[str, Any] = {"webhook": stack.hooks.url, "secret_env": "HOOK_SECRET"}
    callback: dict[str, Any] = {"celery": {"task": "shop.notified", "args": [], "kwargs": {}, "options": {}}}
    worked = stack.orchestrator.run(team(stack), "go", notify=[hook, callback])
    refused = stack.orchestrator.run(
        team(stack, base_url=stack.settings.allowlist.model_servers[0].partition("@")[2], api_key_env="TEAM_KEY"), "go"
    )
    credential = {"base_url": stack.settings.allowlist.model_servers[0].partition("@")[2]}
    unknown = stack.orchestrator.run(team(stack, api_key={"credential": "model-key"}, **credential), "go")
    stolen = stack.orchestrator.run(team(stack, api_key_env="DATABASE_PASSWORD"), "go")
    assert worked.result(60).status == "completed"
    assert "refuses the key in TEAM_KEY" in refused.result(60).reason
    assert "refuses credential 'model-key'" in unknown.result(60).reason
    assert "may not send the variable DATABASE_PASSWORD" in stolen.result(60).reason
    with Celery(broker=stack.settings.broker, set_as_current=False) as producer:
        producer.send_task("roboco.submit", kwargs=UNSIGNED, queue="roboco.coordinator")
        producer.send_task("shop.unknown", queue="roboco.coordinator")
    until(lambda: len(stack.orchestrator.operator.dead_letters()) == 2, 60, "the dead letters are stored")
    assert {"not signed", "this worker has no Celery task"} == {
        next(reason for reason in ("not signed", "this worker has no Celery task") if reason in letter.reason)
        for letter in stack.orchestrator.operator.dead_letters()
    }
    leaked = [result.error for step in worked.history() for result in step.results if result.is_error]
    assert len(leaked) == 3
    assert all("refuse" in str(error) and "canary" not in str(error) for error in leaked)
    returned = [result.result for step in worked.history() for result in step.results if not result.is_error]
    assert "23 characters: ***" in returned
    assert "the secret is ***" in stack.log("tools")

    until(lambda: stack.hooks.posted, 60, "the webhook has arrived")
    until(lambda: "shop.notified" in dump_redis(str(stack.settings.callback_broker_url)), 60, "the callback is sent")
    until(lambda: b"execute_tool" in stack.traces.raw, 60, "the calls are traced")

    found = dict(outputs(stack, worked.task_id))
    assert "webhook-signature" in found["webhooks"]
    assert all("roboco_queue_wait_seconds" in found[f"metrics of {pool}"] for pool in POOLS)
    assert '"level": "DEBUG"' in found["tools.log"]
    assert all(word in found["roboco doctor"] for word in ("redis", "broker", "workspace"))
    assert all(task.task_id in found["Flower /api/tasks"] for task in (worked, refused, stolen))
    assert "DEBUG" in found["agents.log"]
    assert_no_secret(stack, s3, found)

    [unsigned] = [letter for letter in stack.orchestrator.operator.dead_letters() if "not signed" in letter.reason]
    stack.orchestrator.operator.requeue_dead_letter(unsigned.letter_id)
    assert stack.orchestrator._engine.tasks.dead_letters.get(unsigned.letter_id) is None
    until(lambda: summary_path("order-17") in dump_workspace(stack), 60, "the requeued message is signed")

    os.kill(stack.guarded, signal.SIGKILL)
    until(lambda: all(stack.log(pool).count("Cannot connect") > 1 for pool in POOLS), 60, "the workers have lost Redis")
    assert_no_secret(stack, s3, {path.name: path.read_text(errors="replace") for path in stack.folder.glob("*.log")})
    assert_no_secret(
        stack,
        s3,
        {line: stack.run_command(line) for line in ("doctor", "tasks", "dead-letters", f"show {worked.task_id}")},
    )


def assert_no_secret(stack: CanaryStack, s3: S3Server, outputs: dict[str, str]) -> None:
    """Raise AssertionError if an output contains one of the secrets."""
    texts = {name: text for name, text in outputs.items() if text}
    assert texts
    for secret in (*PLANTED, s3.secret_key):
        for name, text in texts.items():
            found_at = text.find(secret)
            assert found_at < 0, f"{name} has {secret}: {text[max(0, found_at - 300) : found_at + 40]}"
