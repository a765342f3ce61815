"""Webhooks: signed by the specification, sent only to allowed addresses, and ended in time whatever the server does."""

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
from roboco.client.task import Task
from roboco.domain.notification import Notification, NotifyTarget
from roboco.domain.push_notification import PushConfig
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import StepFinal
from roboco.errors import RetryLater, TransientError, UsageError
from roboco.notifications import webhook
from roboco.notifications.allowlist import check_webhook
from roboco.notifications.webhook import FIRST_OPEN_SECONDS, CircuitBreaker, WebhookSender, signature_headers
from tests.support.servers.certificates import Certificates
from tests.support.servers.hook_server import HookServer, status
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

SECRET = "whsec_" + base64.b64encode(b"canary-of-a-secret").decode()
TEAM = {"name": "echo", "agents": [{"name": "echo", "prompt": "echo"}]}


@pytest.fixture
def server() -> Iterator[HookServer]:
    with HookServer() as running:
        yield running


def create_notification(text: str = "all is well") -> Notification:
    """Return a notification about a completed task."""
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


def target_of(url: str) -> NotifyTarget:
    """Return a target for the webhook at this address."""
    return NotifyTarget(webhook=url, secret_env="HOOK_SECRET")


def sender_for(*allowed: str) -> WebhookSender:
    """Return a sender that may send to addresses below these entries."""
    return WebhookSender(allowed, ("HOOK_SECRET",), {"HOOK_SECRET": SECRET})


def test_the_signature_equals_the_example_of_the_specification() -> None:
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


def test_a_receiver_can_verify_the_signature(server: HookServer) -> None:
    sender_for(server.url).deliver(target_of(f"{server.url}hooks?from=roboco"), create_notification("grüße"))
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


@pytest.mark.parametrize("code", [307, 404, 429, 503])
def test_a_status_other_than_2xx_is_retried_and_no_redirection_is_followed(server: HookServer, code: int) -> None:
    with HookServer() as elsewhere:
        server.answer = status(code, "no" * 5000, location=elsewhere.url)
        with pytest.raises(TransientError, match=f"answers {code}") as raised:
            sender_for(server.url, elsewhere.url).deliver(
                target_of(f"{server.url}a?token=canary"), create_notification()
            )
        assert not elsewhere.posted
    assert len(str(raised.value)) < 600
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("given", [{"token": "canary"}, {"authorization": "Bearer canary"}])
def test_an_answer_that_repeats_the_headers_of_a_client_is_not_kept(server: HookServer, given: dict[str, str]) -> None:
    server.answer = status(500, "the headers were canary")
    push = PushConfig(id="a", task_id="t", context_id="c", **given)
    with pytest.raises(TransientError, match=r"answers 500$"):
        sender_for(server.url).deliver(NotifyTarget(webhook=server.url, push=push), create_notification())


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_of_a_busy_server_sets_the_delay(server: HookServer, code: int) -> None:
    retry_date = format_datetime(datetime.now(UTC) + timedelta(minutes=2), usegmt=True)
    for header, expected in (("7", 7), ("0", 0), (retry_date, 120), ("Sun Nov  6 08:49:37 1994", 0)):
        server.answer = status(code, retry_after=header)
        with pytest.raises(RetryLater, match=f"answers {code}") as raised:
            sender_for(server.url).deliver(target_of(server.url), create_notification())
        assert expected - 10 < raised.value.seconds <= expected


def test_a_private_authority_in_ssl_cert_file_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE names the authorities. An unknown or misnamed server receives no notification."""
    certificates = Certificates(tmp_path)
    with (
        HookServer(tls=certificates.server("127.0.0.1")) as known,
        HookServer(tls=certificates.server("hooks.example")) as misnamed,
    ):
        sender = sender_for(known.url, misnamed.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        sender.deliver(target_of(f"{known.url}hooks"), create_notification())
        with pytest.raises(TransientError, match="CERTIFICATE_VERIFY_FAILED"):
            sender.deliver(target_of(misnamed.url), create_notification())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.stranger))
        with pytest.raises(TransientError, match="CERTIFICATE_VERIFY_FAILED"):
            sender.deliver(target_of(known.url), create_notification())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        sender_for(known.url).deliver(target_of(f"{known.url}again"), create_notification())
        assert [posted.path for posted in known.posted] == ["/hooks", "/again"]
        assert not misnamed.posted


def test_a_request_goes_to_the_checked_address_in_the_name_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name is resolved after the check, and no proxy is asked: it could reach another address."""
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr(webhook, "allowed_address", lambda *_: "127.0.0.1")
    with HookServer(tls=certificates.server("hooks.example")) as server:
        url = server.url.replace("127.0.0.1", "hooks.example") + "a%20b?c=1"
        sender_for(url).deliver(target_of(url), create_notification())
    assert [posted.path for posted in server.posted] == ["/a%20b?c=1"]
    assert f"https://{server.posted[0].headers['host']}/a%20b?c=1" == url


