"""LeaseHeartbeat: leases are renewed while their work is silent, by a thread that no work waits for."""

import threading
import time
from collections.abc import Callable

import pytest

from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.errors import TransientError

INTERVAL = 0.005
LIMIT = 30.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; AssertionError after LIMIT seconds."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.001)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "roboco-heartbeat"]


class Lease:
    """Counts its renewals; `answers` are what they come to, the last one for ever."""

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
        """The lease was refused."""
        self.losses += 1


def test_it_renews_again_and_again() -> None:
    lease = Lease()
    with LeaseHeartbeat(INTERVAL).renewing(lease.renew, lease.lost):
        wait_for(lambda: lease.renewals >= 5)
    assert lease.losses == 0


def test_work_that_is_shorter_than_the_interval_renews_nothing() -> None:
    lease = Lease()
    with LeaseHeartbeat(60.0).renewing(lease.renew, lease.lost):
        pass
    wait_for(lambda: not threads())
    assert lease.renewals == 0


def test_a_refused_lease_is_told_once_and_renewed_no_more() -> None:
    lease, other = Lease(True, False), Lease()
    heartbeat = LeaseHeartbeat(INTERVAL)
    with heartbeat.renewing(lease.renew, lease.lost), heartbeat.renewing(other.renew, other.lost):
        wait_for(lambda: lease.losses > 0)
        renewals = lease.renewals
        before = other.renewals
        wait_for(lambda: other.renewals >= before + 5)
    assert (lease.losses, lease.renewals, renewals) == (1, 2, 2)
    assert other.losses == 0


def test_nothing_is_renewed_after_the_work_has_ended() -> None:
    lease, other = Lease(), Lease()
    heartbeat = LeaseHeartbeat(INTERVAL)
    with heartbeat.renewing(other.renew, other.lost):
        with heartbeat.renewing(lease.renew, lease.lost):
            wait_for(lambda: lease.renewals > 0)
        at_end = lease.renewals
        before = other.renewals
        wait_for(lambda: other.renewals >= before + 5)
        assert lease.renewals <= at_end + 1  # one that was under way as the work ended


def test_a_lease_whose_work_ended_while_another_was_renewed_is_left_alone() -> None:
    heartbeat = LeaseHeartbeat(INTERVAL)
    begun, goes_on = threading.Event(), threading.Event()

    def slow() -> bool:
        begun.set()
        assert goes_on.wait(LIMIT)
        return True

    lease = Lease()
    with heartbeat.renewing(slow, lambda: None):
        with heartbeat.renewing(lease.renew, lease.lost):
            assert begun.wait(LIMIT)
            at_end = lease.renewals
        begun.clear()
        goes_on.set()
        assert begun.wait(LIMIT)
        assert lease.renewals == at_end


def test_its_thread_ends_with_the_work_and_begins_again() -> None:
    heartbeat = LeaseHeartbeat(INTERVAL)
    for _ in range(3):
        lease = Lease()
        with heartbeat.renewing(lease.renew, lease.lost):
            wait_for(lambda lease=lease: lease.renewals > 0)  # type: ignore[misc]
            assert len(threads()) == 1
        wait_for(lambda: not threads())


def test_one_thread_renews_all() -> None:
    heartbeat = LeaseHeartbeat(INTERVAL)
    leases = [Lease() for _ in range(20)]
    done = threading.Event()

    def work(lease: Lease) -> None:
        with heartbeat.renewing(lease.renew, lease.lost):
            done.wait(LIMIT)

    workers = [threading.Thread(target=work, args=(lease,)) for lease in leases]
    for worker in workers:
        worker.start()
    wait_for(lambda: all(lease.renewals >= 2 for lease in leases))
    assert len(threads()) == 1
    done.set()
    for worker in workers:
        worker.join(LIMIT)
    wait_for(lambda: not threads())


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    lease = Lease(TransientError("no answer"), TransientError("no answer"), True)
    with LeaseHeartbeat(INTERVAL).renewing(lease.renew, lease.lost):
        wait_for(lambda: lease.renewals >= 5)
    assert lease.losses == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("where", ["renew", "lost"])
def test_one_that_raises_takes_no_other_with_it(where: str) -> None:
    def fail() -> bool:
        raise ZeroDivisionError

    heartbeat = LeaseHeartbeat(INTERVAL)
    bad_renew: Callable[[], bool] = fail if where == "renew" else lambda: False
    lease = Lease()
    with (
        heartbeat.renewing(bad_renew, lambda: void(where == "renew" or fail())),
        heartbeat.renewing(lease.renew, lease.lost),
    ):
        wait_for(lambda: lease.renewals >= 5)
    later = Lease()
    with heartbeat.renewing(later.renew, later.lost):
        wait_for(lambda: later.renewals >= 2)


def void(value: object) -> None:
    """Nothing."""


def test_an_error_of_the_work_goes_through() -> None:
    lease = Lease()
    with pytest.raises(ZeroDivisionError), LeaseHeartbeat(INTERVAL).renewing(lease.renew, lease.lost):
        raise ZeroDivisionError
    wait_for(lambda: not threads())
