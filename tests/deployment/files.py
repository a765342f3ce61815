"""Readers of the files that deploy Roboco, and the names of Roboco that these files may use."""

import importlib.util
from pathlib import Path
from typing import Any

import yaml

from roboco.gateway.settings import PREFIX as GATEWAY_PREFIX
from roboco.gateway.settings import GatewaySettings
from roboco.settings import PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
OTHER_VARIABLES = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "FLOWER_BASIC_AUTH",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
}
"""Variables that Roboco's processes read without a field of Settings of this name."""
METRICS = {
    "roboco_cost_total",
    "roboco_dead_letters",
    "roboco_first_token_seconds",
    "roboco_gateway_open_streams",
    "roboco_gateway_requests_total",
    "roboco_gateway_response_seconds",
    "roboco_lease_expirations_total",
    "roboco_open_streams",
    "roboco_open_tasks",
    "roboco_queue_length",
    "roboco_queue_wait_seconds",
    "roboco_refused_messages_total",
    "roboco_attempt_restarts_total",
    "roboco_interrupt_latency_seconds",
    "roboco_stream_lag_seconds",
    "roboco_tasks_total",
    "roboco_tokens_total",
    "roboco_tool_seconds",
    "roboco_turn_seconds",
}
HISTOGRAMS = {name for name in METRICS if name.endswith("_seconds")}


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file, in order."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def unknown_variables(names: set[str]) -> set[str]:
    """Return the names that no process of Roboco reads."""
    known = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}
    known |= {f"{GATEWAY_PREFIX}{field.upper()}" for field in GatewaySettings.model_fields}
    return names - known - OTHER_VARIABLES


def missing_modules(command: list[str]) -> list[str]:
    """Return the modules of a command that do not exist, such as `-A roboco.workers.agents`."""
    named = [command[place + 1] for place, word in enumerate(command[:-1]) if word in ("-A", "-m")]
    return [module for module in named if importlib.util.find_spec(module) is None]
