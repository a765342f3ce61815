"""Checks of webhooks: their addresses are allowed and answer, and there are secrets to sign them."""

import ipaddress
import os
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from roboco.adapters.notifications.allowlist import reachable, secret_of
from roboco.adapters.notifications.http_post import PORTS, connected
from roboco.adapters.notifications.webhook_signature import signed
from roboco.cli.doctor.check import Check, wanted
from roboco.domain.url import url_mistake
from roboco.errors import RobocoError, UsageError
from roboco.settings import Settings


def check_webhooks(settings: Settings, environment: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Check that allowed webhooks can be reached and signed; the coordinator needs that on its machines."""
    addresses = [entry for entry in settings.allowed_webhooks if not _is_network(entry)]
    for entry in addresses:
        yield _address(entry, settings.allowed_webhooks)
    for variable in settings.allowed_webhook_env:
        yield _secret(variable, environment)
    if bool(addresses) != bool(settings.allowed_webhook_env):
        missing = "ROBOCO_ALLOWED_WEBHOOK_ENV" if addresses else "ROBOCO_ALLOWED_WEBHOOKS"
        found = f"{missing} is empty: no webhook can be sent"
        yield Check(
            "webhooks", "fail", found, "name the addresses in ROBOCO_ALLOWED_WEBHOOKS, their secrets' in the other one"
        )


def _address(entry: str, allowed: tuple[str, ...]) -> Check:
    name = f"webhook {entry.partition('?')[0]}"
    if mistake := url_mistake(entry):
        return Check(
            name, "fail", mistake, "correct ROBOCO_ALLOWED_WEBHOOKS: addresses, and networks such as 10.0.0.0/8"
        )
    parts = urlsplit(entry)
    try:
        address = reachable(parts.hostname or "", parts.port or PORTS[parts.scheme], allowed)
        connected(entry, address).close()
    except ssl.SSLError as error:
        todo = "correct its certificate, or set SSL_CERT_FILE to its authority's where coordinators run"
        return Check(name, "fail", f"{type(error).__name__}: {error}", todo)
    except (UsageError, RobocoError) as error:
        return Check(name, "fail", str(error), "correct ROBOCO_ALLOWED_WEBHOOKS, or the DNS entry of the host")
    except OSError as error:
        return Check(
            name, "warn", f"{type(error).__name__}: {error}", "check that its server runs, and the network between"
        )
    todo = "use https: without it, others on the network can read the notifications"
    return wanted(name, parts.scheme == "https", f"answers at {address}", todo)


def _secret(variable: str, environment: Mapping[str, str]) -> Check:
    try:
        signed("msg_check", 0, b"", secret_of(variable, environment))
    except UsageError as error:
        todo = "set it where the coordinator's workers run: a text, or whsec_ and base64"
        return Check(f"webhook secret {variable}", "fail", str(error), todo)
    return Check(f"webhook secret {variable}", "ok", "is set here; the coordinator's workers need the same")


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry)
    except ValueError:
        return False
    return True
