"""deploy/kubernetes: each object against the schemas of Kubernetes and KEDA, and all of them against each other."""

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from roboco.adapters.sandbox.budget import read_budget
from roboco.adapters.sandbox.limits import MIB, SandboxLimits
from tests.deployment.files import DEPLOY, documents, missing_modules, unknown_variables
from tests.deployment.queries import unknown_metrics

HERE = DEPLOY / "kubernetes"
FOLDERS = ("base", "small", "external", "keda", "sandbox")
OVERLAYS = ("small", "external")
POOLS = ("coordinator", "agents", "tools")
VERSIONS = ("1.34", "1.37")
"""The oldest that is still supported, and the newest. The sandbox needs 1.36."""


def objects(folder: str) -> list[dict[str, Any]]:
    """The objects of a folder's own files."""
    paths = sorted((HERE / folder).glob("*.yaml"))
    return [one for path in paths if path.name != "kustomization.yaml" for one in documents(path)]


def kustomization(folder: str) -> dict[str, Any]:
    """The folder's kustomization."""
    (one,) = documents(HERE / folder / "kustomization.yaml")
    return one


ALL = [one for folder in FOLDERS for one in objects(folder)]
DEPLOYMENTS = {one["metadata"]["name"]: one for one in ALL if one["kind"] == "Deployment"}


def named(one: dict[str, Any]) -> str:
    """The kind and name of an object."""
    return f"{one['kind']}/{one['metadata']['name']}"


def pod(name: str) -> dict[str, Any]:
    """What a Deployment says of its pods."""
    template: dict[str, Any] = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    return template


def container(name: str) -> dict[str, Any]:
    """The only container of a Deployment."""
    (one,) = pod(name)["containers"]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("one", [one for one in ALL if one["kind"] != "ScaledObject"], ids=named)
