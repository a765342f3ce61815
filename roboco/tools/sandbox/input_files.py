"""The input files of a run."""

import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from roboco.domain.artifact_name import artifact_name
from roboco.errors import UsageError
from roboco.tools.sandbox.limits import MAX_PAGE_BYTES, SandboxLimits


def open_inputs(inputs: Mapping[str, Path], limits: SandboxLimits, stack: ExitStack) -> dict[str, int]:
    """Return a readable descriptor for each input, which `stack` closes. Raise UsageError for an unusable input."""
    if len(inputs) > limits.input_files:
        raise UsageError(f"{len(inputs)} input files, but at most {limits.input_files} are given to one run")
    descriptors = {}
    for name, path in inputs.items():
        descriptors[_check_name(name)] = _open_input(name, path, stack)
    total = sum(os.fstat(descriptor).st_size for descriptor in descriptors.values())
    if total > limits.inputs:
        raise UsageError(f"the input files have {total} bytes, but at most {limits.inputs} are given to one run")
    return descriptors


def space_needed(inputs: Mapping[str, int]) -> int:
    """Return the maximum number of bytes that copies of these files take up."""
    return sum(os.fstat(descriptor).st_size + MAX_PAGE_BYTES for descriptor in inputs.values())


def _check_name(name: str) -> str:
    try:
        plain = artifact_name(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if plain != name:
        raise UsageError(f"input {name!r} is given by its URI, give it by its name: {plain!r}")
    return name


def _open_input(name: str, path: Path, stack: ExitStack) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"input {name!r} cannot be read: {error}") from error
    stack.callback(os.close, descriptor)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise UsageError(f"input {name!r} is not a file")
    return descriptor
