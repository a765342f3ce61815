"""The public names of `roboco`, their docstrings, and errors that survive pickling."""

import ast
import copy
import importlib
import inspect
import itertools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import roboco
import roboco.celery
from roboco import errors
from roboco.client.in_thread import in_thread
from roboco.domain.stream.item import ItemData


def test_all_is_sorted_and_complete() -> None:
    assert roboco.__all__ == sorted(roboco.__all__)
    assert len(roboco.__all__) == len(set(roboco.__all__))


def test_type_checkers_read_the_same_names_from_the_same_modules() -> None:
    stub = ast.parse((Path(roboco.__file__).parent / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    declared = {alias.name: node.module for node in imports for alias in node.names}
    assert declared == vars(roboco)["_MODULE_OF"]
    assigned = next(node for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(assigned.value) == roboco.__all__


def test_each_public_name_can_be_imported_and_has_a_docstring() -> None:
    assert [found for name in roboco.__all__ for found in _undocumented(name)] == []


def _undocumented(name: str) -> list[str]:
    value = getattr(roboco, name)
    if not isinstance(value, type):
        return [] if (inspect.isfunction(value) and value.__doc__) or _documented_alias(name) else [name]
    own = [] if vars(value).get("__doc__") else [name]
    return own + [
        f"{name}.{member}"
        for kind in value.__mro__
        if kind.__module__.startswith("roboco")
        for member, one in vars(kind).items()
        if not member.startswith("_") and (inspect.isroutine(one) or isinstance(one, property | in_thread))
        if not inspect.getdoc(getattr(one, "__func__", one))
    ]


def _documented_alias(name: str) -> bool:
    """Return True if a string follows the assignment of the name in its module."""
    module = importlib.import_module(vars(roboco)["_MODULE_OF"][name])
    body = ast.parse(inspect.getsource(module)).body
    for node, following in itertools.pairwise(body):
        targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
        if name in [target.id for target in targets if isinstance(target, ast.Name)]:
            return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
    return False


def test_a_health_check_imports_neither_celery_nor_redis_nor_pydantic() -> None:
    program = "import sys, roboco.workers.healthcheck; print({'celery', 'redis', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "data",
    [
        *(*get_args(ItemData), *get_args(get_args(roboco.ExecutionEvent)[0])),
        *(get_args(tagged)[0] for tagged in get_args(get_args(roboco.Part)[0])),
    ],
)
def test_each_class_in_a_stream_or_step_is_public(data: type) -> None:
    assert getattr(roboco, data.__name__) is data
    assert data.__name__ in roboco.__all__


@pytest.mark.parametrize(
    "error",
    [
        errors.UsageError("wrong"),
        errors.NotFound("no such task"),
        errors.AlreadyEnded("too late"),
        errors.StateConflict("answered before"),
        errors.Forbidden("of another tenant"),
        errors.InvalidTeam("team.yaml", ("name: is missing", "agents: is missing")),
        errors.TransientError("no answer"),
        errors.ModelError("http_500", "the model is away", True),
        errors.CorruptHistory("step 3"),
        errors.Conflict("taken"),
        errors.TaskFailed("task_1", "failed", "the model refuses"),
        errors.TaskFailed("task_1", "paused", "the model is away", "resume it"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: errors.RobocoError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_each_error_has_a_distinct_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RobocoError)]
    codes = [kind.code for kind in kinds if kind is not errors.ModelError]
    assert len(set(codes)) == len(codes)
    assert errors.ModelError("http_500", "away", True).code == "http_500"
