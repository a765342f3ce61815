"""No file of a deployment names an image by a tag alone, and no image of Roboco is built on one."""

import re
import subprocess

import pytest

from tests.deployment.files import DEPLOY, ROOT

DIGEST = "sha256:" + "0" * 64
TEXTS = [
    ROOT / "compose.yaml",
    *(path for path in sorted(DEPLOY.rglob("*")) if path.name == "Dockerfile" or path.suffix in (".yaml", ".yml")),
]
_NAMED = re.compile(
    r"""^FROM\s+(?:--\S+\s+)*(\S+)                                  # the base of a stage
    | [\s,]-{0,2}from=([^\s,]+)                                     # COPY --from=, and RUN --mount=...,from=
    | ^\#\s*syntax=(\S+)                                            # the frontend that reads a Dockerfile
    | ^ARG\s+\w*IMAGE\w*=(\S*)                                      # a default
    | PYTHON_IMAGE:\s*"([^"]*)"                                     # an argument of the build
    | ^[\s{-]*image:\s*(.+)$                                        # Compose and Kubernetes
    | (newTag:)""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_ACCEPTED = (
    r"\S+@sha256:[0-9a-f]{64}",
    r"\$\{[A-Z]+_IMAGE\}|\$\{[A-Z]+_IMAGE(:\?[^}]*|:-[a-z-]+\.invalid/not-set)\}",  # must be named, see below
    r"[a-z]+\.invalid/[a-z]+",  # an overlay replaces it
    r"roboco|\$\{ROBOCO_IMAGE:-roboco\}",  # built here
)


def unpinned(text: str) -> list[str]:
    """Return the images that the text names without a digest."""
    stages = re.findall(r"^FROM .* AS (\S+)", text, re.MULTILINE | re.IGNORECASE)
    named = ["".join(groups).strip("\"' ") for groups in _NAMED.findall(text)]
    accepted = [*_ACCEPTED, *map(re.escape, stages)]
    return [image for image in named if not any(re.fullmatch(one, image) for one in accepted)]


def test_deployment_names_no_image_without_digest() -> None:
    for path in TEXTS:
        assert unpinned(path.read_text()) == []


@pytest.mark.parametrize(
    ("image", "refused"),
    [(f"python:3.13-slim@{DIGEST}", False), ("python:3.13-slim", True), ("python@sha256:12", True), ("", True)],
)
def test_build_refuses_a_base_without_digest(image: str, refused: bool) -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    stage = dockerfile.split("\nFROM ")[1]
    check = stage.splitlines()[2]
    assert stage.splitlines()[1] == "ARG PYTHON_IMAGE"
    ran = subprocess.run(
        ["sh", "-c", check.removeprefix("RUN ")],
        env={"PYTHON_IMAGE": image, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode != 0) == refused
    assert ("deploy/pin-images.sh" in ran.stderr) == refused
