"""roboco keys: create, list and revoke keys of the HTTP gateway."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.format import age
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.table import print_entries
from roboco.client.orchestrator import Orchestrator
from roboco.domain.access_key import DEFAULT_SCOPES, AccessKey, CallerLimits, Scope

_DURATION = re.compile(r"(\d{1,5})([hd])")
_UNITS: Final = {"h": "hours", "d": "days"}


def _expiry(_: click.Context, __: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    if (found := _DURATION.fullmatch(text)) is None or int(found[1]) == 0:
        raise click.BadParameter(f"must be a number of hours or days, such as 12h or 90d (found {text!r})")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _limits(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    limits: dict[str, str] = {}
    for value in values:
        name, _sign, number = value.partition("=")
        if name not in CallerLimits.model_fields or not number:
            raise click.BadParameter(f"must be NAME=NUMBER with a name of {', '.join(CallerLimits.model_fields)}")
        limits[name] = number
    return limits


@click.group()
def keys() -> None:
    """Create, list or revoke keys of the HTTP gateway.

    Clients send a key with each request: Authorization: Bearer KEY. The workspace stores only a digest of its secret.
    """


@keys.command("create")
@click.argument("name")
@click.option("--tenant", metavar="NAME", help="The tenant whose tasks the key reaches; without it all tasks.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help=f"A kind of requests that it allows; may be repeated. By default {', '.join(DEFAULT_SCOPES)}.",
)
@click.option("--team", "teams", metavar="NAME", multiple=True, help="A team that it may use; may be repeated.")
@click.option(
    "--function",
    "functions",
    metavar="MODULE:NAME",
    multiple=True,
    help="A function that its team objects may name (scope teams); may be repeated. Without it all.",
)
@click.option("--utility-model", metavar="PROFILE", help="The profile for side requests of a chat front end.")
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=_limits,
    help=f"A limit; may be repeated: {', '.join(CallerLimits.model_fields)}.",
)
@click.option("--expires", metavar="DURATION", callback=_expiry, help="How long it is valid, such as 12h or 90d.")
@options.as_json
def create(*, name: str, expires: timedelta | None, as_json: bool, **fields: Any) -> None:
    """Create a key with this name, and print it once."""
    chosen = {field: value for field, value in fields.items() if value}
    expires_at = None if expires is None else datetime.now(UTC) + expires
    with Orchestrator(caller_settings()) as orchestrator:
        text, key = orchestrator.operator.create_key(name=name, expires_at=expires_at, **chosen)
    if as_json:
        print_json({"key": text, **_public(key)})
        return
    click.echo(text)
    click.echo("keep it now: it cannot be shown again", err=True)


@keys.command("list")
@options.as_json
def list_keys(as_json: bool) -> None:
    """List all keys, without their secrets."""
    with Orchestrator(caller_settings()) as orchestrator:
        found = sorted(orchestrator.operator.keys(), key=lambda key: (key.created_at, key.id))
    if as_json:
        print_json(list(map(_public, found)))
        return
    headings = ("<key", "name", "tenant", "scopes", "teams", "limits", ">age", ">status")
    print_entries(False, found, headings, _cells, "no keys; `roboco keys create NAME` makes one")


@keys.command("revoke")
@click.argument("key_ids", metavar="KEYS", nargs=-1, required=True)
@options.as_json
def revoke(key_ids: tuple[str, ...], as_json: bool) -> None:
    """Revoke keys by their ids. Gateways refuse them within ten seconds."""
    revoked: list[AccessKey] = []
    try:
        with Orchestrator(caller_settings()) as orchestrator:
            for key_id in key_ids:
                revoked.append(key := orchestrator.operator.revoke_key(key_id))
                if not as_json:
                    click.echo(f"{key.id} is revoked ({one_line(key.name, 64)})")
    finally:
        if as_json and revoked:  # also those before a key that is unknown
            print_json(list(map(_public, revoked)))


def _public(key: AccessKey) -> dict[str, Any]:
    """Return the key as JSON, without its digest."""
    return key.model_dump(mode="json", exclude={"digest"}) | {"status": key.status_at(datetime.now(UTC))}


def _cells(key: AccessKey) -> tuple[str, ...]:
    now, teams = datetime.now(UTC), "all" if key.teams is None else " ".join(key.teams)
    limits = " ".join(f"{name}={value:g}" for name, value in key.limits.model_dump(exclude_none=True).items())
    since = age((now - key.created_at).total_seconds())
    return key.id, key.name, key.tenant or "", " ".join(key.scopes), teams, limits, since, key.status_at(now)
