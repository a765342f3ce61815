"""wiring: build an engine from the adapters that the settings select."""

import importlib
import logging
import os
from dataclasses import dataclass, field
from importlib.metadata import version

import redis
from celery import Celery

from roboco.broker.app import app_settings, create_app
from roboco.broker.broker import producer_settings
from roboco.broker.broker_identity import same_broker
from roboco.broker.names import COORDINATOR_QUEUE, tenant_lanes
from roboco.broker.shop import CeleryShop
from roboco.domain.day_budget import TenantBudgets
from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import OPENAI_BASE_URL, ModelLimits
from roboco.domain.url import strip_credentials, without_query
from roboco.engine.engine import Engine, Policy, Process, Services, TaskStores, WorkspaceRecords
from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.engine.held_work import HeldWork
from roboco.engine.switches import SwitchBoard
from roboco.engine.workspace_records import FrozenTeams
from roboco.model.allowlist import variables_for
from roboco.model.lazy import lazy_model
from roboco.notifications.callback import CallbackSender
from roboco.notifications.webhook import WebhookSender
from roboco.ports.clock import Clock
from roboco.ports.dispatcher import Dispatcher
from roboco.ports.host import Host
from roboco.ports.notifier import Deliver
from roboco.ports.telemetry import Telemetry
from roboco.process.credentials import Credentials
from roboco.process.extras import missing_packages
from roboco.redis.client import connect_for_renewals
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.redis.leases import RedisLeaseRenewals, RedisLeases
from roboco.redis.logs import RedisEventLogs
from roboco.redis.mcp_tokens import RedisTokenStore
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.redis.signals import RedisSignals
from roboco.redis.task_index import RedisTaskIndex
from roboco.redis.task_store import RedisTaskStore, StoredSteps
from roboco.redis.worker_registry import RedisWorkerRegistry
from roboco.settings import Settings
from roboco.telemetry.instrumented_model import instrumented
from roboco.telemetry.redaction import Redactor
from roboco.telemetry.telemetry import ProcessTelemetry
from roboco.telemetry.tracing_setup import open_tracer
from roboco.tools.builtin import BuiltinTools
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.servers import McpServers
from roboco.tools.sandbox.budget import read_budget
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.tools.search.index_cache import cache_folder
from roboco.tools.search.memory_index import Embedder, MemoryIndex
from roboco.tools.toolbox import FunctionToolbox
from roboco.workspace.open import Workspace as OpenWorkspace
from roboco.workspace.open import open_workspace

_log = logging.getLogger(__name__)


def producer_app(settings: Settings) -> Celery:
    """Return a Celery application that sends to Roboco's queues and consumes nothing."""
    return create_app(app_settings(settings.broker, keys=settings.signing_keys) | producer_settings(settings.broker))


@dataclass(frozen=True)
class HostProcess:
    """The process in which an engine runs."""

    telemetry: Telemetry | None = None
    worker: str = ""
    """The node name of the process's worker; "" if it is not a worker."""
    timeout_error: type[Exception] = TimeoutError
    """The exception that the pool raises in a tool when the tool's time limit is reached."""
    host: Host = field(default_factory=Host)
    """The process, as far as its work is taken from it before it ends."""
    max_parallel_calls: int = 1
    """The number of tool calls that the worker runs in parallel, in all of its processes."""


def build_engine(settings: Settings, dispatcher: Dispatcher, client: redis.Redis, host: HostProcess) -> Engine:
    """Return the engine of this process. It connects nothing before its first use. Do not share it across a fork."""
    keys = Keys(settings.prefix)
    scripts = Scripts(client)
    workspace = open_workspace(settings.workspace, settings.s3_endpoint_url, settings.s3_timeout)
    workers = RedisWorkerRegistry(scripts, keys, host.worker)
    switches = SwitchBoard(workspace.files, workers, Clock())
    credentials = Credentials(settings.credentials, secret_mask(settings))
    call_model = lazy_model(settings.allowlist.model_servers, credentials)
    large_steps = StoredSteps(workspace.histories.read)
    return Engine(
        tasks=TaskStores(
            task_store=RedisTaskStore(scripts, keys, large_steps),
            leases=RedisLeases(scripts, keys, settings.lease_seconds, large_steps),
            schedule=RedisSchedule(scripts, keys),
            event_logs=RedisEventLogs(client, keys),
            dead_letters=RedisDeadLetters(lambda: client, keys),
            task_index=RedisTaskIndex(scripts, keys, settings.tenant),
        ),
        workspace=WorkspaceRecords(
            workspace.files, workspace.histories, FrozenTeams(workspace.files, origin=_origin())
        ),
        services=Services(
            call_model=call_model if host.telemetry is None else instrumented(call_model, host.telemetry),
            rate_limiter=RedisRateLimiter(scripts, keys, model_limits(settings)),
            toolbox=_build_toolbox(settings, workspace, host, credentials),
            dispatcher=dispatcher,
            deliver=_notifier(settings),
            listen=RedisSignals(settings.redis_url, keys).listen,
            workers=workers,
            shop=_build_shop(settings),
            telemetry=host.telemetry or Telemetry(),
        ),
        process=Process(
            heartbeat=_build_heartbeat(settings, keys, scripts),
            held_work=HeldWork(host.host, switches),
            switches=switches,
        ),
        clock=Clock(),
        policy=Policy(
            settings.lease_seconds,
            settings.redelivery_delay,
            max_attempts=settings.max_attempts,
            retention=settings.retention,
            retention_rules=settings.parsed_retention_rules,
            index_retention=settings.index_retention * 86_400,
            max_queued=settings.max_queued,
            budgets=TenantBudgets(settings.tenant_budgets if host.worker else ()),  # a client counts nothing
        ),
    )


