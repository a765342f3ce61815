"""Webhooks: signed notifications by HTTP POST to addresses that the operator allows."""

import http.client
import os
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from roboco.adapters.notifications.allowlist import check_webhook, reachable, secret_of
from roboco.adapters.notifications.circuit_breaker import Rests
from roboco.adapters.notifications.http_post import PORTS, Answer, post
from roboco.adapters.notifications.webhook_signature import signed
from roboco.adapters.retry_after import retry_after
from roboco.domain.canonical_json import canonical
from roboco.domain.notification import Notice, Notify
from roboco.errors import Later, TransientError, UsageError

GONE = 410
"""HTTP status of a webhook that is gone for good."""
BUSY = (429, 503)
"""HTTP statuses whose Retry-After header counts."""


class Webhooks:
    """Posts notifications to the webhooks that `allowed` covers, signed with the secrets of these `variables`."""

    def __init__(
        self, allowed: tuple[str, ...], variables: tuple[str, ...], environment: Mapping[str, str] = os.environ
    ) -> None:
        self._allowed = allowed
        self._variables = variables
        self._environment = environment
        self._rests = Rests()

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Post the notification. A response of 2xx accepts it. A redirection is not followed, and is a refusal.

        Raise RetryLater if the server is busy and names a time, UsageError if the webhook is gone or not allowed, and
        TransientError for any other failure.
        """
        url = check_webhook(target, self._allowed, self._variables)
        secret = secret_of(target.secret_env or "", self._environment)
        body = canonical(notice.body()).encode()
        headers = signed(notice.notice_id, int(time.time()), body, secret) | {
            "content-type": "application/json",
            "user-agent": "roboco",
        }
        answer = self._post(target, url, body, headers)
        if answer.status == GONE:
            raise UsageError(f"webhook {target.named!r} answers 410: it is gone for good")
        if not 200 <= answer.status < 300:
            message = f"webhook {target.named!r} answers {answer.status}: {answer.said!r}"
            delay = retry_after(answer.retry_after) if answer.status in BUSY else None
            raise TransientError(message) if delay is None else Later(message, delay)

    def _post(self, target: Notify, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(url)
        self._rests.check(parts.netloc)
        address = reachable(parts.hostname or "", parts.port or PORTS[parts.scheme], self._allowed)
        try:
            answer = post(url, address, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._rests.begin(parts.netloc)
            raise TransientError(
                f"webhook {target.named!r} does not answer: {type(error).__name__}: {error}"
            ) from error
        self._rests.end(parts.netloc)
        return answer
