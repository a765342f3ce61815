"""wiring: build an engine from the adapters that the settings select."""

import importlib
import os
import socket
from dataclasses import dataclass

import redis
from celery import Celery

from roboco.adapters.celery.app import application, configuration
from roboco.adapters.celery.dispatcher import CeleryDispatcher
from roboco.adapters.clock import SystemClock
from roboco.adapters.extras import missing_packages
from roboco.adapters.mcp.confined import Confinement
from roboco.adapters.mcp.servers import McpServers
from roboco.adapters.model.lazy import ModelAtFirstUse
from roboco.adapters.notifications.callback import Callbacks
from roboco.adapters.notifications.notifier import OutsideDeliverer
from roboco.adapters.notifications.webhook import Webhooks
from roboco.adapters.redis.attempts import RedisAttempts
from roboco.adapters.redis.dead_letters import RedisDeadLetters
from roboco.adapters.redis.inbox import RedisInbox
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.leases import RedisCalls, RedisTurns
from roboco.adapters.redis.logs import RedisLogs
from roboco.adapters.redis.rate_limits import RedisRates
from roboco.adapters.redis.schedule import RedisSchedule
from roboco.adapters.redis.scripts import Scripts
from roboco.adapters.redis.signals import RedisSignals
from roboco.adapters.redis.task_store import RedisBoard
from roboco.adapters.redis.worker_registry import RedisWorkerRegistry
from roboco.adapters.sandbox.budget import Budget, read_budget
from roboco.adapters.sandbox.sandbox import Sandbox
from roboco.adapters.search.memory_index import MemoryIndex
from roboco.adapters.telemetry.instrumented_model import ObservedModel
from roboco.adapters.telemetry.redaction import Hidden
from roboco.adapters.telemetry.telemetry import Observed
from roboco.adapters.telemetry.tracing_setup import open_spans
from roboco.adapters.templates.templates import JinjaPrompts
from roboco.adapters.tokenizers import KnownTokenizers
from roboco.adapters.tools.builtin import BuiltinTools, text_of
from roboco.adapters.tools.functions import Functions
from roboco.adapters.tools.toolbox import FunctionToolbox
from roboco.adapters.workspace.open import Workspace, open_workspace
from roboco.domain.team.model_limits import OPENAI, ModelLimits
from roboco.domain.url import without_credentials
from roboco.engine.engine import Engine, Policy
from roboco.engine.frozen_teams import FrozenTeams
from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.ports import Dispatcher, NoTelemetry, Telemetry
from roboco.settings import Settings


def producer(settings: Settings) -> Celery:
    """Return a Celery application that sends to Roboco's queues and consumes nothing."""
    return application(configuration(settings.broker, keys=settings.signing_keys))


@dataclass(frozen=True)
class Host:
    """The process in which an engine runs."""

    telemetry: Telemetry | None = None
    worker: str = ""
    """The node name of the process's worker; "" if it is not a worker."""
    time_up: type[Exception] = TimeoutError
    """The exception that the pool raises in a tool when the tool's time limit is reached."""
    calls_at_once: int = 1
    """The number of tool calls that the worker runs in parallel, in all of its processes."""


