"""deploy/kubernetes: each object matches the schemas of Kubernetes or KEDA, and names objects that exist."""

import ipaddress
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import yaml

from roboco.tools.sandbox.budget import read_budget
from roboco.tools.sandbox.limits import MIB, SandboxLimits
from tests.deployment.files import DEPLOY, documents, missing_modules, unknown_variables
from tests.deployment.queries import unknown_metrics

FOLDER = DEPLOY / "kubernetes"
FOLDERS = ("base", "small", "external", "keda", "sandbox")
OVERLAYS = ("small", "external")
POOLS = ("coordinator", "agents", "tools")
VERSIONS = ("1.34", "1.37")
"""The oldest supported version and the newest one. The sandbox needs 1.36."""


@cache
def objects(folder: str) -> list[dict[str, Any]]:
    """Return the objects of the files in a folder."""
    paths = sorted((FOLDER / folder).glob("*.yaml"))
    return [one for path in paths if path.name != "kustomization.yaml" for one in documents(path)]


def kustomization(folder: str) -> dict[str, Any]:
    """Return the kustomization of a folder."""
    (one,) = documents(FOLDER / folder / "kustomization.yaml")
    return one


OBJECTS = [one for folder in FOLDERS for one in objects(folder)]
DEPLOYMENTS = {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == "Deployment"}


def kind_and_name(one: dict[str, Any]) -> str:
    """Return the kind and name of an object."""
    return f"{one['kind']}/{one['metadata']['name']}"


def pod(name: str) -> dict[str, Any]:
    """Return the pod specification of a Deployment."""
    template: dict[str, Any] = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    return template


def container(name: str) -> dict[str, Any]:
    """Return the only container of a Deployment."""
    (one,) = pod(name)["containers"]
    assert isinstance(one, dict)
    return one


def test_each_object_matches_the_schema_of_kubernetes() -> None:
    for one in (one for one in OBJECTS if one["kind"] != "ScaledObject"):
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)


def test_each_scaled_object_matches_the_schema_of_keda() -> None:
    """The Deployment that it scales exists, and its queries name known metrics."""
    for one in (one for one in OBJECTS if one["kind"] == "ScaledObject"):
        jsonschema.validate(one, yaml.safe_load((Path(__file__).parent / "keda.yaml").read_text()))
        assert one["spec"]["scaleTargetRef"]["name"] in DEPLOYMENTS
        for trigger in one["spec"]["triggers"]:
            assert unknown_metrics(trigger["metadata"]["query"]) == set()


def test_redis_refuses_writes_before_the_kernel_kills_it() -> None:
    """Half of its limit is left for the copy that rewrites the append-only file."""
    [redis] = [one for one in objects("small") if one["kind"] == "StatefulSet"]
    [container] = redis["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--maxmemory", "1gb"]
    assert container["resources"]["limits"]["memory"] == "2Gi"


def test_redis_is_configured_as_in_compose() -> None:
    """Kustomize reads no file outside its folder, so the files exist twice."""
    for name in ("redis.conf", "redis-users.acl", "redis-start.sh"):
        assert (FOLDER / "small" / name).read_text() == (DEPLOY / name).read_text()


def test_a_pool_runs_its_module_and_its_probes() -> None:
    """Its probes check its own health, and it has 60 seconds or more to end."""
    for pool in POOLS:
        worker = container(f"roboco-{pool}")
        assert worker["args"][:4] == ["celery", "-A", f"roboco.workers.{pool}", "worker"]
        assert missing_modules(worker["args"]) == []
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert worker[probe]["exec"]["command"] == ["python", "-m", "roboco.workers.healthcheck", pool]
        assert pod(f"roboco-{pool}")["terminationGracePeriodSeconds"] >= 60
        mounted = {volume["mountPath"] for volume in worker["volumeMounts"]}
        assert mounted == {"/run/roboco", "/tmp"}


