"""LeaseHeartbeat: a thread renews leases while their work is silent, and no work waits for it."""

import threading
import time
from collections.abc import Callable

import pytest

from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.errors import TransientError

RENEWAL_INTERVAL = 0.005
WAIT_TIMEOUT = 30.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds. Raise AssertionError after WAIT_TIMEOUT seconds."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.001)


def heartbeat_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "roboco-heartbeat"]


class Lease:
    """A lease that counts its renewals; `answers` are their results, of which the last one repeats."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.renewals = 0
        self.losses = 0
        self._answers = list(answers) or [True]

    def renew(self) -> bool:
        """Renew the lease."""
        self.renewals += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def lost(self) -> None:
        """Count a loss of the lease."""
        self.losses += 1


def test_a_lease_is_renewed_repeatedly() -> None:
    lease = Lease()
    with LeaseHeartbeat(RENEWAL_INTERVAL).renewing(lease.renew, lease.lost):
        wait_for(lambda: lease.renewals >= 5)
    assert lease.losses == 0


def test_the_lease_of_short_work_is_not_renewed() -> None:
    lease = Lease()
    with LeaseHeartbeat(60.0).renewing(lease.renew, lease.lost):
        pass
    wait_for(lambda: not heartbeat_threads())
    assert lease.renewals == 0


def test_a_refused_renewal_is_reported_once_and_not_repeated() -> None:
    lease, other = Lease(True, False), Lease()
    heartbeat = LeaseHeartbeat(RENEWAL_INTERVAL)
    with heartbeat.renewing(lease.renew, lease.lost), heartbeat.renewing(other.renew, other.lost):
        wait_for(lambda: lease.losses > 0)
        renewals = lease.renewals
        before = other.renewals
        wait_for(lambda: other.renewals >= before + 5)
    assert (lease.losses, lease.renewals, renewals) == (1, 2, 2)
    assert other.losses == 0


def test_a_lease_is_not_renewed_after_its_work_has_ended() -> None:
    lease, other = Lease(), Lease()
    heartbeat = LeaseHeartbeat(RENEWAL_INTERVAL)
    with heartbeat.renewing(other.renew, other.lost):
        with heartbeat.renewing(lease.renew, lease.lost):
            wait_for(lambda: lease.renewals > 0)
        at_end = lease.renewals
        before = other.renewals
        wait_for(lambda: other.renewals >= before + 5)
        assert lease.renewals <= at_end + 1  # a renewal that was in progress when the work ended


def test_a_lease_whose_work_ended_during_another_renewal_is_not_renewed() -> None:
    heartbeat = LeaseHeartbeat(RENEWAL_INTERVAL)
    renewing, resume = threading.Event(), threading.Event()

    def slow() -> bool:
        renewing.set()
        assert resume.wait(WAIT_TIMEOUT)
        return True

    lease = Lease()
    with heartbeat.renewing(slow, lambda: None):
        with heartbeat.renewing(lease.renew, lease.lost):
            assert renewing.wait(WAIT_TIMEOUT)
            at_end = lease.renewals
        renewing.clear()
        resume.set()
        assert renewing.wait(WAIT_TIMEOUT)
        assert lease.renewals == at_end


def test_the_heartbeat_thread_ends_with_the_work_and_starts_again() -> None:
    heartbeat = LeaseHeartbeat(RENEWAL_INTERVAL)
    for _ in range(3):
        lease = Lease()
        with heartbeat.renewing(lease.renew, lease.lost):
            wait_for(lambda lease=lease: lease.renewals > 0)  # type: ignore[misc]
            assert len(heartbeat_threads()) == 1
        wait_for(lambda: not heartbeat_threads())


def test_one_thread_renews_all_leases() -> None:
    heartbeat = LeaseHeartbeat(RENEWAL_INTERVAL)
    leases = [Lease() for _ in range(20)]
    done = threading.Event()

    def work(lease: Lease) -> None:
        with heartbeat.renewing(lease.renew, lease.lost):
            done.wait(WAIT_TIMEOUT)

    workers = [threading.Thread(target=work, args=(lease,)) for lease in leases]
    for worker in workers:
        worker.start()
    wait_for(lambda: all(lease.renewals >= 2 for lease in leases))
    assert len(heartbeat_threads()) == 1
    done.set()
    for worker in workers:
        worker.join(WAIT_TIMEOUT)
    wait_for(lambda: not heartbeat_threads())


def test_a_renewal_without_an_answer_is_repeated() -> None:
    lease = Lease(TransientError("no answer"), TransientError("no answer"), True)
    with LeaseHeartbeat(RENEWAL_INTERVAL).renewing(lease.renew, lease.lost):
        wait_for(lambda: lease.renewals >= 5)
    assert lease.losses == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("where", ["renew", "lost"])
def test_a_renewal_that_raises_does_not_stop_the_others(where: str) -> None:
    def fail() -> bool:
        raise ZeroDivisionError

    heartbeat = LeaseHeartbeat(RENEWAL_INTERVAL)
    bad_renew: Callable[[], bool] = fail if where == "renew" else lambda: False
    lease = Lease()
    with (
        heartbeat.renewing(bad_renew, lambda: ignore(where == "renew" or fail())),
        heartbeat.renewing(lease.renew, lease.lost),
    ):
        wait_for(lambda: lease.renewals >= 5)
    later = Lease()
    with heartbeat.renewing(later.renew, later.lost):
        wait_for(lambda: later.renewals >= 2)


def ignore(value: object) -> None:
    """Ignore the value."""


def test_an_error_of_the_work_is_raised() -> None:
    lease = Lease()
    with pytest.raises(ZeroDivisionError), LeaseHeartbeat(RENEWAL_INTERVAL).renewing(lease.renew, lease.lost):
        raise ZeroDivisionError
    wait_for(lambda: not heartbeat_threads())
