"""The overlays of Kubernetes, built by the real Kustomize, against the schemas of Kubernetes, without an API server."""

import os

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.deployment.containers.room import Room
from tests.deployment.files import ROOT
from tests.deployment.test_kubernetes import OVERLAYS, VERSIONS

pytestmark = [pytest.mark.slow, pytest.mark.workers]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_builds_each_overlay_with_its_components(room: Room, overlay: str) -> None:
    """It contains the component `keda` itself; `sandbox` is added, as a user's overlay does."""
    folder = room.shared / f"overlay-{overlay}"
    folder.mkdir(exist_ok=True)
    base = os.path.relpath(ROOT / "deploy/kubernetes", folder)
    (folder / "kustomization.yaml").write_text(f"resources: [{base}/{overlay}]\ncomponents: [{base}/sandbox]\n")
    built = list(
        yaml.safe_load_all(room.run("kustomize", "build", "--load-restrictor", "LoadRestrictionsNone", folder))
    )
    assert len(built) > 20
    for one in built:
        if not one["apiVersion"].startswith("keda.sh/"):
            kubernetes_validate.validate(one, VERSIONS[1], strict=True)
