"""The longest chain of imports among the modules of roboco: what Python runs one inside another."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path


def longest_chain(root: Path, paths: Collection[Path]) -> tuple[str, ...]:
    """Return the modules of the longest chain of imports among these files below the root."""
    modules = {module_name(path.relative_to(root)): path for path in paths}
    return _longest({name: set(_imported(name, path, modules)) - {name} for name, path in modules.items()})


def module_name(path: Path) -> str:
    """Return the module's name. `roboco/workers` links to `workers`."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "roboco" else ("roboco", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _longest(imports: dict[str, set[str]]) -> tuple[str, ...]:
    chains: dict[str, tuple[str, ...]] = {}

    def chain_from(module: str) -> tuple[str, ...]:
        if module not in chains:
            chains[module] = ()  # ends a cycle, which Python would report
            chains[module] = (module, *max(map(chain_from, sorted(imports[module])), key=len, default=()))
        return chains[module]

    return max(map(chain_from, sorted(imports)), key=len, default=())


def _imported(importer: str, path: Path, modules: Collection[str]) -> Iterator[str]:
    """Yield the modules that Python imports with this one: those that it names, and their packages."""
    for name in _named(importer, path):
        module = name if name in modules else name.rpartition(".")[0]
        while module:
            if module in modules and not f"{importer}.".startswith(f"{module}."):
                yield module
            module = module.rpartition(".")[0]


def _named(importer: str, path: Path) -> Iterator[str]:
    package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
    for node in _run_at_import(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                source = ".".join([*above, *([module] if module else [])])
                yield from (f"{source}.{alias.name}" for alias in names)
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case _:
                pass


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield everything below this node that runs when the module is imported: all but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _run_at_import(child)
