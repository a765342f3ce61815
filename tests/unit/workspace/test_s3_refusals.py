"""The errors that a user sees if an S3 store refuses a request."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from roboco.errors import TransientError
from roboco.workspace.s3 import S3Objects


def s3_client() -> Any:
    return boto3.client(
        "s3",
        endpoint_url="http://key:secret@store.test:9000",
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("put_object", lambda objects: objects.put("a", b"x", if_none=True)),
        ("get_object", lambda objects: objects.get("a")),
        ("list_objects_v2", lambda objects: objects.names("a")),
    ],
)
def test_missing_bucket_names_the_bucket_the_endpoint_and_the_remedy(
    operation: str, call: Callable[[S3Objects], object]
) -> None:
    client = s3_client()
    with Stubber(client) as store:
        store.add_client_error(operation, "NoSuchBucket", "The specified bucket does not exist", 404)
        with pytest.raises(TransientError) as refused:
            call(S3Objects(client, "records", "below"))
    assert str(refused.value) == (
        "the S3 store at http://***@store.test:9000 has no bucket 'records'; create it with `aws s3 mb s3://records "
        "--endpoint-url http://***@store.test:9000`, or correct ROBOCO_WORKSPACE or ROBOCO_S3_ENDPOINT_URL"
    )


def test_no_page_of_folders_has_a_cursor_that_the_store_refuses() -> None:
    client = s3_client()
    objects = S3Objects(client, "records", "below")
    with Stubber(client) as store:
        for _ in range(2):
            store.add_client_error(
                "list_objects_v2", "InvalidArgument", "The continuation token provided is incorrect", 400
            )
        assert objects.folders("expired", 100) is None
        with pytest.raises(TransientError):
            objects.folders("", 100)