def _build_heartbeat(settings: Settings, keys: Keys, claiming: Scripts) -> LeaseHeartbeat:
    """Return a heartbeat with its own connections. It can repeat a renewal that has timed out before the lease ends.

    The first renewal also connects to the cluster: if a node hangs, that takes a few time-outs.
    """
    client = connect_for_renewals(settings.redis_url, settings.lease_seconds / 6)
    renewals = RedisLeaseRenewals(Scripts(client), keys, settings.lease_seconds, claiming)
    return LeaseHeartbeat(renewals.renew, renewals.server_of, settings.lease_seconds / 3)


def shop_broker(settings: Settings) -> str:
    """Return the address of the broker of the operator's own applications."""
    return settings.callback_broker_url or settings.broker


def answers_queue(settings: Settings) -> str | None:
    """Return the queue of the shop's broker from which coordinators take answers, or None if it is Roboco's broker."""
    return None if same_broker(shop_broker(settings), settings.broker) else f"{settings.prefix}.answers"


def _build_shop(settings: Settings) -> CeleryShop:
    queue = answers_queue(settings)
    return CeleryShop(
        shop_broker(settings),
        settings.allowlist.tasks,
        lambda task_id: queue or tenant_lanes(COORDINATOR_QUEUE, tenant_of(task_id))[0],
    )


def _notifier(settings: Settings) -> Deliver:
    callbacks = CallbackSender(shop_broker(settings), settings.allowlist.callbacks)
    webhooks = WebhookSender(settings.allowlist.webhooks, settings.allowlist.webhook_env)
    return lambda target, notification: (callbacks if target.webhook is None else webhooks).deliver(
        target, notification
    )


def model_limits(settings: Settings) -> ModelLimits:
    """Return the operator's limits of models. Limits without an address apply to OPENAI_BASE_URL of this process."""
    return ModelLimits(settings.model_limits, _model_server())


def _model_server() -> str:
    return os.environ.get("OPENAI_BASE_URL") or OPENAI_BASE_URL


def _origin() -> dict[str, str]:
    """Return the release of this process, and the address of profiles without one, which may hold no secret."""
    return {"roboco": version("roboco"), "model_server": strip_credentials(without_query(_model_server()))}


def client_telemetry() -> ProcessTelemetry | None:
    """Return the telemetry of a process that is not a worker: traces, or None if the environment enables none.

    Raise UsageError if traces cannot be exported.
    """
    spans = open_tracer(os.environ)
    return None if spans is None else ProcessTelemetry(None, spans)


def _build_toolbox(
    settings: Settings, workspace: OpenWorkspace, host: HostProcess, credentials: Credentials
) -> FunctionToolbox:
    budget = read_budget(settings.sandbox_memory, host.max_parallel_calls)
    files, embedder = workspace.files, _embedder(settings)
    index = MemoryIndex(workspace.histories, files.read, cache_folder(), embedder, workspace=settings.workspace)
    builtin = BuiltinTools(files, index, Sandbox(budget=budget))
    servers, functions = build_mcp_servers(settings, credentials), FunctionLoader(settings.tool_modules)
    return FunctionToolbox(files, builtin, servers, functions, host.timeout_error, credentials)


def _embedder(settings: Settings) -> Embedder | None:
    """Return the model of the setting, else that of the extra `memory`, which both need; None without the extra."""
    if missing_packages("workers"):  # a client without them runs no tools
        return None
    if missing := missing_packages("memory"):
        if settings.embeddings_model is not None:
            _log.warning("memory_search finds words alone: run pip install 'roboco[memory]' for %s", ", ".join(missing))
        return None
    if settings.embeddings_model is None:
        bundled: Embedder = importlib.import_module("roboco.tools.search.bundled_model").BundledModel()
        return bundled
    model, at, rest = settings.embeddings_model.partition("@http")
    address = f"http{rest}" if at else None
    variable = next(filter(None, variables_for(address, settings.allowlist.model_servers)), "")
    embeddings = importlib.import_module("roboco.tools.search.embeddings")  # which imports httpx2
    server: Embedder = embeddings.OpenAIEmbedder(model, address, variable)
    return server


def build_mcp_servers(settings: Settings, credentials: Credentials | None = None) -> McpServers:
    """Return the MCP servers that the operator allows, with the rights that the operator grants them."""
    confinement = Confinement(settings.mcp_sandbox, settings.allowlist.mcp_paths)
    return McpServers(
        settings.allowlist.mcp_servers,
        settings.allowlist.mcp_env,
        confinement=confinement,
        tokens=RedisTokenStore(settings.redis_url, Keys(settings.prefix)),
        get_token=settings.mcp_tokens,
        credentials=credentials or Credentials(settings.credentials),
    )


def secret_mask(settings: Settings) -> Redactor:
    """Return the mask of this process's secrets, including the variables that are passed to servers."""
    of_models = (entry.partition("@")[0] for entry in settings.allowlist.model_servers)
    named = (*settings.allowlist.mcp_env, *settings.allowlist.webhook_env, *of_models)
    return Redactor(os.environ, named)
