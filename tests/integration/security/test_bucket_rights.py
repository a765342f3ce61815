"""The policy of tools workers on SeaweedFS: no spelling of a key reaches the records of operators."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import unquote

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from roboco.local import seaweed
from roboco.local.seaweed import S3Server, find_weed, start_seaweed
from roboco.workspace.s3 import S3Files, S3Objects
from tests.conftest import need
from tests.deployment.files import DEPLOY

WORKER, SECRET = "tools", "tools-secret-of-this-test"
PATHS = [
    "tasks-operator/_keys/k.json",
    "tasks//_keys/k.json",
    "tasks/%2F_keys/k.json",
    "tasks/..%2Ftasks-operator/_keys/k.json",
    "tasks/../tasks-operator/_keys/k.json",
    "tasks/%2e%2e/tasks-operator/_keys/k.json",
    "tasks-operator//_keys/k.json",
    "tasks-operator/_erased//../_keys/k.json",
    "tasks-operator/_erased/..%2F_keys/k.json",
    "tasks%2F%2F..%2Ftasks-operator/_keys/k.json",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Yield a server with an administrator, and a worker with the policy of its pool."""
    need(find_weed)
    plain = seaweed._identities

    def with_worker(secret_key: str) -> str:
        config = json.loads(plain(secret_key))
        keys = [{"accessKey": WORKER, "secretKey": SECRET}]
        config["identities"].append({"name": WORKER, "policyNames": ["pool"], "credentials": keys})
        config["policies"] = [{"name": "pool", "content": (DEPLOY / "s3-policy.json").read_text()}]
        return json.dumps(config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seaweed, "_identities", with_worker)
        server = start_seaweed(tmp_path_factory.mktemp("store"))
    yield server
    server.stop()


def client_of(store: S3Server, access_key: str, secret_key: str) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=store.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(
            request_checksum_calculation="when_required",
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"},
            signature_version="s3v4",
        ),
    )


@pytest.fixture(scope="module")
def clients(store: S3Server) -> tuple[Any, Any]:
    """Return clients of the administrator and of the worker."""
    return client_of(store, store.access_key, store.secret_key), client_of(store, WORKER, SECRET)


def ask(store: S3Server, method: str, path: str, body: bytes = b"") -> bytes:
    """Return the answer to a request of the worker, whose path is sent as it is."""
    request = AWSRequest(method=method, url=f"{store.endpoint_url}{path}", data=body)
    S3SigV4Auth(Credentials(WORKER, SECRET), "s3", "us-east-1").add_auth(request)
    with closing(http.client.HTTPConnection("127.0.0.1", store.port, timeout=30)) as connection:
        connection.request(method, path, body=body, headers=dict(request.headers))
        return connection.getresponse().read()


@pytest.mark.s3
@pytest.mark.parametrize("path", PATHS)
def test_a_tools_worker_reaches_no_key_of_the_gateway(store: S3Server, clients: tuple[Any, Any], path: str) -> None:
    operator, worker = clients
    files = S3Files(S3Objects(operator, store.bucket, "tasks"))
    S3Files(S3Objects(worker, store.bucket, "tasks")).put("t1/file", b"its own")
    files.put("_keys/k.json", b"secret")
    place, key = {"Bucket": store.bucket}, unquote(path)
    target = place | {"Key": "tasks/t1/copy"}
    assert b"secret" not in ask(store, "GET", f"/{store.bucket}/{path}")
    with suppress(ClientError):
        worker.copy_object(**target, CopySource=f"{store.bucket}/{path}")
    with suppress(ClientError):
        upload = target | {"UploadId": worker.create_multipart_upload(**target)["UploadId"]}
        part = worker.upload_part_copy(**upload, PartNumber=1, CopySource=f"{store.bucket}/{path}")["CopyPartResult"]
        worker.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert files.get("t1/copy") != b"secret"
    with suppress(ClientError):
        worker.delete_objects(**place, Delete={"Objects": [{"Key": key}]})
    ask(store, "DELETE", f"/{store.bucket}/{path}")
    ask(store, "PUT", f"/{store.bucket}/{path}", b"forged")
    with suppress(ClientError):
        upload = place | {"Key": key}
        upload |= {"UploadId": worker.create_multipart_upload(**upload)["UploadId"]}
        tag = worker.upload_part(**upload, PartNumber=1, Body=b"forged")["ETag"]
        worker.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    assert files.get("_keys/k.json") == b"secret"
