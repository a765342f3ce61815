"""LeaseHeartbeat: renews leases while their work is silent, one round trip a server, and no work waits for it."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.errors import TransientError
from roboco.ports.lease_renewals import AttemptLease, Lease, LeaseStatus
from tests.support.memory_ports.heartbeat import ManualHeartbeat
from tests.support.memory_ports.renewals import WAIT_TIMEOUT, Answer, ScriptedRenewals

RENEWAL_INTERVAL = 0.005
LEASE, OTHER = AttemptLease("lease"), AttemptLease("other")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds. Raise AssertionError after WAIT_TIMEOUT seconds."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.001)


def heartbeat_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("roboco-heartbeat")]


def scripted(*answers: Answer) -> ScriptedRenewals:
    return ScriptedRenewals({LEASE.key: answers} if answers else {})


class Reports:
    """The reports of a heartbeat to one piece of work."""

    def __init__(self) -> None:
        self.losses = 0
        self.cancels = 0

    def lost(self) -> None:
        """Count a report of a loss."""
        self.losses += 1

    def cancel(self) -> None:
        """Count a report of a cancellation."""
        self.cancels += 1


def test_a_server_that_hangs_does_not_delay_another() -> None:
    renewals = ScriptedRenewals()
    resume = renewals.hang("a")
    heartbeat = LeaseHeartbeat(renewals.renew, renewals.server_of, RENEWAL_INTERVAL)
    with heartbeat.renewing(AttemptLease("a/1")), heartbeat.renewing(AttemptLease("b/1")):
        wait_for(lambda: renewals.count("a/1") == 1)
        renewed = renewals.count("b/1")
        wait_for(lambda: renewals.count("b/1") >= renewed + 5)
        assert renewals.count("a/1") == 1, "a server that hangs occupies one thread"
        assert heartbeat_threads().count("roboco-heartbeat-renewal a") == 1
        resume.set()
        wait_for(lambda: renewals.count("a/1") >= 3)


def test_a_refused_renewal_is_reported_once_and_not_repeated() -> None:
    renewals, reports, others = scripted(LeaseStatus.HELD, LeaseStatus.LOST), Reports(), Reports()
    heartbeat = LeaseHeartbeat(renewals.renew, renewals.server_of, RENEWAL_INTERVAL)
    with heartbeat.renewing(LEASE, reports.lost), heartbeat.renewing(OTHER, others.lost):
        wait_for(lambda: reports.losses > 0)
        before = renewals.count(OTHER.key)
        wait_for(lambda: renewals.count(OTHER.key) >= before + 5)
    assert reports.losses == 1
    assert renewals.count(LEASE.key) <= 3  # one may begin before the answer is handled
    assert others.losses == 0


def test_a_request_to_cancel_is_reported_once_while_the_lease_is_renewed() -> None:
    renewals, reports = scripted(LeaseStatus.HELD, LeaseStatus.CANCEL_REQUESTED), Reports()
    heartbeat = ManualHeartbeat(renewals)
    with heartbeat.renewing(LEASE, reports.lost, reports.cancel):
        for _ in range(4):
            heartbeat.beat()
    assert (reports.losses, reports.cancels, renewals.count(LEASE.key)) == (0, 1, 4)


def test_an_error_of_one_lease_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    answers: dict[str, list[Answer]] = {
        "late": [TransientError("no answer"), LeaseStatus.HELD],
        "broken": [ZeroDivisionError("bad answer")],
    }
    renewals, reports = ScriptedRenewals(answers | {LEASE.key: [LeaseStatus.LOST]}), Reports()
    heartbeat = ManualHeartbeat(renewals)
    with (
        heartbeat.renewing(AttemptLease("late"), reports.lost),
        heartbeat.renewing(AttemptLease("broken"), reports.lost),
        heartbeat.renewing(LEASE, reports.lost),
    ):
        heartbeat.beat()
        heartbeat.beat()
    assert reports.losses == 1
    assert [renewals.count(key) for key in ("late", "broken", LEASE.key)] == [2, 2, 1]
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR, logging.ERROR]
    assert "no answer" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_failure_of_many_leases_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    keys = [f"lease {number}" for number in range(50)]
    renewals = ScriptedRenewals({key: [TransientError("no answer")] for key in keys})
    heartbeat = ManualHeartbeat(renewals)
    with ExitStack() as stack:
        for key in keys:
            stack.enter_context(heartbeat.renewing(AttemptLease(key)))
        heartbeat.beat()
    assert caplog.messages == ["50 leases could not be renewed and are tried again: no answer"]


def test_renewals_that_raise_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ScriptedRenewals):
        def server_of(self, lease: Lease) -> str:
            raise ZeroDivisionError

        def renew(self, leases: object) -> list[Answer]:
            self.batches[""].append([LEASE.key])
            raise ZeroDivisionError

    renewals, reports = Broken(), Reports()
    heartbeat = LeaseHeartbeat(renewals.renew, renewals.server_of, RENEWAL_INTERVAL)
    with heartbeat.renewing(LEASE, reports.lost):
        wait_for(lambda: renewals.count(LEASE.key) >= 3)
    assert reports.losses == 0


def test_a_report_that_raises_or_hangs_does_not_stop_renewals() -> None:
    resume = threading.Event()

    def hang() -> None:
        assert resume.wait(WAIT_TIMEOUT)

    def fail() -> None:
        raise ZeroDivisionError

    renewals = ScriptedRenewals({"bad": [LeaseStatus.LOST], "hangs": [LeaseStatus.CANCEL_REQUESTED]})
    heartbeat = LeaseHeartbeat(renewals.renew, renewals.server_of, RENEWAL_INTERVAL)
    with (
        heartbeat.renewing(AttemptLease("bad"), fail),
        heartbeat.renewing(AttemptLease("hangs"), on_cancel=hang),
        heartbeat.renewing(LEASE),
    ):
        wait_for(lambda: min(renewals.count(LEASE.key), renewals.count("hangs")) >= 5)
        assert renewals.count("bad") <= 2  # one may begin before the answer is handled
        resume.set()


def test_without_a_free_thread_the_renewal_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals, refusals = ScriptedRenewals(), list[str]()

    class Thread(threading.Thread):
        def start(self) -> None:
            if self.name != "roboco-heartbeat" and len(refusals) < 2:
                refusals.append(self.name)
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(threading, "Thread", Thread)
    heartbeat = LeaseHeartbeat(renewals.renew, renewals.server_of, RENEWAL_INTERVAL)
    with heartbeat.renewing(LEASE):
        wait_for(lambda: renewals.count(LEASE.key) >= 2)
    assert len(refusals) == 2