def test_pods_have_no_excess_rights() -> None:
    """Containers do not run as root, have a read-only image, no capability, no token, and cannot gain rights."""
    for name in [*(one for one in DEPLOYMENTS), "roboco-redis"]:
        workloads = {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] in ("Deployment", "StatefulSet")}
        spec = workloads[name]["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for one in spec["containers"]:
            rights = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert one["securityContext"] == rights
            assert {"cpu", "memory"} <= set(one["resources"]["requests"])
            assert "memory" in one["resources"]["limits"]


def test_variables_are_known_and_secrets_are_references() -> None:
    """Secrets are references to keys, for which README.md of deploy/ has a command."""
    for name in list(DEPLOYMENTS):
        settings = {variable for one in OBJECTS if one["kind"] == "ConfigMap" for variable in one["data"]}
        variables = container(name).get("env", [])
        assert unknown_variables({one["name"] for one in variables} | settings) == set()
        readme = (DEPLOY / "README.md").read_text()
        for one in variables:
            if one["name"] == "ROBOCO_DRAIN_TIMEOUT":  # differs by pool, and is no secret
                assert float(one["value"]) < pod(name)["terminationGracePeriodSeconds"]
                continue
            assert set(one) == {"name", "valueFrom"}
            shared = {"ROBOCO_SIGNING_KEYS": "roboco-messages"}
            assert one["valueFrom"]["secretKeyRef"]["name"] == shared.get(one["name"], name)
            assert f"--from-literal={one['valueFrom']['secretKeyRef']['key']}=" in readme


def test_every_image_must_be_named_with_a_digest() -> None:
    """The manifests name images of a host that does not exist, which an overlay replaces by images with digests."""
    workloads = [one for one in OBJECTS if one["kind"] in ("Deployment", "StatefulSet")]
    images = {used["image"] for one in workloads for used in one["spec"]["template"]["spec"]["containers"]}
    assert images == {"roboco.invalid/roboco", "redis.invalid/redis"}
    readme = (DEPLOY / "README.md").read_text()
    assert all(f"{{name: {image}, newName: " in readme for image in images)
    assert all(one.get("digest") for folder in FOLDERS for one in kustomization(folder).get("images", ()))


def test_the_manifests_hold_no_secret() -> None:
    assert [kind_and_name(one) for one in OBJECTS if one["kind"] == "Secret"] == []
    assert all("secretGenerator" not in kustomization(folder) for folder in FOLDERS)


def test_only_agents_have_the_models_key() -> None:
    holders = [name for name in DEPLOYMENTS if "openai-api-key" in str(container(name).get("env"))]
    assert holders == ["roboco-agents"]


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return True if a selector matches a pod with these labels."""
    wanted = selector.get("matchLabels", {}).items()
    either = selector.get("matchExpressions", ())
    return all(labels.get(key) == value for key, value in wanted) and all(
        labels.get(one["key"]) in one["values"] for one in either
    )


def all_labels() -> dict[str, dict[str, str]]:
    """Return the labels of the pods of each Deployment and StatefulSet."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in OBJECTS
        if one["kind"] in ("Deployment", "StatefulSet")
    }


def reachable_networks(name: str, overlay: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the networks outside the cluster that pods of a Deployment may reach, without the excepted ones."""
    labels = all_labels()[name]
    networks = []
    for one in (*objects("base"), *objects(overlay)):
        if one["kind"] != "NetworkPolicy" or not selects(one["spec"]["podSelector"], labels):
            continue
        for rule in one["spec"].get("egress", ()):
            assert rule["to"], "a rule without addresses allows every address"
            networks += [
                block for peer in rule["to"] if "ipBlock" in peer for block in _without_exceptions(peer["ipBlock"])
            ]
    return networks


def _without_exceptions(block: dict[str, Any]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    left = [ipaddress.ip_network(block["cidr"])]
    for cut in map(ipaddress.ip_network, block.get("except", ())):
        left = [
            part
            for one in left
            for part in (one.address_exclude(cut) if cut.subnet_of(one) else [one])  # type: ignore[arg-type]
        ]
    return left


METADATA = ("169.254.169.254", "169.254.170.2", "fd00:ec2::254")
PUBLIC = ("8.8.8.8", "2606:4700::1111")


def test_no_pod_reaches_cloud_metadata_and_only_agents_reach_the_internet() -> None:
    for overlay in OVERLAYS:
        for name in DEPLOYMENTS:
            networks = reachable_networks(name, overlay)
            assert not any(ipaddress.ip_address(address) in one for address in METADATA for one in networks)
            internet = any(ipaddress.ip_address(address) in one for address in PUBLIC for one in networks)
            assert internet == (name == "roboco-agents"), name


def test_only_the_ingress_controller_and_prometheus_reach_the_gateway() -> None:
    for overlay in OVERLAYS:
        labels = all_labels()["roboco-gateway"]
        allowed = [
            (next(iter(peer["namespaceSelector"]["matchLabels"].items())), port["port"])
            for one in (*objects("base"), *objects(overlay))
            if one["kind"] == "NetworkPolicy" and selects(one["spec"]["podSelector"], labels)
            for rule in one["spec"].get("ingress", ())
            for peer in rule["from"]
            for port in rule["ports"]
        ]
        monitoring = ("kubernetes.io/metadata.name", "monitoring")
        assert set(allowed) == {(("roboco.example.com/ingress", "true"), 8080), (monitoring, 9464), (monitoring, 5555)}


def test_traffic_without_a_policy_is_denied() -> None:
    closed = next(one for one in objects("base") if kind_and_name(one) == "NetworkPolicy/roboco-nothing")
    assert set(closed["spec"]) == {"podSelector", "policyTypes"}
    assert set(closed["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert all(selects(closed["spec"]["podSelector"], all_labels()[name]) for name in DEPLOYMENTS)


def test_the_tools_pods_have_memory_for_their_sandboxes(tmp_path: Path) -> None:
    worker = container("roboco-tools")
    (concurrency,) = (int(arg.partition("=")[2]) for arg in worker["args"] if arg.startswith("--concurrency="))
    gibibytes = int(worker["resources"]["limits"]["memory"].removesuffix("Gi"))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{gibibytes << 30}\n")
    budget = read_budget(None, concurrency, tmp_path)
    assert budget.share(SandboxLimits().total_memory) == 392 * MIB, "as deploy/README.md says"
