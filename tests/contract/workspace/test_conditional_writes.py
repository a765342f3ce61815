"""The check of a worker at its start that the store honours conditional writes."""

import pytest

from roboco.errors import TransientError
from roboco.local.seaweed import S3Server
from roboco.workspace.conditions import CHECK_PATH, conditional_write_flaw
from roboco.workspace.s3 import S3Objects, open_objects
from tests.contract.workspace.s3_faults import WatchedObjects
from tests.support.servers.loose_s3 import LooseS3, loose_s3


def open_store(store: LooseS3) -> S3Objects:
    objects = open_objects(f"s3://{store.bucket}/shop", store.endpoint_url, 5, attempts=1)
    assert objects is not None
    return objects


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set credentials for a store that checks none."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "roboco")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")


@pytest.mark.s3
def test_the_s3_server_has_no_flaw(s3: S3Server, objects: WatchedObjects) -> None:
    for _ in range(2):
        assert conditional_write_flaw(objects) is None
    assert objects.names("_checks/") == ["conditions"]


def test_checks_of_a_store_that_honours_conditions_leave_one_object() -> None:
    with loose_s3() as store:
        for _ in range(3):
            assert conditional_write_flaw(open_store(store)) is None
        assert list(store.objects) == [f"shop/{CHECK_PATH}"]
        assert store.writes == [f"shop/{CHECK_PATH}"] * 7, "two conditional writes for each check, and the first write"


@pytest.mark.parametrize(
    ("conditions", "flaw"),
    [
        ("ignored", "does not honour If-None-Match: a worker could replace an object of another worker"),
        ("501", "refuses writes with If-None-Match (501 NotImplemented), although it takes the same write without it"),
        ("400", "refuses writes with If-None-Match (400 NotImplemented), although it takes the same write without it"),
        ("412", "does not honour If-None-Match"),
        ("If-None-Match", "does not honour If-Match: a worker could replace"),
    ],
)
def test_a_store_without_conditions_has_a_flaw(conditions: str, flaw: str) -> None:
    with loose_s3(conditions=conditions) as store:
        assert (conditional_write_flaw(open_store(store)) or "").startswith(flaw)
        assert set(store.objects) <= {f"shop/{CHECK_PATH}"}


@pytest.mark.parametrize("conditions", ["403", "500"])
def test_a_check_that_fails_for_another_cause_raises_a_transient_error(conditions: str) -> None:
    with loose_s3(conditions=conditions) as store, pytest.raises(TransientError):
        conditional_write_flaw(open_store(store))
