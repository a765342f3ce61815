"""Webhooks: signed as the specification says, to where the operator allows, and over soon whatever the server does."""

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from roboco import parse_team
from roboco.adapters.notifications import http_post as post
from roboco.adapters.notifications.allowlist import allowed_address, check_webhook
from roboco.adapters.notifications.circuit_breaker import FIRST_OPEN_SECONDS, CircuitBreaker
from roboco.adapters.notifications.webhook import WebhookSender
from roboco.adapters.notifications.webhook_signature import signature_headers
from roboco.domain.notification import Notification, NotifyTarget
from roboco.domain.status import TaskStatus
from roboco.errors import RetryLater, TransientError, UsageError
from tests.support.servers.certificates import Certificates
from tests.support.servers.hook_server import HookServer, in_turn, status
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

SECRET = "whsec_" + base64.b64encode(b"canary-of-a-secret").decode()
TEAM = {"name": "echo", "agents": [{"name": "echo", "prompt": "echo"}]}


@pytest.fixture
def server() -> Iterator[HookServer]:
    with HookServer() as running:
        yield running


def notice(text: str = "all is well") -> Notification:
    """What is told of a task."""
    return Notification(
        notification_id="msg_1",
        name="0-00000002-completed",
        target=0,
        task_id="task_1",
        team="echo",
        status=TaskStatus.COMPLETED,
        reason="",
        steps=2,
        tokens_in=1,
        tokens_out=2,
        cost=0.0,
        text=text,
        time=datetime.now(UTC),
        first_attempt_at=0,
        next_attempt_at=0,
    )


def hook(url: str) -> NotifyTarget:
    """A webhook at the address."""
    return NotifyTarget(webhook=url, secret_env="HOOK_SECRET")


def webhooks(*allowed: str) -> WebhookSender:
    """Webhooks below these entries."""
    return WebhookSender(allowed, ("HOOK_SECRET",), {"HOOK_SECRET": SECRET})


def test_the_signature_of_the_specifications_example() -> None:
    headers = signature_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_secret_that_is_not_what_it_says_is_not_shown() -> None:
    with pytest.raises(UsageError) as raised:
        signature_headers("msg", 1, b"", "whsec_canary!")
    assert "canary" not in str(raised.value)


def test_the_receiver_can_check_what_it_gets(server: HookServer) -> None:
    webhooks(server.url).deliver(hook(f"{server.url}hooks?from=roboco"), notice("grüße"))
    (posted,) = server.posted
    signature = hmac.new(
        b"canary-of-a-secret",
        b".".join([posted.headers["webhook-id"].encode(), posted.headers["webhook-timestamp"].encode(), posted.body]),
        hashlib.sha256,
    )
    assert posted.headers["webhook-signature"] == f"v1,{base64.b64encode(signature.digest()).decode()}"
    assert abs(int(posted.headers["webhook-timestamp"]) - time.time()) < 60
    assert (posted.path, posted.headers["content-type"]) == ("/hooks?from=roboco", "application/json")
    record = json.loads(posted.body)
    assert (record["id"], record["type"]) == ("msg_1", "task.completed")
    assert record["data"]["text"] == "grüße"


@pytest.mark.parametrize("code", [199, 301, 302, 307, 308, 400, 404, 429, 500, 503])
def test_everything_but_2xx_is_tried_again_and_no_redirection_is_followed(server: HookServer, code: int) -> None:
    with HookServer() as elsewhere:
        server.answer = status(code, "no" * 5000, location=elsewhere.url)
        with pytest.raises(TransientError, match=f"answers {code}") as raised:
            webhooks(server.url, elsewhere.url).deliver(hook(f"{server.url}a?token=canary"), notice())
        assert not elsewhere.posted
    assert len(str(raised.value)) < 600
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_says_when_to_ask_again(server: HookServer, code: int) -> None:
    in_two_minutes = format_datetime(datetime.now(UTC) + timedelta(minutes=2), usegmt=True)
    for header, expected in (("7", 7), ("0", 0), (in_two_minutes, 120), ("Sun Nov  6 08:49:37 1994", 0)):
        server.answer = status(code, retry_after=header)
        with pytest.raises(RetryLater, match=f"answers {code}") as raised:
            webhooks(server.url).deliver(hook(server.url), notice())
        assert expected - 10 < raised.value.seconds <= expected


