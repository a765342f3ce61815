"""nginx before two gateways, with the configuration of deploy/proxy, and its Compose file."""

import importlib.resources
import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
import trustme
import yaml

from roboco import Orchestrator, Settings
from roboco.local.process import free_port, start_server
from roboco.local.valkey import ValkeyServer
from tests.deployment.files import DEPLOY, ROOT
from tests.integration.gateway.test_serve import served
from tests.support.stack import until

CONFIGURATION = (DEPLOY / "proxy" / "nginx.conf").read_text()


class _Loader(yaml.SafeLoader):
    """Reads Compose's tag `!reset`, which removes a value of the first file."""


def _construct_reset(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return list(loader.construct_sequence(node))


_Loader.add_constructor("!reset", _construct_reset)
PROXY: dict[str, Any] = yaml.load((DEPLOY / "compose.proxy.yaml").read_text(), _Loader)


def test_the_compose_file_of_the_proxy_matches_the_schema() -> None:
    schemas = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text())
    errors = jsonschema.validators.validator_for(schema)(schema).iter_errors(PROXY)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_gateways_behind_the_proxy_publish_no_port() -> None:
    """nginx alone is published, on this machine unless the operator names another address."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert set(PROXY["services"]) - set(services) == {"proxy"}
    assert PROXY["services"]["gateway"]["ports"] == []
    assert PROXY["services"]["proxy"]["ports"] == ["${PROXY_ADDRESS:-127.0.0.1:8443}:8443"]
    port = re.search(r"--port (\d+)", services["gateway"]["command"])
    assert port is not None
    assert f"http://gateway:{port[1]};" in CONFIGURATION
    proxy = PROXY["services"]["proxy"]
    assert (proxy["read_only"], proxy["cap_drop"]) == (True, ["ALL"])
    assert "\nNGINX_IMAGE " in (DEPLOY / "pin-images.sh").read_text()


def nginx_version(program: str) -> tuple[int, ...]:
    """Return the version of nginx."""
    found = re.search(r"nginx/([\d.]+)", subprocess.run([program, "-v"], capture_output=True, text=True).stderr)
    assert found is not None
    return tuple(map(int, found[1].split(".")))


@contextmanager
def nginx(folder: Path, ports: list[int]) -> Iterator[httpx2.Client]:
    """Run nginx before these ports. Yield a client of it that trusts its certificate."""
    program = shutil.which("nginx")
    if program is None:
        assert not os.environ.get("CI"), "nginx is not installed; `.ci/run` installs it"
        pytest.skip("nginx is not installed")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(folder / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    servers = " ".join(f"server 127.0.0.1:{port};" for port in ports)
    listening, probed = free_port(), free_port()
    changes = {
        "/tmp/": f"{folder}/",
        "/etc/nginx/tls": str(folder),
        "listen 8443 ": f"listen 127.0.0.1:{listening} ",
        "127.0.0.1:8081": f"127.0.0.1:{probed}",
        "resolver 127.0.0.11 valid=5s ipv6=off;": f"upstream gateways {{ {servers} }}",  # no name server of Docker
        "http://gateway:8080;": "http://gateways;",
        "worker_rlimit_nofile 131072;": "",  # only root may raise it
        "worker_connections 32768;": "worker_connections 512;",
        "worker_processes auto;": "worker_processes 1;",
    }
    if nginx_version(program) < (1, 25, 1):
        changes |= {"    http2 on;\n": "", f"{listening} ssl;": f"{listening} ssl http2;"}
    text = CONFIGURATION
    for old, new in changes.items():
        assert old in text or "ssl http2" in new, old
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(f"daemon off; master_process off;\n{text}")
    command = [program, "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    server = start_server("nginx", command, log=folder / "nginx.log")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    try:
        probe = f"http://127.0.0.1:{probed}/healthz"
        until(lambda: not server.alive() or _answers(probe), 30, "nginx answers")
        assert server.alive(), (folder / "nginx.log").read_text()
        with httpx2.Client(base_url=f"https://localhost:{listening}", verify=context, timeout=300) as client:
            yield client  # its first request waits until a gateway has imported its application
    finally:
        server.stop()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.slow
@pytest.mark.redis
def test_requests_reach_both_gateways_and_survive_the_end_of_one(tmp_path: Path, valkey: ValkeyServer) -> None:
    with ExitStack() as exits:
        folder = tmp_path / "shared-roboco"
        (folder / "other").mkdir(parents=True)
        shared = {
            "ROBOCO_WORKSPACE": f"file://{folder}/workspace",
            "ROBOCO_PREFIX": "proxied",
            "ROBOCO_GATEWAY_ALLOWED_HOSTS": "localhost",
        }
        gateways = [exits.enter_context(served(place, valkey, **shared)) for place in (folder, folder / "other")]
        with Orchestrator(Settings(workspace=shared["ROBOCO_WORKSPACE"], redis_url=valkey.url)) as operator:
            key = operator.operator.create_key(name="test").text
        client = exits.enter_context(nginx(tmp_path, [gateway.port for gateway in gateways]))
        client.headers |= {"X-API-Key": key, "X-Forwarded-For": "203.0.113.9"}

        answers = [client.get("/v1/me") for _ in range(10)]
        assert {answer.status_code for answer in answers} == {200}
        assert answers[0].headers["Strict-Transport-Security"] == "max-age=31536000"
        for gateway in gateways:
            lines = [json.loads(line) for line in gateway.log.read_text().splitlines() if '"/v1/me"' in line]
            assert len(lines) >= 3
            assert {line["client"] for line in lines} == {"127.0.0.1"}, "a client cannot forge its address"
        assert client.get("/readyz").status_code == 404
        refused = client.post("/v1/sign-in", content=b"x" * 2_000_000)
        assert refused.headers["Content-Type"] == "application/problem+json", "the gateway limits bodies, not nginx"
        gateways[0].process.terminate()
        gateways[0].process.wait(60)
        assert {client.get("/v1/me").status_code for _ in range(10)} == {200}
