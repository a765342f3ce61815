"""bundle: what a browser loads of the page: one script and one sheet of styles, made once by each gateway.

js/*.js ─► app.js, which is the program of the SharedWorker, too       css/*.css ─► app.css

Comments and indentation are left out: a browser does not need them, and people read the sources. All modules share one
scope, so that no name is declared twice in them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

_COMMENT: Final = re.compile(r"^[ \t]*(?://(?: .*)?|/\*.*?\*/)\n|(?<=[;,{(\[]) // [^`<\n]*$", re.MULTILINE)
_INDENTATION: Final = re.compile(r"^\s+", re.MULTILINE)
_IMPORT: Final = re.compile(r'^import \{ ([^}]*) \} from "(?:\./)?([^"]+)";\n', re.MULTILINE)
_DECLARED: Final = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)
_LIBRARY: Final = "../vendor/preact.js"
_STYLES: Final = ("base", "task", "markdown", "lanes", "inspector", "print")
"""The styles in their order: a later rule counts more."""


def bundle(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file that a browser loads, by its path, from those of the sources.

    Raise ValueError if two modules declare the same name.
    """
    modules = {path.removeprefix("js/"): text for path, text in sources.items() if path.startswith("js/")}
    files = {path: text for path, text in sources.items() if not path.startswith(("js/", "css/"))}
    files["js/app.js"] = _without_comments(_joined([modules[name] for name in _in_order("main.js", modules, {})]))
    files["css/app.css"] = _without_comments("".join(sources[f"css/{name}.css"] for name in _STYLES))
    return files


def _without_comments(text: str) -> str:
    return _INDENTATION.sub("", _COMMENT.sub("", text))


def _in_order(name: str, modules: Mapping[str, str], seen: dict[str, None]) -> list[str]:
    """Return the names of a module and of those that it imports, each after its imports."""
    seen[name] = None
    imported = (one for _, one in _IMPORT.findall(modules[name]))
    before = [
        found for one in imported if one in modules and one not in seen for found in _in_order(one, modules, seen)
    ]
    return [*before, name]


def _joined(modules: Iterable[str]) -> str:
    """Return one module with the code of all, which imports all that they use of the library."""
    text = "".join(modules)
    declared = Counter(_DECLARED.findall(text))
    if twice := [name for name, count in declared.items() if count > 1]:
        raise ValueError(f"modules of the web view declare the same names: {', '.join(twice)}; rename them")
    used = {name for names, origin in _IMPORT.findall(text) if origin == _LIBRARY for name in names.split(", ")}
    return f'import {{ {", ".join(sorted(used))} }} from "{_LIBRARY}";\n' + _EXPORT.sub("", _IMPORT.sub("", text))
