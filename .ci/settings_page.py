"""Write roboco/docs/settings.md from the fields of `Settings` and `GatewaySettings`: settings_page.py [--check].

The first line of a field's docstring goes into a table, the other lines follow the table.
"""

import ast
import inspect
import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from roboco.allowlist import Allowlist
from roboco.gateway.settings import PREFIX as GATEWAY_PREFIX
from roboco.gateway.settings import GatewaySettings
from roboco.settings import PREFIX, Settings

PAGE: Final = Path(__file__).parents[1] / "roboco" / "docs" / "settings.md"
GROUPS: Final = {
    "Servers": (
        "redis_url", "broker_url", "workspace", "s3_endpoint_url", "s3_timeout", "callback_broker_url", "prefix",
    ),
    "Teams and tools": (
        "teams_dir", "tool_modules", "allowlist", "credentials", "sandbox_memory", "mcp_sandbox", "mcp_tokens",
        "embeddings_model",
    ),
    "Identity": ("signing_keys", "tenant", "caller", "audit_log"),
    "Load": ("agents_concurrency", "max_queued", "model_limits", "tenant_budgets"),
    "Time": ("lease_seconds", "drain_timeout", "max_attempts", "retention", "retention_rules", "index_retention"),
    "Observability": ("log_format", "metrics_port", "metrics_address", "health_dir"),
}  # fmt: skip
ALLOWLIST_GROUPS: Final = {"Allowlist": tuple(Allowlist.model_fields)}
GATEWAY_GROUPS: Final = {
    "Gateway: access": (
        "authentication", "allowed_hosts", "cors_origins", "cookie_secret", "oidc_issuer", "oidc_audience",
        "oidc_claims",
    ),
    "Gateway: requests": (
        "limits", "tenant_limits", "call_timeout", "max_upload", "link_seconds", "stream_seconds", "openai_pass",
        "roboto_team", "flower_url",
    ),
}  # fmt: skip
HEAD: Final = """# Settings

For operators and developers: every environment variable. Clients, workers and commands read their settings from
environment variables. An empty variable counts as none. A wrong one is a UsageError that names the variable, its
value and the problem. The entries of a list are separated by commas. This page is generated from `roboco/settings.py`
and `roboco/gateway/settings.py`. `roboco serve` also reads those of the gateway.
"""
TAIL: Final = """
## Without the prefix

| variable | meaning |
|---|---|
| `OPENAI_API_KEY`, `OPENAI_BASE_URL` | the model server of profiles without one, as the `openai` package reads them |
| `AWS_...` | credentials of S3, as boto3 reads them |
| `OTEL_...` | the exporter of traces, as OpenTelemetry reads them |

`ROBOCO_LOCAL_MODEL` names a GGUF file that `roboco run`, `demo` and `dev` use instead of downloading a model.
"""


class Part(NamedTuple):
    """The settings of one model."""

    model: type[BaseModel]
    prefix: str
    groups: dict[str, tuple[str, ...]]


PARTS: Final = (
    Part(Settings, PREFIX, GROUPS),
    Part(Allowlist, "", ALLOWLIST_GROUPS),
    Part(GatewaySettings, GATEWAY_PREFIX, GATEWAY_GROUPS),
)


def page() -> str:
    """Return the text of the page. Raise ValueError unless each field is in exactly one group."""
    text = HEAD
    for part in PARTS:
        grouped = [name for names in part.groups.values() for name in names]
        if sorted(grouped) != sorted(part.model.model_fields):
            raise ValueError(f"not in exactly one group: {set(grouped) ^ set(part.model.model_fields)}")
        texts = docstrings(part.model)
        text += "".join(_group(part, title, names, texts) for title, names in part.groups.items())
    return text + TAIL


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields by name."""
    [tree] = ast.parse(inspect.getsource(model)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    texts = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                raise ValueError(f"field {field.target.id!r} of {model.__name__} has no docstring")
            texts[field.target.id] = inspect.cleandoc(str(after.value.value))
    return texts


def _group(part: Part, title: str, names: tuple[str, ...], texts: dict[str, str]) -> str:
    hints = get_type_hints(part.model, include_extras=True)
    named = "variable" if part.prefix else "key"
    lines = [f"\n## {title}\n", f"| {named} | value | default | meaning |", "|---|---|---|---|"]
    details = []
    for name in names:
        first, _, rest = texts[name].partition("\n\n")
        variable = f"`{part.prefix}{name.upper()}`" if part.prefix else f"`{name}`"
        default = _default(name, part.model)
        lines.append(f"| {variable} | {_value(hints[name], first)} | {default} | {first.removesuffix('.')} |")
        if rest:
            details.append(f"\n{variable}: {rest}")
    return "\n".join([*lines, *details]) + "\n"


def _value(hint: Any, meaning: str) -> str:
    """Return the kind of a field's values, with their bounds. The meaning of a path begins with its kind."""
    kind, bounds = (get_args(hint)[0], get_args(hint)[1]) if get_origin(hint) is Annotated else (hint, None)
    if type(None) in get_args(kind):
        kind = get_args(kind)[0]
    if get_origin(kind) is Annotated and bounds is None:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if kind is bool:
        return "`true`, `false`"
    limits = {type(one).__name__: one for one in getattr(bounds, "metadata", ())}
    low, high = getattr(limits.get("Ge"), "ge", None), getattr(limits.get("Le"), "le", None)
    if high is not None:
        return f"{low:,} to {high:,}"
    if low is not None:
        return f"{low:,} or more"
    return {str: "text", Path: meaning.split()[0].strip(",").lower(), Allowlist: "file"}.get(kind, "list")


def _default(name: str, model: type[BaseModel]) -> str:
    """Return the default of a field; that of the workspace depends on the current folder."""
    default = model.model_fields[name].default
    if name == "workspace":
        return "`.roboco/workspace`"
    if default in (None, (), Allowlist()):
        return "none"
    if isinstance(default, BaseModel):
        return f"`{','.join(f'{name}={value}' for name, value in default if value is not None)}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, int):
        return f"{default:,}"
    return f"{default:,g}" if isinstance(default, float) else f"`{default}`"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    if arguments == ["--check"]:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