def test_a_webhook_answered_with_410_is_not_retried(server: HookServer) -> None:
    server.answer = status(410)
    with pytest.raises(UsageError, match="gone for good"):
        sender_for(server.url).deliver(target_of(server.url), create_notification())


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


def _cut_short(connection: socket.socket, _: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")
    connection.close()


def _stalling(connection: socket.socket, _: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * webhook.MAX_BODY_BYTES)
    connection.recv(1)


@pytest.mark.parametrize("answer", [_cut_short, _stalling])
def test_the_status_of_an_answer_decides_whatever_its_body_is(server: HookServer, answer: object) -> None:
    server.answer = answer  # type: ignore[assignment]
    sender_for(server.url).deliver(target_of(server.url), create_notification())


@pytest.mark.parametrize("answer", [_silent, _dripping, _garbage, _closing])
def test_a_hostile_server_delays_no_worker(server: HookServer, answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TOTAL_TIMEOUT", 1.0)
    server.answer = answer  # type: ignore[assignment]
    sender = sender_for(server.url)
    with pytest.raises(TransientError, match="does not answer"):
        sender.deliver(target_of(server.url), create_notification())
    with pytest.raises(TransientError, match="does not call it for 30 s"):
        sender.deliver(target_of(server.url), create_notification())
    until(lambda: server.posted, 60, "the server's thread has read the request")
    assert len(server.posted) == 1


def test_the_circuit_breaker_backs_off_until_a_success() -> None:
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0])
    for factor in (1, 2, 4):
        breaker.check("a")
        breaker.record_failure("a")
        now[0] += FIRST_OPEN_SECONDS * factor - 1
        with pytest.raises(TransientError):
            breaker.check("a")
        breaker.check("b")
        now[0] += 1
    breaker.record_success("a")
    breaker.record_failure("a")
    now[0] += FIRST_OPEN_SECONDS
    breaker.check("a")


def test_a_producer_reaches_only_addresses_that_the_operator_lists() -> None:
    allowed = ("https://hooks.example/roboco",)
    assert check_webhook(target_of("https://hooks.example/roboco/done?x=1"), allowed, ("HOOK_SECRET",))
    for url in ("https://hooks.example/other", "http://hooks.example/roboco", "file:///etc/passwd"):
        with pytest.raises(UsageError, match="webhooks of ROBOCO_ALLOWLIST"):
            check_webhook(target_of(url), allowed, ("HOOK_SECRET",))


def test_only_secrets_that_the_operator_lists_are_used() -> None:
    with pytest.raises(UsageError, match="webhook_env of ROBOCO_ALLOWLIST"):
        check_webhook(target_of("https://hooks.example/"), ("https://hooks.example/",), ("OTHER",))
    with pytest.raises(UsageError, match="is not set on this worker"):
        WebhookSender(("https://hooks.example/",), ("HOOK_SECRET",), {}).deliver(
            target_of("https://hooks.example/"), create_notification()
        )


@pytest.mark.workers
def test_a_retry_completes_and_its_webhook_hears_of_it(
    tmp_path: Path, server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model server refuses the key; the key is fixed, and the task is retried."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    server.answer = status(204)
    with Stack(tmp_path, allowlist={"webhooks": (server.url,), "webhook_env": ("HOOK_SECRET",)}) as stack:
        stack.model.script(lambda request: Reply(text="hello"))
        stack.model.fail_next(1, Reply(status=401, text="bad key"))
        hook = {"webhook": server.url, "secret_env": "HOOK_SECRET"}
        task = stack.orchestrator.run(parse_team(TEAM), "Go.", notify=[hook])
        assert task.result(60).status == "failed"
        retried = list[Task]()

        def is_retried() -> bool:
            try:
                retried.append(task.retry("a new key", by="ops"))
            except TransientError:  # the result is known a moment before the end is complete
                return False
            return True

        until(is_retried, 60, "the end of the task is complete")
        [new] = retried
        assert new.created
        assert new.result(60).raise_for_status().text == "hello"
        assert (task.summary().retried_as, task.retry("a new key").task_id) == (new.task_id, new.task_id)
        finals = [item.data.step.seq for item in new.stream() if isinstance(item.data, StepFinal)]
        assert finals == [0, 1, 2, 3]
        assert [item.type for item in task.stream()].count("event_task_end") == 1
        with pytest.raises(UsageError, match="it is completed; fork it"):
            new.retry()
        until(lambda: len(server.posted) == 2, 30, "the webhook is sent for both ends")
        bodies = [json.loads(posted.body) for posted in server.posted]
        found = {(body["type"], body["data"]["task_id"], body["data"]["retry_of"]) for body in bodies}
        assert found == {("task.failed", task.task_id, ""), ("task.completed", new.task_id, task.task_id)}
        assert (task.verify(), new.verify()) == (2, 4)
