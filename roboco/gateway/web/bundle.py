"""bundle: what a browser loads of the page: fewer and smaller files than the sources, made once by each gateway.

js/*.js ─► app.js, but streams.js stays a file: it is the program of a SharedWorker, too       css/*.css ─► app.css

Comments, and indentation, are left out: a browser does not need them, and people read the sources. Code, names and line
ends stay as they are. Modules share one scope in `app.js`, so that no name is declared twice in them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Final

_COMMENT: Final = re.compile(r"^[ \t]*(?://(?: .*)?|/\*.*?\*/)\n|(?<=[;,{(\[]) // [^`<\n]*$", re.MULTILINE)
_INDENTATION: Final = re.compile(r"^\s+", re.MULTILINE)
_IMPORT: Final = re.compile(r'^import \{ ([^}]*) \} from "(?:\./)?([^"]+)";\n', re.MULTILINE)
_DECLARED: Final = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)
_LIBRARY: Final = "../vendor/preact.js"
_STYLES: Final = ("base", "task", "lanes", "inspector")
"""The styles in their order: a later rule counts more."""


def bundle(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file that a browser loads, by its path, from those of the sources.

    Raise ValueError if two modules of a file declare the same name.
    """
    files = {path: text for path, text in sources.items() if not path.startswith(("js/", "css/"))}
    modules = {path.removeprefix("js/"): text for path, text in sources.items() if path.startswith("js/")}
    shared = _in_order("streams.js", modules, {})
    page = [name for name in _in_order("main.js", modules, {}) if name not in shared]
    imports = [_import(page, modules, {_LIBRARY}, _LIBRARY), _import(page, modules, set(shared), "./streams.js")]
    files["js/streams.js"] = _joined(shared, modules)
    files["js/app.js"] = "".join(imports) + _EXPORT.sub("", _joined(page, modules))
    files["css/app.css"] = "".join(shorten(sources[f"css/{name}.css"]) for name in _STYLES)
    return files


def shorten(text: str) -> str:
    """Return the text without comments and indentation.

    A template literal of several lines loses its indentation, too. In those of `html` it has no meaning.
    """
    return _INDENTATION.sub("", _COMMENT.sub("", text))


def _in_order(name: str, modules: Mapping[str, str], seen: dict[str, None]) -> list[str]:
    """Return the names of a module and of those that it imports, each after its imports."""
    seen[name] = None
    imported = (one for _, one in _IMPORT.findall(modules[name]))
    before = [
        found for one in imported if one in modules and one not in seen for found in _in_order(one, modules, seen)
    ]
    return [*before, name]


def _joined(names: Iterable[str], modules: Mapping[str, str]) -> str:
    declared = Counter(name for module in names for name in _DECLARED.findall(modules[module]))
    if twice := [name for name, count in declared.items() if count > 1]:
        raise ValueError(f"modules of the web view declare the same names: {', '.join(twice)}; rename them")
    return "".join(shorten(_IMPORT.sub("", modules[name])) for name in names)


def _import(names: Iterable[str], modules: Mapping[str, str], origins: Set[str], path: str) -> str:
    """Return the import of all that the modules import from these origins."""
    found = [used for name in names for used, origin in _IMPORT.findall(modules[name]) if origin in origins]
    return f'import {{ {", ".join(sorted({name for used in found for name in used.split(", ")}))} }} from "{path}";\n'