def test_schema_of_kubernetes(one: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("one", [one for one in ALL if one["kind"] == "ScaledObject"], ids=named)
def test_schema_of_keda(one: dict[str, Any]) -> None:
    """And what it scales is there, and what it asks for can be asked."""
    jsonschema.validate(one, yaml.safe_load((Path(__file__).parent / "keda.yaml").read_text()))
    assert one["spec"]["scaleTargetRef"]["name"] in DEPLOYMENTS
    for trigger in one["spec"]["triggers"]:
        assert unknown_metrics(trigger["metadata"]["query"]) == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomization_names_what_is_there(folder: str) -> None:
    """Every file and folder that it names exists, and every file beside it is named."""
    one = kustomization(folder)
    resources = one.get("resources", []) + one.get("components", [])
    assert all((HERE / folder / name).exists() for name in resources)
    files = {path.name for path in (HERE / folder).glob("*.yaml")} - {"kustomization.yaml"}
    assert files == {name for name in resources if name.endswith(".yaml")}
    assert one["kind"] == ("Component" if folder in ("keda", "sandbox") else "Kustomization")
    for generated in one.get("configMapGenerator", ()):
        assert all((HERE / folder / name).exists() for name in generated["files"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_object_is_there_twice(overlay: str) -> None:
    names = [named(one) for folder in ("base", "keda", overlay) for one in objects(folder)]
    assert len(names) == len(set(names))


def test_redis_is_configured_as_in_compose() -> None:
    """Kustomize reads no file outside of its folder, so that there are two."""
    for name in ("redis.conf", "redis-users.acl", "redis-start.sh"):
        assert (HERE / "small" / name).read_text() == (DEPLOY / name).read_text()


@pytest.mark.parametrize("pool", POOLS)
def test_pool(pool: str) -> None:
    """It runs its module, is asked for its own health, and may take its time to end."""
    worker = container(f"roboco-{pool}")
    assert worker["args"][:4] == ["celery", "-A", f"roboco.workers.{pool}", "worker"]
    assert missing_modules(worker["args"]) == []
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert worker[probe]["exec"]["command"] == ["python", "-m", "roboco.workers.healthcheck", pool]
    assert pod(f"roboco-{pool}")["terminationGracePeriodSeconds"] >= 60
    mounted = {volume["mountPath"] for volume in worker["volumeMounts"]}
    assert mounted == {"/run/roboco", "/tmp"}


@pytest.mark.parametrize("name", [*(one for one in DEPLOYMENTS), "roboco-redis"])
def test_rights(name: str) -> None:
    """Nobody is root, writes to the image, has a capability or a token, or may gain rights."""
    every = {one["metadata"]["name"]: one for one in ALL if one["kind"] in ("Deployment", "StatefulSet")}
    spec = every[name]["spec"]["template"]["spec"]
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


@pytest.mark.parametrize("name", list(DEPLOYMENTS))
def test_variables(name: str) -> None:
    """They are Roboco's, and what is secret is a reference to a key that the README tells how to make."""
    settings = next(one for one in ALL if one["kind"] == "ConfigMap")
    variables = container(name).get("env", [])
    assert unknown_variables({one["name"] for one in variables} | set(settings["data"])) == set()
    readme = (DEPLOY / "README.md").read_text()
    for one in variables:
        assert set(one) == {"name", "valueFrom"}
        shared = {"ROBOCO_SIGNING_KEYS": "roboco-messages"}
        assert one["valueFrom"]["secretKeyRef"]["name"] == shared.get(one["name"], name)
        assert f"--from-literal={one['valueFrom']['secretKeyRef']['key']}=" in readme


def test_flower_has_no_keys() -> None:
    names = {name: {one["name"] for one in container(name)["env"]} for name in DEPLOYMENTS}
    assert {"ROBOCO_SIGNING_KEYS", "AWS_ACCESS_KEY_ID"}.isdisjoint(names["roboco-flower"])
    assert all({"ROBOCO_SIGNING_KEYS", "AWS_ACCESS_KEY_ID"} <= names[f"roboco-{pool}"] for pool in POOLS)


def test_every_image_must_be_named_with_a_digest() -> None:
    """The manifests name hosts that do not exist, in place of which an overlay names images with digests."""
    every = [one for one in ALL if one["kind"] in ("Deployment", "StatefulSet")]
    images = {used["image"] for one in every for used in one["spec"]["template"]["spec"]["containers"]}
    assert images == {"roboco.invalid/roboco", "redis.invalid/redis"}
    readme = (DEPLOY / "README.md").read_text()
    assert all(f"{{name: {image}, newName: " in readme for image in images)
    assert all(one.get("digest") for folder in FOLDERS for one in kustomization(folder).get("images", ()))


def test_no_secret_lies_here() -> None:
    assert [named(one) for one in ALL if one["kind"] == "Secret"] == []
    assert all("secretGenerator" not in kustomization(folder) for folder in FOLDERS)


def test_only_agents_have_the_models_key() -> None:
    holders = [name for name in DEPLOYMENTS if "openai-api-key" in str(container(name).get("env"))]
    assert holders == ["roboco-agents"]


def selectors(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Whom an object is about."""
    spec = one["spec"]
    match one["kind"]:
        case "PodDisruptionBudget":
            yield spec["selector"]
        case "NetworkPolicy":
            yield spec["podSelector"]
        case "Deployment" | "StatefulSet":
            yield spec["selector"]
            for spread in spec["template"]["spec"].get("topologySpreadConstraints", ()):
                yield spread["labelSelector"]
        case _:  # it names what it is about
            pass


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a selector is about a pod with these labels."""
    wanted = selector.get("matchLabels", {}).items()
    either = selector.get("matchExpressions", ())
    return all(labels.get(key) == value for key, value in wanted) and all(
        labels.get(one["key"]) in one["values"] for one in either
    )


def all_labels() -> dict[str, dict[str, str]]:
    """The labels of the pods of each Deployment and StatefulSet."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in ALL
        if one["kind"] in ("Deployment", "StatefulSet")
    }


@pytest.mark.parametrize(
    "one", [one for one in ALL if one["kind"] not in ("Service", "ConfigMap", "ServiceAccount")], ids=named
)
def test_selectors_select_somebody(one: dict[str, Any]) -> None:
    for selector in selectors(one):
        chosen = [name for name, labels in all_labels().items() if selects(selector, labels)]
        assert chosen
        assert one["kind"] not in ("Deployment", "StatefulSet") or chosen == [one["metadata"]["name"]]


def reachable(name: str, overlay: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The addresses that the pods of a Deployment may reach, apart from pods; with what is excepted taken out."""
    labels = all_labels()[name]
    networks = []
    for one in (*objects("base"), *objects(overlay)):
        if one["kind"] != "NetworkPolicy" or not selects(one["spec"]["podSelector"], labels):
            continue
        for rule in one["spec"].get("egress", ()):
            assert rule["to"], "a rule without addresses allows all of them"
            networks += [block for peer in rule["to"] if "ipBlock" in peer for block in _left(peer["ipBlock"])]
    return networks


def _left(block: dict[str, Any]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
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


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nobody_reaches_metadata_and_only_agents_the_world(overlay: str) -> None:
    for name in DEPLOYMENTS:
        networks = reachable(name, overlay)
        assert not any(ipaddress.ip_address(address) in one for address in METADATA for one in networks)
        world = any(ipaddress.ip_address(address) in one for address in PUBLIC for one in networks)
        assert world == (name == "roboco-agents"), name


def test_nothing_is_open_where_no_policy_says_so() -> None:
    closed = next(one for one in objects("base") if named(one) == "NetworkPolicy/roboco-nothing")
    assert set(closed["spec"]) == {"podSelector", "policyTypes"}
    assert set(closed["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert all(selects(closed["spec"]["podSelector"], all_labels()[name]) for name in DEPLOYMENTS)


def test_sandbox() -> None:
    """The tools pods are valid once they are patched, and only their container's rights are wider."""
    (patch,) = kustomization("sandbox")["patches"]
    change = yaml.safe_load(patch["patch"])
    before = DEPLOYMENTS[patch["target"]["name"]]
    after = merged(before, change)
    kubernetes_validate.validate(after, "1.37", strict=True)
    (worker,) = after["spec"]["template"]["spec"]["containers"]
    assert after["spec"]["template"]["spec"]["hostUsers"] is False
    assert worker["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert worker["args"] == container("roboco-tools")["args"]


def merged(before: Any, change: Any) -> Any:
    """A strategic merge, as far as the patches here need it: lists of named things by their names."""
    match before, change:
        case dict(), dict():
            return before | {key: merged(before.get(key), value) for key, value in change.items()}
        case [{"name": _}, *_], [{"name": _}, *_]:
            changes = {one["name"]: one for one in change}
            assert set(changes) <= {one["name"] for one in before}
            return [merged(one, changes.get(one["name"], {})) for one in before]
        case _:
            return change


def test_scaled_deployments_leave_their_number_to_keda() -> None:
    (patch,) = kustomization("keda")["patches"]
    assert yaml.safe_load(patch["patch"]) == [{"op": "remove", "path": "/spec/replicas"}]
    scaled = {one["spec"]["scaleTargetRef"]["name"] for one in objects("keda")}
    assert scaled == {f"roboco-{pool}" for pool in POOLS}
    assert patch["target"]["name"] == f"roboco-({'|'.join(POOLS)})"


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
