"""Checks of webhooks: may they go where the settings say, is somebody there, and are there secrets to sign them?"""

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
    """Whether the webhooks that are allowed can be reached and signed; what counts are the coordinator's machines."""
    addresses = [entry for entry in settings.allowed_webhooks if not _is_network(entry)]
    for entry in addresses:
        yield _address(entry, settings.allowed_webhooks)
    for variable in settings.allowed_webhook_env:
        yield _secret(variable, environment)
    if bool(addresses) != bool(settings.allowed_webhook_env):
        missing = "ROBOCO_ALLOWED_WEBHOOK_ENV" if addresses else "ROBOCO_ALLOWED_WEBHOOKS"
        found = f"{missing} names nothing: no webhook can be told"
        yield Check(
            "webhooks", "fail", found, "name the addresses in ROBOCO_ALLOWED_WEBHOOKS, their secrets' in the other one"
        )


def _address(entry: str, allowed: tuple[str, ...]) -> Check:
    name = f"webhook {entry.partition('?')[0]}"
    if mistake := url_mistake(entry):
        return Check(name, "fail", mistake, "mend ROBOCO_ALLOWED_WEBHOOKS: addresses, and networks such as 10.0.0.0/8")
    parts = urlsplit(entry)
    try:
        address = reachable(parts.hostname or "", parts.port or PORTS[parts.scheme], allowed)
        connected(entry, address).close()
    except ssl.SSLError as error:
        todo = "mend its certificate, or name its authority's in SSL_CERT_FILE where the coordinator's workers run"
        return Check(name, "fail", f"{type(error).__name__}: {error}", todo)
    except (UsageError, RobocoError) as error:
        return Check(name, "fail", str(error), "mend ROBOCO_ALLOWED_WEBHOOKS, or the name's entry in the DNS")
    except OSError as error:
        return Check(name, "warn", f"{type(error).__name__}: {error}", "see that its server runs, and the way there")
    todo = "use https: whoever sees what is sent can read it"
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
