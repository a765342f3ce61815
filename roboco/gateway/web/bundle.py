"""bundle: what a browser loads of the page: fewer and smaller files than the sources, made once by each gateway.

js/*.js ─► app.js                                                                             css/*.css ─► app.css
           streams.js, which is the program of a SharedWorker, too, and what it imports
           operations.js, which is loaded when an operator opens its page, and what only it imports

Comments, and indentation, are left out: a browser does not need them, and people read the sources. Code, names and line
ends stay as they are. Modules share one scope in `app.js`, so that no name is declared twice in them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

_COMMENT: Final = re.compile(r"^[ \t]*(?://(?: .*)?|/\*.*?\*/)\n|(?<=[;,{(\[]) // [^`<\n]*$", re.MULTILINE)
_INDENTATION: Final = re.compile(r"^\s+", re.MULTILINE)
_IMPORT: Final = re.compile(r'^import \{ ([^}]*) \} from "(?:\./)?([^"]+)";\n', re.MULTILINE)
_DECLARED: Final = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)
_LIBRARY: Final = "../vendor/preact.js"
_ENTRIES: Final = {"streams.js": "streams.js", "app.js": "main.js", "operations.js": "operations.js"}
"""The first module of each script, in the order in which they import each other."""
_STYLES: Final = ("base", "task", "lanes", "inspector")
"""The styles in their order: a later rule counts more."""


def bundle(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file that a browser loads, by its path, from those of the sources.

    Raise ValueError if two modules of a file declare the same name.
    """
    files = {path: text for path, text in sources.items() if not path.startswith(("js/", "css/"))}
    modules = {path.removeprefix("js/"): text for path, text in sources.items() if path.startswith("js/")}
    parts = {name: _in_order(entry, modules, {}) for name, entry in _ENTRIES.items()}
    before: dict[str, str] = {}
    for name, found in parts.items():
        own = [module for module in found if module not in before]
        files[f"js/{name}"] = _imports(own, modules, before) + _joined(own, modules)
        before |= dict.fromkeys(own, f"./{name}")
    files["js/app.js"] = _without_exports(files["js/app.js"], files["js/operations.js"])
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


def _imports(names: Iterable[str], modules: Mapping[str, str], scripts: Mapping[str, str]) -> str:
    """Return the imports of all that the modules use of the library and of other scripts."""
    used = defaultdict[str, set[str]](set)
    for name in names:
        for found, origin in _IMPORT.findall(modules[name]):
            if path := _LIBRARY if origin == _LIBRARY else scripts.get(origin):
                used[path] |= set(found.split(", "))
    return "".join(f'import {{ {", ".join(sorted(found))} }} from "{path}";\n' for path, found in sorted(used.items()))


def _without_exports(script: str, importer: str) -> str:
    """Return the script with those exports only that the importer uses."""
    imported = re.findall(r'^import \{ (.*) \} from "\./app\.js";$', importer, re.MULTILINE)
    return _EXPORT.sub("", script) + "".join(f"export {{ {names} }};\n" for names in imported)
