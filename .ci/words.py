"""words.py [FOLDER]: check the language of the project, of its tests and of its checks.

Report, and exit with 1 for:
* banned words in docstrings, comments, messages, Lua headers and guides;
* rates of words in docstrings outside their bounds (per 1,000 words), separately for the product and for the tests;
* names built from words for which the field has a standard term;
* constants that do not name their quantity;
* a folder with more than 30 modules;
* in the product, a public type name that is defined twice;
* in the product, a chain of imports among the modules of roboco that is longer than 15.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PRODUCT = "product"
TESTS = "tests"
SOURCES = {PRODUCT: ("roboco", "workers", "deploy", "README.md"), TESTS: ("tests", ".ci")}
WORD_LISTS = (".ci/words.py", "tests/unit/test_words.py")
"""Files whose strings hold banned words as data."""
BANNED = re.compile(
    r"\b((un)?tell(s|ing)?|(un)?told|stands|comes|at it|look(s|ed|ing)? at|given back|is to be|so many|that is what"
    r"|of its own|somebody|nobody|whoever)\b",
    re.IGNORECASE,
)
BANNED_NAME_PARTS = re.compile(
    "told|tell|telling|untold|knock|calm|hasten|insist|bury|burial|grip|brought|wished|wishes|minutes|doorbell"
    "|somebody|nobody|stirs|agenda|speech"
)
VAGUE_CONSTANTS = re.compile("LONGEST|MOST|PAUSE|PATIENCE|LOOK|KEPT|IDLE|LONG|FEW|MANY|ENOUGH")
MAX_MODULES = 30
MAX_IMPORT_DEPTH = 15
MIN_MESSAGE_WORDS = 2
MIN_WORDS_FOR_RATES = 1000
# Per 1,000 words of docstrings: a pattern, its lowest and its highest rate.
RATES = {
    "what": (r"\bwhat\b", 0.0, 3.0),
    "told/tell": (r"\b(told|tell)\b", 0.0, 0.3),
    "somebody/nobody": (r"\b(somebody|nobody)\b", 0.0, 0.2),
    "return/raise": (r"\b(returns?|raises?)\b", 6.0, 1000.0),
}
# The docstring of a test states a behaviour: it may return and raise nothing.
PRODUCT_RATES = ("return/raise",)


@dataclass
class Report:
    """Findings, and the counts from which the rates are computed, by part of the project."""

    findings: list[str] = field(default_factory=list)
    docstring_words: Counter[str] = field(default_factory=Counter)
    matches: Counter[tuple[str, str]] = field(default_factory=Counter)
    types: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def text(self, where: str, line: int, text: str) -> None:
        """Add a finding for each banned word of a text that starts at this line."""
        for found in BANNED.finditer(text):
            at = line + text.count("\n", 0, found.start())
            self.findings.append(f"{where}:{at}: banned word {found.group()!r}")

    def docstring(self, part: str, text: str) -> None:
        """Count the words of a docstring in this part of the project."""
        self.docstring_words[part] += len(re.findall(r"[A-Za-z']+", text))
        for name, (pattern, _, _) in RATES.items():
            self.matches[part, name] += len(re.findall(pattern, text, re.IGNORECASE))

    def rates(self, part: str) -> Iterator[tuple[str, float, bool]]:
        """Yield the name and value of each rate of this part, and whether it is within its bounds."""
        for name, (_, low, high) in RATES.items():
            if part == PRODUCT or name not in PRODUCT_RATES:
                rate = 1000 * self.matches[part, name] / max(self.docstring_words[part], 1)
                yield name, rate, low <= rate <= high


def main(root: Path) -> int:
    """Print the findings. Return 1 if there is one."""
    report = read(root)
    for part in SOURCES:
        for name, rate, good in report.rates(part):
            sys.stdout.write(f"{part}, {name}: {rate:.1f} per 1,000 words of docstrings\n")
            if not good and report.docstring_words[part] >= MIN_WORDS_FOR_RATES:
                report.findings.append(f"rate of {name} in the {part} is {rate:.1f}; bounds: {RATES[name][1:]}")
    sys.stdout.write("".join(f"{finding}\n" for finding in report.findings))
    sys.stdout.write(f"{len(report.findings)} findings in {report.docstring_words.total()} words of docstrings\n")
    return 1 if report.findings else 0


def read(root: Path) -> Report:
    """Return the findings of all sources below a folder, without its rates."""
    report = Report()
    for part in SOURCES:
        for path in _files(root, part):
            where = str(path.relative_to(root))
            if path.suffix == ".py":
                _read_python(report, part, where, path.read_text())
            elif path.suffix == ".lua":
                _read_lua(report, where, path.read_text())
            else:
                _read_markdown(report, where, path.read_text())
    _check_types(report)
    _check_folders(report, root)
    _check_import_depth(report, root)
    return report


def _files(root: Path, *parts: str) -> Iterator[Path]:
    for source in (source for part in parts for source in SOURCES[part]):
        paths = [root / source] if source.endswith(".md") else sorted((root / source).rglob("*"))
        for path in paths:
            linked = any(parent.is_symlink() for parent in path.parents if parent != root)
            if path.suffix in (".py", ".lua", ".md") and path.is_file() and not linked:
                yield path


def _read_python(report: Report, part: str, where: str, source: str) -> None:
    tree = ast.parse(source)
    docstrings = list(_docstrings(tree))
    for text in docstrings:
        report.docstring(part, text)
    for node in ast.walk(tree):
        _read_node(report, where, node, docstrings)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            report.text(where, token.start[0], token.string)
    for name in _public_types(tree) if part == PRODUCT else ():
        report.types[name].add(where)


def _read_node(report: Report, where: str, node: ast.AST, docstrings: list[str]) -> None:
    if isinstance(node, ast.Constant):
        text = node.value
        if isinstance(text, str) and (text in docstrings or _is_message(where, text)):
            report.text(where, node.lineno, text)
    for line, name in _defined(node):
        _check_name(report, where, line, name)


def _is_message(where: str, text: str) -> bool:
    return len(text.split()) >= MIN_MESSAGE_WORDS and where not in WORD_LISTS


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of modules, classes and functions, and those below fields."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _defined(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.lineno, node.name
        case ast.arg():
            yield node.lineno, node.arg
        case ast.Name(ctx=ast.Store()):
            yield node.lineno, node.id
        case ast.Attribute(ctx=ast.Store()):
            yield node.lineno, node.attr
        case _:
            pass


def _check_name(report: Report, where: str, line: int, name: str) -> None:
    if VAGUE_CONSTANTS.fullmatch(name.strip("_")):
        report.findings.append(f"{where}:{line}: constant {name!r} does not name its quantity")
    for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name):
        if BANNED_NAME_PARTS.fullmatch(part.lower()):
            report.findings.append(f"{where}:{line}: name {name!r} contains {part.lower()!r}")


def _public_types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's public classes and type aliases."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]) if re.match("[A-Z][a-z]", name):
                yield name
            case _:
                pass


def _read_lua(report: Report, where: str, source: str) -> None:
    for number, line in enumerate(source.splitlines(), 1):
        _, mark, comment = line.partition("--")
        if mark:
            report.text(where, number, comment)


def _read_markdown(report: Report, where: str, source: str) -> None:
    code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("```"):
            code = not code
        elif not code:
            report.text(where, number, re.sub("`[^`]*`", "", line))


def _check_types(report: Report) -> None:
    for name, places in sorted(report.types.items()):
        if len(places) > 1:
            report.findings.append(f"public type {name!r} is defined {len(places)} times: {', '.join(sorted(places))}")


def _check_folders(report: Report, root: Path) -> None:
    paths = (path for path in _files(root, *SOURCES) if path.suffix == ".py" and path.name != "__init__.py")
    modules = Counter(path.parent for path in paths)
    for folder, count in sorted(modules.items()):
        if count > MAX_MODULES:
            report.findings.append(f"{folder.relative_to(root)}/: {count} modules; at most {MAX_MODULES}")


def _check_import_depth(report: Report, root: Path) -> None:
    chain = longest_import_chain(_imports(root))
    if len(chain) > MAX_IMPORT_DEPTH:
        report.findings.append(
            f"{len(chain)} modules import one another in a chain; at most {MAX_IMPORT_DEPTH}: {' -> '.join(chain)}"
        )


def longest_import_chain(imports: dict[str, set[str]]) -> tuple[str, ...]:
    """Return the modules of the longest chain of imports, which has no cycle."""
    chains: dict[str, tuple[str, ...]] = {}

    def chain_from(module: str) -> tuple[str, ...]:
        if module not in chains:
            chains[module] = ()  # ends a cycle, which Python would report
            chains[module] = (module, *max(map(chain_from, sorted(imports[module])), key=len, default=()))
        return chains[module]

    return max(map(chain_from, sorted(imports)), key=len, default=())


def _imports(root: Path) -> dict[str, set[str]]:
    """Return the modules of roboco that each of them imports when it is imported itself."""
    modules = {_module_name(path.relative_to(root)): path for path in _files(root, PRODUCT) if path.suffix == ".py"}
    return {module: set(_imported(path, modules)) & modules.keys() - {module} for module, path in modules.items()}


def _module_name(path: Path) -> str:
    """Return the module's name. `roboco/workers` links to `workers`."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "roboco" else ("roboco", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, modules: Collection[str]) -> Iterator[str]:
    for node in _top_level(ast.parse(path.read_text()).body):
        match node:
            case ast.ImportFrom(module=str(package), names=names):
                found = {f"{package}.{alias.name}" for alias in names}
                yield from (name if name in modules else package for name in found)
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in modules)
            case _:
                pass


def _top_level(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, those of `if` and `try` too."""
    for statement in statements:
        yield statement
        match statement:
            case ast.If(body=body, orelse=orelse):
                yield from _top_level([*body, *orelse])
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                yield from _top_level([*body, *(one for each in handlers for one in each.body), *orelse, *final])
            case ast.With(body=body):
                yield from _top_level(body)
            case _:
                pass


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
