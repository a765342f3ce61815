"""Webhooks: signed notifications by HTTP POST to addresses that the operator allows.

The signature is that of the Standard Webhooks specification.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from roboco.domain.canonical_json import canonical_json
from roboco.domain.notification import Notification, NotifyTarget
from roboco.errors import RetryLater, TransientError, UsageError
from roboco.http.retry_after import parse_retry_after
from roboco.notifications.allowlist import DEFAULT_PORTS, allowed_address, check_webhook, secret_of

FIRST_OPEN_SECONDS = 30.0
"""Seconds for which the circuit of a server stays open first; each next time is twice as long."""
MAX_OPEN_SECONDS = 600.0
"""Seconds for which a circuit stays open at most."""
MAX_SERVERS = 1000
"""Servers that a process remembers."""
TOTAL_TIMEOUT = 10.0
"""Seconds after which a request is given up, even if the server still sends."""
MAX_BODY_BYTES = 300
"""Bytes of a response body that are read, for error messages."""


class CircuitBreaker:
    """The servers of this process whose circuit is open: the last call got no answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open_circuits: dict[str, tuple[float, float]] = {}

    def check(self, server: str) -> None:
        """Raise TransientError while the circuit of the server is open."""
        with self._lock:
            until, pause = self._open_circuits.get(server, (0.0, 0.0))
        if until > self._clock():
            raise TransientError(f"{server} did not answer; this worker does not call it for {pause:g} s")

    def record_failure(self, server: str) -> None:
        """Open the circuit: the server did not answer."""
        with self._lock:
            _, before = self._open_circuits.pop(server, (0.0, 0.0))
            pause = min(before * 2 or FIRST_OPEN_SECONDS, MAX_OPEN_SECONDS)
            self._open_circuits[server] = (self._clock() + pause, pause)
            if len(self._open_circuits) > MAX_SERVERS:
                del self._open_circuits[next(iter(self._open_circuits))]

    def record_success(self, server: str) -> None:
        """Close the circuit: the server answered."""
        with self._lock:
            self._open_circuits.pop(server, None)


STATUS_GONE = 410
"""HTTP status of a webhook that is gone for good."""
BUSY_STATUSES = (429, 503)
"""HTTP statuses whose Retry-After header counts."""


class WebhookSender:
    """Posts notifications to the webhooks that `allowed` covers, signed with the secrets of these `variables`."""

    def __init__(
        self, allowed: tuple[str, ...], variables: tuple[str, ...], environment: Mapping[str, str] = os.environ
    ) -> None:
        self._allowed = allowed
        self._variables = variables
        self._environment = environment
        self._circuit_breaker = CircuitBreaker()

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Post the notification. A response of 2xx accepts it. A redirection is not followed, and is a refusal.

        Each has a signature, except a push notification whose client has named no variable with a secret.
        Raise RetryLater if the server is busy and names a time, UsageError if the webhook is gone or not allowed, and
        TransientError for any other failure.
        """
        url = check_webhook(target, self._allowed, self._variables)
        push = target.push
        body = canonical_json(notification.body(push)).encode()
        headers = {"content-type": "application/json", "user-agent": "roboco"} | (push.headers() if push else {})
        if target.secret_env is not None or push is None:
            secret = secret_of(target.secret_env or "", self._environment)
            headers |= signature_headers(notification.notification_id, int(time.time()), body, secret)
        answer = self._post(target, url, body, headers)
        if answer.status == STATUS_GONE:
            raise UsageError(f"webhook {target.label!r} answers 410: it is gone for good")
        if not 200 <= answer.status < 300:
            has_secrets = push is not None and (push.token or push.authorization)  # a server may repeat its headers
            said = "" if has_secrets else f": {answer.body.decode(errors='replace')!r}"
            message = f"webhook {target.label!r} answers {answer.status}{said}"
            delay = parse_retry_after(answer.retry_after) if answer.status in BUSY_STATUSES else None
            raise TransientError(message) if delay is None else RetryLater(message, delay)

    def _post(self, target: NotifyTarget, url: str, body: bytes, headers: Mapping[str, str]) -> Any:
        parts = urlsplit(url)
        self._circuit_breaker.check(parts.netloc)
        address = allowed_address(parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme], self._allowed)
        try:
            answer = _post_to(address, url, body, headers)
        except (OSError, ValueError) as error:
            self._circuit_breaker.record_failure(parts.netloc)
            raise TransientError(
                f"webhook {target.label!r} does not answer: {type(error).__name__}: {error}"
            ) from error
        self._circuit_breaker.record_success(parts.netloc)
        return answer


def _post_to(address: str, url: str, body: bytes, headers: Mapping[str, str]) -> Any:
    """Send the request to this address, past any proxy, and return the `HttpAnswer`. Resolve no name.

    Certificates are checked against the authorities of the system, or those in the file that SSL_CERT_FILE names.
    Raise OSError or ValueError if there is no answer.
    """
    import httpx2  # here, since clients need not have it

    from roboco.http.http_exchange import bounded_answer

    try:
        named = httpx2.URL(url)
        host = {"Host": named.netloc.decode()}
        sent: dict[str, Any] = {"content": body, "extensions": {"sni_hostname": named.raw_host.decode()}}
        request = httpx2.Request("POST", named.copy_with(host=address), headers={**host, **headers}, **sent)
        verify = ssl.create_default_context() if named.scheme == "https" else False
        options: dict[str, Any] = {"cut": True, "trust_env": False, "verify": verify}
        return asyncio.run(bounded_answer(request, TOTAL_TIMEOUT, MAX_BODY_BYTES, **options))
    except TimeoutError as error:
        raise TimeoutError(f"no complete answer within {TOTAL_TIMEOUT:g} s") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConnectionError(_cause_of(error)) from error


def _cause_of(error: BaseException) -> str:
    """Return the error of the system behind an error, which names the refusal or the wrong certificate; else itself."""
    found, behind = error, error.__cause__ or error.__context__
    while behind is not None:
        found, behind = behind if isinstance(behind, OSError) else found, behind.__cause__ or behind.__context__
    return f"{type(found).__name__}: {found}"


_BASE64_PREFIX = "whsec_"


def signature_headers(notice_id: str, timestamp: int, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers with which the receiver checks the sender and the time of the body, in Unix seconds.

    The signature is HMAC-SHA256 over id, timestamp and body, joined by full stops. A secret that begins with "whsec_"
    is base64, as in the specification; any other secret is used unchanged. Raise UsageError if the base64 is invalid.
    """
    content = f"{notice_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(_key(secret), content, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": notice_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def _key(secret: str) -> bytes:
    if not secret.startswith(_BASE64_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_BASE64_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("a webhook's secret begins with 'whsec_', but what follows is not base64") from None