@pytest.mark.parametrize("header", ["soon", "-5", "nan", "inf", "1e999", "Sun, 99 Nov 1994 08:49:37 GMT"])
def test_what_says_no_time_is_not_obeyed(server: HookServer, header: str) -> None:
    server.answer = status(503, retry_after=header)
    with pytest.raises(TransientError) as raised:
        webhooks(server.url).deliver(hook(server.url), notice())
    assert not isinstance(raised.value, RetryLater)


def test_only_who_is_busy_may_put_off(server: HookServer) -> None:
    server.answer = status(500, retry_after="7")
    with pytest.raises(TransientError) as raised:
        webhooks(server.url).deliver(hook(server.url), notice())
    assert not isinstance(raised.value, RetryLater)


def test_a_server_with_a_certificate_of_an_authority_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_FILE names the authorities. Who is not known, or is somebody else, hears nothing of a notice."""
    certificates = Certificates(tmp_path)
    with (
        HookServer(tls=certificates.server("127.0.0.1")) as known,
        HookServer(tls=certificates.server("hooks.example")) as misnamed,
    ):
        ours = webhooks(known.url, misnamed.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        ours.deliver(hook(f"{known.url}hooks"), notice())
        with pytest.raises(TransientError, match="SSLCertVerificationError"):
            ours.deliver(hook(misnamed.url), notice())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.stranger))
        with pytest.raises(TransientError, match="SSLCertVerificationError"):
            ours.deliver(hook(known.url), notice())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        webhooks(known.url).deliver(hook(f"{known.url}again"), notice())
        assert [posted.path for posted in known.posted] == ["/hooks", "/again"]
        assert not misnamed.posted


def test_what_is_gone_is_not_tried_again(server: HookServer) -> None:
    server.answer = status(410)
    with pytest.raises(UsageError, match="gone for good"):
        webhooks(server.url).deliver(hook(server.url), notice())


def _silent(connection: socket.socket, _: int) -> None:
    connection.recv(1)


def _dripping(connection: socket.socket, _: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        connection.sendall(b"y")
        time.sleep(0.05)


def _garbage(connection: socket.socket, _: int) -> None:
    connection.sendall(b"\x00\xff not http \r\n\r\n")


def _closing(connection: socket.socket, _: int) -> None:
    connection.close()


@pytest.mark.parametrize("answer", [_silent, _dripping, _garbage, _closing])
def test_a_hostile_server_holds_nobody_up(server: HookServer, answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "SOCKET_TIMEOUT", 0.5)
    monkeypatch.setattr(post, "TOTAL_TIMEOUT", 1.0)
    server.answer = answer  # type: ignore[assignment]
    ours = webhooks(server.url)
    with pytest.raises(TransientError, match="does not answer"):
        ours.deliver(hook(server.url), notice())
    with pytest.raises(TransientError, match="does not call it for 30 s"):
        ours.deliver(hook(server.url), notice())
    assert len(server.posted) == 1


def test_rests_grow_and_end_with_an_answer() -> None:
    now = [0.0]
    rests = CircuitBreaker(lambda: now[0])
    for factor in (1, 2, 4):
        rests.check("a")
        rests.record_failure("a")
        now[0] += FIRST_OPEN_SECONDS * factor - 1
        with pytest.raises(TransientError):
            rests.check("a")
        rests.check("b")
        now[0] += 1
    rests.record_success("a")
    rests.record_failure("a")
    now[0] += FIRST_OPEN_SECONDS
    rests.check("a")


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/other",
        "https://hooks.example/roboco/../other",
        "https://hooks.example/roboco%2f..%2fother",
        "https://hooks.example.evil/roboco",
        "https://hooks.example:8443/roboco",
        "http://hooks.example/roboco",
        "https://user@hooks.example/roboco",
        "file:///etc/passwd",
    ],
)
def test_who_submits_reaches_only_what_the_operator_lists(url: str) -> None:
    allowed = ("https://hooks.example/roboco",)
    assert check_webhook(hook("https://hooks.example/roboco/done?x=1"), allowed, ("HOOK_SECRET",))
    with pytest.raises(UsageError, match="ROBOCO_ALLOWED_WEBHOOKS"):
        check_webhook(hook(url), allowed, ("HOOK_SECRET",))


def test_only_secrets_that_the_operator_lists_are_used() -> None:
    with pytest.raises(UsageError, match="ROBOCO_ALLOWED_WEBHOOK_ENV"):
        check_webhook(hook("https://hooks.example/"), ("https://hooks.example/",), ("OTHER",))
    with pytest.raises(UsageError, match="is not set on this worker"):
        WebhookSender(("https://hooks.example/",), ("HOOK_SECRET",), {}).deliver(
            hook("https://hooks.example/"), notice()
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "0.0.0.0"])
def test_private_addresses_are_reached_only_where_they_are_listed(host: str) -> None:
    with pytest.raises(UsageError, match="no public address"):
        allowed_address(host, 443, ("https://hooks.example/",))


def test_networks_and_hosts_that_are_listed_are_reached() -> None:
    assert allowed_address("10.1.2.3", 443, ("10.0.0.0/8",)) == "10.1.2.3"
    assert allowed_address("127.0.0.1", 80, ("http://127.0.0.1:8080/hooks",)) == "127.0.0.1"
    with pytest.raises(UsageError, match="no public address"):
        allowed_address("localhost", 443, ("https://localhost/",))  # a name says nothing about where it leads


@pytest.mark.workers
def test_a_refused_webhook_is_told_later_and_one_that_is_not_allowed_by_hand(
    tmp_path: Path, server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    server.answer = in_turn(status(500), status(204))
    allowed = (f"{server.url}allowed",)
    with Stack(tmp_path, allowed_webhooks=allowed, allowed_webhook_env=("HOOK_SECRET",)) as stack:
        stack.model.script(lambda request: Reply(text="hello"))
        told = [
            {"webhook": f"{server.url}allowed", "secret_env": "HOOK_SECRET"},
            {"webhook": f"{server.url}elsewhere", "secret_env": "HOOK_SECRET"},
        ]
        stack.orchestrator.run(parse_team(TEAM), "Go.", notify=told).result(60)
        until(lambda: len(server.posted) == 2, 30, "it is told again")
        first, second = server.posted
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert {posted.path for posted in server.posted} == {"/allowed"}
        until(stack.orchestrator.dead_letters, 20, "the other one is given up")
        (letter,) = stack.orchestrator.dead_letters()
        assert letter.name == "roboco.notify"
        assert "ROBOCO_ALLOWED_WEBHOOKS" in letter.reason
        stack.settings = stack.settings.model_copy(update={"allowed_webhooks": (server.url,)})
        stack.restart("coordinator")
        stack.wait_ready("coordinator")
        stack.orchestrator.requeue_dead_letter(letter.letter_id)
        until(lambda: server.posted[-1].path == "/elsewhere", 30, "it is sent again by hand")
        assert stack.orchestrator.dead_letters() == []
    assert not list((tmp_path / "workspace").rglob("notifications/*.json"))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "valkey" not in path.parts]
    assert {"coordinator.log", "history.jsonl"} <= {path.name for path in files}
    assert not [path for path in files if b"canary" in path.read_bytes() or SECRET.encode() in path.read_bytes()]
