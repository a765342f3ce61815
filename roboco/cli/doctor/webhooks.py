"""Checks of webhooks: their addresses are allowed and answer, and there are secrets to sign them."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from roboco.cli.doctor.check import CheckResult, expect
from roboco.domain.url import url_error
from roboco.errors import RobocoError, UsageError
from roboco.notifications.allowlist import DEFAULT_PORTS, allowed_address, secret_of
from roboco.notifications.webhook import signature_headers
from roboco.settings import Settings

CONNECT_TIMEOUT: Final = 5.0


def check_webhooks(settings: Settings, environment: Mapping[str, str] = os.environ) -> Iterator[CheckResult]:
    """Check that allowed webhooks can be reached and signed; the coordinator needs that on its machines."""
    allowed, variables = settings.allowlist.webhooks, settings.allowlist.webhook_env
    addresses = [entry for entry in allowed if not _is_network(entry)]
    for entry in addresses:
        yield _check_address(entry, allowed)
    for variable in variables:
        yield _check_secret(variable, environment)
    if bool(addresses) != bool(variables):
        found = f"{'webhook_env' if addresses else 'webhooks'} of ROBOCO_ALLOWLIST is empty: no webhook can be sent"
        todo = "name the addresses in webhooks, and the variables with their secrets in webhook_env"
        yield CheckResult("webhooks", "fail", found, todo)


def _check_address(entry: str, allowed: tuple[str, ...]) -> CheckResult:
    name = f"webhook {entry.partition('?')[0]}"
    if mistake := url_error(entry):
        return CheckResult(
            name, "fail", mistake, "correct webhooks of ROBOCO_ALLOWLIST: addresses, and networks such as 10.0.0.0/8"
        )
    parts = urlsplit(entry)
    try:
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        address = allowed_address(parts.hostname or "", port, allowed)
        with socket.create_connection((address, port), timeout=CONNECT_TIMEOUT) as connection:
            if parts.scheme == "https":
                ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname).close()
    except ssl.SSLError as error:
        todo = "correct its certificate, or set SSL_CERT_FILE to its authority's where coordinators run"
        return CheckResult(name, "fail", f"{type(error).__name__}: {error}", todo)
    except (UsageError, RobocoError) as error:
        return CheckResult(name, "fail", str(error), "correct webhooks of ROBOCO_ALLOWLIST, or the host's DNS entry")
    except OSError as error:
        return CheckResult(
            name, "warn", f"{type(error).__name__}: {error}", "check that its server runs, and the network between"
        )
    todo = "use https: without it, others on the network can read the notifications"
    return expect(name, parts.scheme == "https", f"answers at {address}", todo)


def _check_secret(variable: str, environment: Mapping[str, str]) -> CheckResult:
    try:
        signature_headers("msg_check", 0, b"", secret_of(variable, environment))
    except UsageError as error:
        todo = "set it where the coordinator's workers run: a text, or whsec_ and base64"
        return CheckResult(f"webhook secret {variable}", "fail", str(error), todo)
    return CheckResult(f"webhook secret {variable}", "ok", "is set here; the coordinator's workers need the same")


def _is_network(entry: str) -> bool:
    try:
        ipaddress.ip_network(entry)
    except ValueError:
        return False
    return True
