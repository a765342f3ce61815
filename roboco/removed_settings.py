"""The variables of earlier releases that are no settings any more, each with what takes its place."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_LISTS: Final = ("model_servers", "mcp_servers", "mcp_env", "webhooks", "webhook_env", "callbacks")
_OF_CALLERS: Final = (
    *("requests_per_minute", "bytes_per_minute", "open_streams", "open_tasks", "open_bytes"),
    *("tokens_per_day", "cost_per_day"),
)
_LIMITS: Final = (*_OF_CALLERS, "max_steps", "max_tokens", "max_cost", "max_seconds")
REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {f"ROBOCO_ALLOWED_{key.upper()}": f"list its entries under {key} in the file of ROBOCO_ALLOWLIST" for key in _LISTS}
    | {f"ROBOCO_GATEWAY_{name.upper()}": f"write {name}=NUMBER in ROBOCO_GATEWAY_LIMITS" for name in _LIMITS}
    | {
        f"ROBOCO_GATEWAY_TENANT_{name.upper()}": f"write {name}=NUMBER in ROBOCO_GATEWAY_TENANT_LIMITS"
        for name in _OF_CALLERS
    }
    | {
        f"ROBOCO_GATEWAY_OIDC_{name.upper()}_CLAIM": f"write {name}=CLAIM in ROBOCO_GATEWAY_OIDC_CLAIMS"
        for name in ("tenant", "scope", "teams")
    }
    | {
        "ROBOCO_MCP_PATHS": "list its entries under mcp_paths in the file of ROBOCO_ALLOWLIST",
        "ROBOCO_EMBEDDINGS_BASE_URL": "write MODEL@ADDRESS in ROBOCO_EMBEDDINGS_MODEL",
        "ROBOCO_EMBEDDINGS_API_KEY_ENV": "list VARIABLE@ADDRESS under model_servers in the file of ROBOCO_ALLOWLIST",
        "ROBOCO_CACHE_DIR": "unset it; workers use the folder for temporary files, which TMPDIR names",
        "ROBOCO_REDELIVERY_DELAY": "unset it; it is two thirds of ROBOCO_LEASE_SECONDS",
        "ROBOCO_SWEEP_INTERVAL": "unset it; it is half a second, or a tenth of a shorter ROBOCO_LEASE_SECONDS",
        "ROBOCO_COORDINATOR_TIMEOUT": "unset it; it is 300 s",
        "ROBOCO_OUTAGE_TIMEOUT": "unset it; set outage_timeout of the model profile in the team file",
        "ROBOCO_INDEX_MAX_ENDED": "unset it; it is 100,000",
        "ROBOCO_TRACING": "unset it; set OTEL_EXPORTER_OTLP_ENDPOINT for traces, or OTEL_SDK_DISABLED=true for none",
        "ROBOCO_HEALTH_TIMEOUT": "unset it; it is 60 s",
        "ROBOCO_GATEWAY_SESSION_SECONDS": "unset it; it is 12 hours",
        "ROBOCO_GATEWAY_OIDC_SCOPE_PREFIX": "unset it; scopes in tokens begin with 'roboco:'",
        "ROBOCO_GATEWAY_MAX_BODY": "unset it; it is 8 MiB",
        "ROBOCO_GATEWAY_MAX_VALUES": "unset it; it is 50,000",
        "ROBOCO_GATEWAY_PING_SECONDS": "unset it; it is 15 s",
        "ROBOCO_GATEWAY_ROBOTO_POLL_SECONDS": "unset it; it is 20 s",
        "ROBOCO_GATEWAY_OPENAI_IGNORE": "unset it; ROBOCO_GATEWAY_OPENAI_PASS names parameters that are not ignored",
        "ROBOCO_GATEWAY_OPENAI_ON_DISCONNECT": "unset it; clients send the header X-Roboco-On-Disconnect: stop",
    }
)
"""What to do about each variable."""
