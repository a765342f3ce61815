"""words.py [FOLDER]: check the language of the project, of its tests and of its checks.

Report, and exit with 1 for:
* banned words in docstrings, comments, messages, scripts, guides and configuration files;
* rates of words in docstrings outside their bounds (per 1,000 words), separately for the product and for the tests;
* names built from words for which the field has a standard term, those of files and folders too;
* constants that do not name their quantity;
* in the product, a public type name that is defined twice.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from texts import docstrings, lua_texts, markdown_texts, nodes_of, plain_texts, python_texts

PRODUCT = "product"
TESTS = "tests"
SOURCES = {
    PRODUCT: ("roboco", "workers", "deploy", "README.md", "compose.yaml", "pyproject.toml"),
    TESTS: ("tests", ".ci"),
}
PYTHON = (".py", ".pyi")
CONFIGURATION = (".yaml", ".yml", ".toml", ".json", ".sh", ".acl", ".conf", ".env", ".mjs")
CONFIGURATION_NAMES = ("Dockerfile", "run")
RECORDED = ("tests", "replay", "histories")
"""The folder of recorded histories, which are never edited."""
WORD_LISTS = {
    ".ci/words.py": ("BANNED", "BANNED_NAME_PARTS", "RATES", "ALLOWED"),
    "tests/unit/test_words.py": ("CLEAN_FILES", "FINDINGS"),
}
"""Assignments whose strings hold banned words as data, by file."""
BANNED = re.compile(
    r"\b((un)?tell(s|ing)?|(un)?told|stands|comes|at it|look(s|ed|ing)? at|given back|is to be|so many|that is what"
    r"|of its own|somebody|nobody|whoever)\b".replace(" ", r"[ \t]*[ \t\n][ \t]*"),
    re.IGNORECASE,
)
ALLOWED = re.compile(r"""\bon_unknown["'`]*[:=] ?["'`]*tell\b""")
"""Values of a team file."""
BANNED_NAME_PARTS = re.compile(
    "(un)?told|(un)?tell(s|ing|er|ers)?|knock(s|ed|ing|er)?|calm(s|ed|ing|er|ly)?|hasten(s|ed|ing)?"
    "|insist(s|ed|ing|ence)?|bur(y|ies|ied|ying)|burials?|grip(s|ped|ping)?|brought|wish(es|ed|ing)?|minutes"
    "|doorbells?|somebody|nobody|stir(s|red|ring)?|agendas?|speech(es)?"
)
# PAUSE, IDLE and LONG are parts of standard terms such as IDLE_TIMEOUT and LONG_POLL, as is TOO_MANY_REQUESTS.
VAGUE_CONSTANTS = re.compile(
    "PAUSE|LOOK|IDLE|LONG|([A-Z0-9]+_)*(LONGEST|MOST|PATIENCE|KEPT|FEW|(?<!TOO_)MANY|ENOUGH)(_[A-Z0-9]+)*"
)
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
        for found in BANNED.finditer(ALLOWED.sub("", text)):
            at = line + text.count("\n", 0, found.start())
            self.findings.append(f"{where}:{at}: banned word {' '.join(found.group().split())!r}")

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
            _read_file(report, part, path.relative_to(root), path.read_text())
    _check_types(report)
    return report


def _files(root: Path, *parts: str) -> Iterator[Path]:
    for source in (root / source for part in parts for source in SOURCES[part]):
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            linked = any(parent.is_symlink() for parent in path.parents if parent != root)
            known = path.suffix in (*PYTHON, ".lua", ".md", *CONFIGURATION) or path.name in CONFIGURATION_NAMES
            if known and path.is_file() and not linked and path.relative_to(root).parts[:3] != RECORDED:
                yield path


def _read_file(report: Report, part: str, path: Path, source: str) -> None:
    where = str(path)
    for name in path.with_suffix("").parts:
        _check_parts(report, where, f"file name {name!r}", name)
    if path.suffix in PYTHON:
        _read_python(report, part, where, source)
        return
    read = {".lua": lua_texts, ".md": markdown_texts}.get(path.suffix, plain_texts)
    for line, text in read(source):
        report.text(where, line, text)


def _read_python(report: Report, part: str, where: str, source: str) -> None:
    tree = ast.parse(source)
    for text, _ in docstrings(tree):
        report.docstring(part, text)
    for line, text in python_texts(tree, source, WORD_LISTS.get(where, ())):
        report.text(where, line, text)
    for node in nodes_of(tree):
        for line, name in _defined(node):
            if VAGUE_CONSTANTS.fullmatch(name.strip("_")):
                report.findings.append(f"{where}:{line}: constant {name!r} does not name its quantity")
            _check_parts(report, f"{where}:{line}", f"name {name!r}", name)
    for name in _public_types(tree) if part == PRODUCT and not where.endswith(".pyi") else ():
        report.types[name].add(where)


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
        case ast.alias(asname=str(name)):
            yield node.lineno, name
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield node.lineno, name
        case _:
            pass


def _check_parts(report: Report, where: str, what: str, name: str) -> None:
    for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name):
        if BANNED_NAME_PARTS.fullmatch(part.lower()):
            report.findings.append(f"{where}: {what} contains {part.lower()!r}")


def _public_types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's public classes and type aliases."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")) if name[0] != "_":
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) if re.match("[A-Z][A-Z0-9]*[a-z]", name):
                yield name
            case _:
                pass


def _check_types(report: Report) -> None:
    for name, places in sorted(report.types.items()):
        if len(places) > 1:
            report.findings.append(f"public type {name!r} is defined {len(places)} times: {', '.join(sorted(places))}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