def build_engine(settings: Settings, dispatcher: Dispatcher, client: redis.Redis, host: Host) -> Engine:
    """Return the engine of this process. It connects nothing before its first use. Do not share it across a fork."""
    keys = Keys(settings.prefix)
    scripts = Scripts(client)
    workspace = open_workspace(settings.workspace, settings.s3_endpoint_url, settings.s3_timeout)
    model = ModelAtFirstUse(settings.allowed_model_servers)
    return Engine(
        board=RedisBoard(scripts, keys),
        turns=RedisTurns(scripts, keys, settings.lease_seconds),
        calls=RedisCalls(scripts, keys, settings.lease_seconds),
        schedule=RedisSchedule(scripts, keys),
        attempts=RedisAttempts(client, keys, settings.lease_seconds),
        dead=RedisDeadLetters(lambda: client, keys),
        inbox=RedisInbox(scripts, keys),
        logs=RedisLogs(client, keys),
        histories=workspace.histories,
        files=workspace.files,
        model=model if host.telemetry is None else ObservedModel(model, host.telemetry),
        rates=RedisRates(scripts, keys, model_limits(settings)),
        tokenizers=KnownTokenizers(),
        prompts=JinjaPrompts(),
        toolbox=_toolbox(settings, workspace, host.time_up, read_budget(settings.sandbox_memory, host.calls_at_once)),
        dispatcher=dispatcher,
        deliverer=_deliverer(settings),
        signals=RedisSignals(settings.redis_url, keys),
        workers=RedisWorkerRegistry(scripts, keys, host.worker),
        clock=SystemClock(),
        heartbeat=LeaseHeartbeat(settings.lease_seconds / 3),
        teams=FrozenTeams(workspace.files),
        policy=Policy(
            settings.lease_seconds,
            settings.redelivery_delay,
            attempts=settings.max_attempts,
            keep=settings.retention,
            max_queued=settings.max_queued,
            outage_limit=settings.outage_timeout,
        ),
        telemetry=host.telemetry or NoTelemetry(),
    )


def workspace_address(settings: Settings) -> str:
    """Return where the workspace is, for people: with the S3 endpoint, or with this host's name if it is a folder."""
    if settings.workspace.startswith("file:"):
        return f"{without_credentials(settings.workspace)} on {socket.gethostname()}"
    endpoint = f" at {settings.s3_endpoint_url}" if settings.s3_endpoint_url else ""
    return without_credentials(f"{settings.workspace}{endpoint}")


def _deliverer(settings: Settings) -> OutsideDeliverer:
    callbacks = Callbacks(settings.callback_broker_url or settings.broker, settings.allowed_callbacks)
    return OutsideDeliverer(callbacks, Webhooks(settings.allowed_webhooks, settings.allowed_webhook_env))


def model_limits(settings: Settings) -> ModelLimits:
    """Return the operator's limits of models. Limits without an address apply to OPENAI_BASE_URL of this process."""
    return ModelLimits(settings.model_limits, os.environ.get("OPENAI_BASE_URL") or OPENAI)


def client_telemetry(settings: Settings) -> Observed | None:
    """Return the telemetry of a process that is not a worker: traces, or None if the settings do not enable them.

    Raise UsageError if traces cannot be exported.
    """
    spans = open_spans(settings.tracing, os.environ)
    return None if spans is None else Observed(None, spans)


def _toolbox(settings: Settings, workspace: Workspace, time_up: type[Exception], budget: Budget) -> FunctionToolbox:
    model = settings.embeddings_model
    rank = None
    if model is not None and not missing_packages("workers"):  # a client without them runs no tools
        embeddings = importlib.import_module("roboco.adapters.search.embeddings")  # which imports openai
        rank = embeddings.EmbeddingRank(model, settings.embeddings_base_url, settings.embeddings_api_key_env)
    index = MemoryIndex(
        workspace.histories, text_of(workspace.files), settings.cache_folder, rank, workspace=settings.workspace
    )
    builtin = BuiltinTools(workspace.files, index, Sandbox(budget=budget))
    servers, functions = mcp_servers(settings), Functions(settings.tool_modules)
    return FunctionToolbox(workspace.files, builtin, servers, functions, time_up, hidden_of(settings))


def mcp_servers(settings: Settings) -> McpServers:
    """Return the MCP servers that the operator allows, with the rights that the operator grants them."""
    confinement = Confinement(settings.mcp_sandbox, settings.mcp_paths)
    return McpServers(settings.allowed_mcp_servers, settings.allowed_mcp_env, confinement=confinement)


def dispatcher_of(app: Celery) -> Dispatcher:
    """Return the dispatcher that sends with this application."""
    return CeleryDispatcher(app)


def hidden_of(settings: Settings) -> Hidden:
    """Return the mask of this process's secrets, including the variables that are passed to servers."""
    of_models = (entry.partition("@")[0] for entry in settings.allowed_model_servers)
    named = (*settings.allowed_mcp_env, *settings.allowed_webhook_env, settings.embeddings_api_key_env, *of_models)
    return Hidden(os.environ, named)
