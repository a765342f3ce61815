"""Archives in folders and buckets: whole files, their storage class, and addresses of rules alone."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roboco.engine.record.task_tar import HashedReader
from roboco.errors import TransientError, UsageError
from roboco.local.seaweed import S3Server
from roboco.ports.workspace import Files
from roboco.workspace.archives import archives
from tests.support.stack import s3_environment

PART = 8 * 1024 * 1024
SENT = ("x-amz-storage-class", b"GLACIER_IR")


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.s3)])
def address(request: pytest.FixtureRequest, tmp_path: Path, prefix: str) -> Iterator[str]:
    """Yield the address of an empty archive."""
    if request.param == "folder":
        yield (tmp_path / "old tasks").as_uri()
        return
    s3: S3Server = request.getfixturevalue("s3")
    with s3_environment(s3):
        yield f"s3://{s3.bucket}/{prefix}/old"


@pytest.fixture
def stored(address: str, request: pytest.FixtureRequest) -> Files:
    """Return the archive at this address."""
    url = request.getfixturevalue("s3").endpoint_url if address.startswith("s3:") else None
    return archives([address], url)(address)


def source(*pieces: bytes) -> Any:
    """Return a source that is read once, as that of a task."""
    return HashedReader(iter(pieces))


@pytest.mark.parametrize("size", [0, 1000, 2 * PART + 3])
def test_a_file_is_stored_replaced_and_removed(stored: Files, size: int) -> None:
    assert stored.size("acme:t.tar") is None
    stored.put_from("acme:t.tar", io.BytesIO(b"an older file"))
    stored.put_from("acme:t.tar", source(b"x" * (size // 2), b"x" * (size - size // 2)))
    assert stored.size("acme:t.tar") == size
    stored.delete("acme:t.tar")
    stored.delete("acme:t.tar")
    assert stored.size("acme:t.tar") is None


def test_a_source_that_fails_changes_nothing(stored: Files) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * (PART + 1)
        raise TransientError("the task changed while it was read")

    stored.put_from("t.tar", io.BytesIO(b"an older file"))
    with pytest.raises(TransientError, match="changed while it was read"):
        stored.put_from("t.tar", HashedReader(pieces()))  # type: ignore[arg-type]
    assert stored.size("t.tar") == len(b"an older file")


def test_an_address_of_no_rule_is_refused(address: str) -> None:
    for other in (f"{address}/..", "s3://other", "file:///etc"):
        with pytest.raises(UsageError, match="is named by no rule"):
            archives([address])(other)


@pytest.mark.s3
@pytest.mark.parametrize("size", [1000, 2 * PART])
def test_the_storage_class_is_sent(s3: S3Server, prefix: str, size: int) -> None:
    address = f"s3://{s3.bucket}/{prefix}/old"
    with s3_environment(s3):
        stored: Any = archives([address], s3.endpoint_url)(address)
        client = stored._objects._client
        sent = list[tuple[str, Any]]()
        client.meta.events.register(
            "before-send.s3",
            lambda request, **_: sent.extend((name.lower(), value) for name, value in request.headers.items()),
        )
        stored.put_from("t.tar", source(b"x" * size), "GLACIER_IR")
        assert SENT in sent
        assert stored.size("t.tar") == size
        found = client.head_object(Bucket=s3.bucket, Key=f"{prefix}/old/t.tar")
        assert found.get("StorageClass") == "GLACIER_IR", "SeaweedFS records the class"
