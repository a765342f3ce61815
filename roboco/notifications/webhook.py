"""Webhooks: signed notifications by HTTP POST to addresses that the operator allows."""

import http.client
import os
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from roboco.domain.canonical_json import canonical_json
from roboco.domain.notification import Notification, NotifyTarget
from roboco.errors import RetryLater, TransientError, UsageError
from roboco.http.retry_after import parse_retry_after
from roboco.notifications.allowlist import allowed_address, check_webhook, secret_of
from roboco.notifications.circuit_breaker import CircuitBreaker
from roboco.notifications.http_post import DEFAULT_PORTS, HttpResponse, post
from roboco.notifications.webhook_signature import signature_headers

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

        Raise RetryLater if the server is busy and names a time, UsageError if the webhook is gone or not allowed, and
        TransientError for any other failure.
        """
        url = check_webhook(target, self._allowed, self._variables)
        secret = secret_of(target.secret_env or "", self._environment)
        body = canonical_json(notification.body()).encode()
        headers = signature_headers(notification.notification_id, int(time.time()), body, secret) | {
            "content-type": "application/json",
            "user-agent": "roboco",
        }
        answer = self._post(target, url, body, headers)
        if answer.status == STATUS_GONE:
            raise UsageError(f"webhook {target.label!r} answers 410: it is gone for good")
        if not 200 <= answer.status < 300:
            message = f"webhook {target.label!r} answers {answer.status}: {answer.body!r}"
            delay = parse_retry_after(answer.retry_after) if answer.status in BUSY_STATUSES else None
            raise TransientError(message) if delay is None else RetryLater(message, delay)

    def _post(self, target: NotifyTarget, url: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        parts = urlsplit(url)
        self._circuit_breaker.check(parts.netloc)
        address = allowed_address(parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme], self._allowed)
        try:
            answer = post(url, address, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._circuit_breaker.record_failure(parts.netloc)
            raise TransientError(
                f"webhook {target.label!r} does not answer: {type(error).__name__}: {error}"
            ) from error
        self._circuit_breaker.record_success(parts.netloc)
        return answer
