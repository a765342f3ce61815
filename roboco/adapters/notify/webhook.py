"""Webhooks: one POST to an address that was checked, over within seconds whatever the server does."""

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from roboco.adapters.notify.allowed import check_webhook, reachable, secret_of
from roboco.adapters.notify.signed import signed
from roboco.domain.canonical import canonical
from roboco.domain.notify import Notice, Notify
from roboco.errors import TransientError, UsageError

CONNECT = 5.0
"""Seconds for which a connection, and each piece of an answer, is waited for."""
LONGEST = 10.0
"""Seconds after which the connection is closed, however much comes."""
SHOWN = 300
"""How many bytes of an answer are read: what it says of a refusal."""
GONE = 410


class Webhooks:
    """Posts notices to the webhooks that `allowed` leads to, signed with the secrets of these `variables`."""

    def __init__(
        self, allowed: tuple[str, ...], variables: tuple[str, ...], environment: Mapping[str, str] = os.environ
    ) -> None:
        self._allowed = allowed
        self._variables = variables
        self._environment = environment

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Post the notice: an answer of 2xx takes it. A redirection is not followed, and is a refusal."""
        url = check_webhook(target, self._allowed, self._variables)
        secret = secret_of(target.secret_env or "", self._environment)
        body = canonical(notice.body()).encode()
        headers = signed(notice.notice_id, int(time.time()), body, secret) | {
            "content-type": "application/json",
            "user-agent": "roboco",
        }
        status, said = self._post(url, body, headers)
        if status == GONE:
            raise UsageError(f"webhook {url!r} answers 410: it is gone for good")
        if not 200 <= status < 300:
            raise TransientError(f"webhook {url!r} answers {status}: {said!r}")

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
        try:
            with _connected(url, self._allowed) as connection:
                timer = threading.Timer(LONGEST, _cut, [connection])
                timer.daemon = True
                timer.start()
                try:
                    return _exchange(connection, url, body, headers)
                finally:
                    timer.cancel()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise TransientError(f"webhook {url!r} does not answer: {type(error).__name__}: {error}") from error


def _connected(url: str, allowed: tuple[str, ...]) -> socket.socket:
    """A connection to the address that was checked: the name is not looked up a second time."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    plain = socket.create_connection((reachable(host, port, allowed), port), timeout=CONNECT)
    if parts.scheme != "https":
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _exchange(connection: socket.socket, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    parts = urlsplit(url)
    client = http.client.HTTPConnection(parts.netloc)
    client.sock = connection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    client.request("POST", path, body, dict(headers))
    answer = client.getresponse()
    return answer.status, answer.read(SHOWN).decode("utf-8", "replace")


def _cut(connection: socket.socket) -> None:
    """End whatever waits for the connection."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already
