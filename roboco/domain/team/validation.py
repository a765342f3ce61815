"""Validation of a team: all mistakes at once, each with its path, the value found and the possible values."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from roboco.domain.builtin_tools import BUILTIN_TOOLS, CLIENT_PREFIX, DELEGATE, GOAL_PREFIX, HANDOFF, MEMORY_TOOLS
from roboco.domain.canonical_json import canonical_json, validated_json
from roboco.domain.memory import OWNER_PATTERN
from roboco.domain.pattern import MAX_PATTERN_CHARS, weight
from roboco.domain.schema import FUNCTION_PATTERN, NAME_PATTERN
from roboco.domain.team.collaboration import END, TO_USER
from roboco.domain.team.mcp_server import MAX_SERVER_TOOLS
from roboco.domain.team.model_profile import REMOTE_AGENT
from roboco.domain.team.server_names import ServerNames
from roboco.domain.team.team import LIST_PATTERN, REMOTE_PREFIX, SERVER_TOOLS_PREFIX, Team
from roboco.errors import InvalidTeam

MAX_TEAM_CHARS = 1024 * 1024
"""The largest team, with its prompts and nested teams, in characters of its JSON."""
_MAX_ENTRIES = {"agents": 200, "tools": 500, "models": 100, "mcp_servers": 50, "teams": 50}
_MAX_KEY_CHARS = 200
"""The longest key, in characters: each mistake names the keys of its place."""
_MAX_LEVELS = 10
"""The deepest nesting of teams."""
MAX_PATTERN_WEIGHT = 20_000
"""The largest weight of all patterns of a team together: up to half a second to compile."""
_MIN_PATTERN_WEIGHT = 20
UNKNOWN: Final = "extra_forbidden"
"""The type of pydantic's mistakes for unknown fields."""
MAX_NAME_CHARS = 80
"""Characters of a name that are compared with possible ones."""
_MAX_MISTAKES = 100
"""The largest number of mistakes in one error."""
_RESERVED = frozenset({END, TO_USER, "user", "tool_executor", "orchestrator"})


def validate_team(data: object, source: str = "team", mistakes: tuple[str, ...] = ()) -> Team:
    """Return the team that the data declares.

    Raise InvalidTeam with every mistake, after the mistakes that the caller found already.
    """
    found = list(mistakes)
    team: Team | None = None
    try:
        data = validated_json(data)
    except ValueError as error:
        found.append(f"the file: is not JSON: {error}")
    else:
        if large := _too_large(data):
            raise InvalidTeam(source, (*found[:_MAX_MISTAKES], large))
        data = _with_offered_names(data)
    try:
        team = Team.model_validate(data)
    except ValidationError as error:
        details = error.errors()
        unknown = [detail for detail in details if detail["type"] == UNKNOWN][:_MAX_MISTAKES]
        meant = {detail["loc"]: _field_meant(detail) for detail in unknown}
        lacking = {(*loc[:-1], name) for loc, name in meant.items()}
        found += [_mistake_of(one, meant.get(one["loc"], "")) for one in details if not _is_consequence(one, lacking)]
    if isinstance(data, dict):
        found += islice(_NameValidator(data).mistakes(), _MAX_MISTAKES + 1)
        found += _rules_of_runs(data)
    if team is None or found:
        mistakes = tuple(dict.fromkeys(found))
        more = ("and more mistakes",) if len(mistakes) > _MAX_MISTAKES else ()
        raise InvalidTeam(source, mistakes[:_MAX_MISTAKES] + more)
    return team


def _with_offered_names(data: Any) -> Any:
    """Return the data with the name by which agents call it for each tool of an MCP server, in nested teams too."""
    if not isinstance(data, dict):
        return data
    teams = data.get("teams")
    if isinstance(teams, dict):
        data = data | {"teams": {name: _with_offered_names(inner) for name, inner in teams.items()}}
    return ServerNames(data.get("mcp_servers")).with_offered_names(data)


def _rules_of_runs(data: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield a mistake for each team that has the rule of a run, which would hide its tasks among the runs."""
    if data.get("what_if") is not None:
        yield f"{path}what_if: only `roboco what-if` sets it"
    teams = data.get("teams")
    for name, inner in teams.items() if isinstance(teams, dict) else ():
        if isinstance(inner, dict):
            yield from _rules_of_runs(inner, f"{path}teams.{str(name)[:64]}.")


def _too_large(data: Any) -> str:
    if (size := len(canonical_json(data))) > MAX_TEAM_CHARS:
        return f"the file: has {size} characters of JSON, at most {MAX_TEAM_CHARS} are possible"
    if (longest := _longest_key(data)) > _MAX_KEY_CHARS:
        return f"a key: has {longest} characters, at most {_MAX_KEY_CHARS} are possible"
    if many := next(_too_many(data), ""):
        return many
    if (heavy := _pattern_weight(data)) > MAX_PATTERN_WEIGHT:
        return f"matches: the regular expressions weigh {heavy} together, at most {MAX_PATTERN_WEIGHT} is possible"
    return ""


def _too_many(team: Any, path: str = "", level: int = 0) -> Iterator[str]:
    """Yield a mistake for each part of a team, or of its nested teams, that has too many entries."""
    if not isinstance(team, dict):
        return
    for name, most in _MAX_ENTRIES.items():
        if (count := _count(team.get(name))) > most:
            yield f"{path}{name}: {count} are too many, at most {most} are possible"
    for name, server in _dict(team.get("mcp_servers")).items():
        if (count := _count(_dict(server).get("tools"))) > MAX_SERVER_TOOLS:
            yield f"{path}mcp_servers.{name}.tools: {count} are too many, at most {MAX_SERVER_TOOLS} are possible"
    for name, inner in _dict(team.get("teams")).items():
        if level == _MAX_LEVELS:
            yield f"{path}teams: are nested deeper than {_MAX_LEVELS} levels"
        else:
            yield from _too_many(inner, f"{path}teams.{name}.", level + 1)


def _count(value: object) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _longest_key(value: Any) -> int:
    match value:
        case dict():
            return max((max(len(key), _longest_key(one)) for key, one in value.items()), default=0)
        case list():
            return max(map(_longest_key, value), default=0)
        case _:
            return 0


def _pattern_weight(value: Any) -> int:
    """Return the weight of all patterns in the data, which bounds the time of compiling them."""
    match value:
        case dict():
            pattern = value.get("matches")
            own = max(_MIN_PATTERN_WEIGHT, weight(pattern[:MAX_PATTERN_CHARS])) if isinstance(pattern, str) else 0
            return own + sum(map(_pattern_weight, value.values()))
        case list():
            return sum(map(_pattern_weight, value))
        case _:
            return 0


def _is_consequence(detail: ErrorDetails, misspelt: set[tuple[int | str, ...]]) -> bool:
    """Return True if a list is too short only because its items are wrong, or a field lacks that is there misspelt."""
    return (detail["type"] == "too_short" and len(detail["input"]) > 0) or (
        detail["loc"] in misspelt and (detail["type"] == "missing" or not detail["input"])
    )


def _field_meant(detail: ErrorDetails) -> str:
    """Return the field of the place whose name is nearest to that of the unknown field, or ""."""
    models: set[type[BaseModel]] = {Team}
    for key in detail["loc"][:-1]:
        inner = {one for model in models for one in _models_in(_annotation(model, key))}
        models = inner or models  # an index, a name, or the kind of a value
    names = [field.alias or name for model in models for name, field in model.model_fields.items()]
    return _nearest(str(detail["loc"][-1]), names)


def _annotation(model: type[BaseModel], key: int | str) -> object:
    fields = model.model_fields.items()
    return next((field.annotation for name, field in fields if key in (name, field.alias)), None)


def _models_in(annotation: object) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for inner in get_args(annotation) for model in _models_in(inner)}


def _nearest(name: str, possible: Iterable[str]) -> str:
    return next(iter(get_close_matches(name[:MAX_NAME_CHARS], list(possible), 1, 0.7)), "")


def _did_you_mean(name: str) -> str:
    return f"; did you mean {name!r}?" if name else ""


def _mistake_of(detail: ErrorDetails, meant: str) -> str:
    kind, found = detail["type"], _short(detail["input"])
    path = _path(detail["loc"])
    if kind == UNKNOWN:
        return f"{path}: no such field here (found {found}){_did_you_mean(meant)}"
    if kind == "missing":
        return f"{path}: is missing"
    if kind == "union_tag_invalid":
        context = detail.get("ctx") or {}
        tag, tags = context.get("tag"), str(context.get("expected_tags"))
        near = _nearest(str(tag), re.findall(r"'(\w+)'", tags))
        return f"{path}: found {_short(tag)}, possible are {tags}{_did_you_mean(near)}"
    if path.endswith(".api_key") and isinstance(detail["input"], str):
        return f"{path}: keys are no part of a team file: use {{credential: NAME}}, or api_key_env"
    if kind == "tuple_type" and "." in path and isinstance(detail["input"], str):
        return f"{path}: write a list: [{detail['input'][:60]}]"
    if expected := _expected(detail):
        return f"{path}: write {expected} (found {found})"
    return f"{path}: {detail['msg'].removeprefix('Value error, ')} (found {found})"


_DURATION = "seconds, or 90s, 30m, 2h, 1d"
_OUTPUT = 'a JSON Schema, or "package.module:NAME"'
_REFUSAL = "end, or {answer: TEXT}"
_EXPECTED = {
    FUNCTION_PATTERN: '"package.module:function", with a colon before the function',
    NAME_PATTERN: "letters, digits, _ and -, a letter first, such as first-agent",
    LIST_PATTERN: "output.AGENT, output.AGENT.FIELD or state.NAME, without braces",
    OWNER_PATTERN: "tenant or context.NAME, such as context.user",
    "agents tuple_type": "a list: a dash before each agent, as in - {name: ..., prompt: ...}",
    "agents too_short": "at least 1 agent",
    "agents model_type": "{name: ..., prompt: ...}",
    "tools model_type": "{name: ..., function: ...}",
    "models dict_type": "{standard: {model: ...}}",
    "models model_type": "{model: ...}",
    "collaboration_model model_attributes_type": "{type: graph}, or another type",
    "bool string_type": "a text; quotes make one of yes, no, true and numbers",
    "int string_type": "a text; quotes make one of yes, no, true and numbers",
    "memory model_type": "{of: tenant}",
    "guards model_type": "{input: [...]}",
    "expires float_parsing": _DURATION,
    "remind float_parsing": _DURATION,
    "output dict[str,any]": _OUTPUT,
    "output constrained-str": _OUTPUT,
    "on_refusal literal['end']": _REFUSAL,
    "on_refusal RefusalAnswer": _REFUSAL,
}
"""The possible values by the last two places of a mistake, by one of them or the value's type and its type, or by its
pattern."""


def _expected(detail: ErrorDetails) -> str | None:
    *_, before, last = ("", "", *detail["loc"])
    kind = detail["type"]
    value, pattern = type(detail["input"]).__name__, (detail.get("ctx") or {}).get("pattern")
    keys = (f"{before} {last}", f"{last} {kind}", f"{before} {kind}", f"{value} {kind}", pattern)
    return next((_EXPECTED[key] for key in keys if key in _EXPECTED), None)


_TAGS = frozenset(
    {"sequential", "manual", "graph", "custom", "recent", "budget", "summary", "word", "test", "all", "named"}
)


def _path(loc: tuple[int | str, ...]) -> str:
    text = ""
    for place, (before, key) in enumerate(zip((None, *loc), loc, strict=False)):
        if key in _TAGS and before in ("collaboration_model", "context", "approval", "tools"):
            continue
        if key in ("function", "task") and isinstance(before, int) and loc[place - 2] == "tools":
            continue  # the kind of the tool
        if f"{before} {key}" in _EXPECTED:
            continue  # the kind of the value
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.lstrip(".") or "the file"


def _short(value: object) -> str:
    try:
        text = repr(value)
    except RecursionError:
        return "a value that is nested too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."


class _NameValidator:
    """Checks that the names in a team's data fit each other. Types are validated by the models."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.agents = _dicts(data.get("agents"))
        self.models = _dict(data.get("models"))
        self.utility_model = data.get("utility_model")
        self.model = _dict(data.get("collaboration_model"))
        self.teams = _dict(data.get("teams"))
        self.agent_names = _names(self.agents)
        self.tool_names = _names(_dicts(data.get("tools")))
        self.function_names = _names(
            [agent for agent in self.agents if agent.get("function") or agent.get("pydantic_ai")]
        )
        self.servers = ServerNames(data.get("mcp_servers"))
        self.builtin = BUILTIN_TOOLS - (frozenset() if data.get("memory") else MEMORY_TOOLS)
        self.guards = _dict(data.get("guards"))
        self.limits = _dict(data.get("limits"))

    def mistakes(self) -> Iterator[str]:
        return chain(
            self._duplicates("agents", self.agent_names, _RESERVED),
            self._duplicates("tools", self.tool_names, self.builtin),
            self._prefixes(),
            self.servers.mistakes({*self.tool_names, *self.function_names, *self.builtin}),
            self._of_teams(),
            self._of_models(),
            self._of_agents(),
            self._of_routing(),
            self._of_limits(),
            self._of_guards(),
        )

    def _duplicates(self, where: str, names: list[str], reserved: frozenset[str]) -> Iterator[str]:
        for index, name in enumerate(names):
            if name in names[:index]:
                yield f"{where}[{index}].name: {name!r} is there twice; names must differ"
            if name in reserved:
                yield f"{where}[{index}].name: {name!r} is reserved by Roboco, choose another one"

    def _prefixes(self) -> Iterator[str]:
        for index, name in enumerate(self.tool_names):
            for prefix, of in ((CLIENT_PREFIX, "tools that the client runs"), (GOAL_PREFIX, "goals")):
                if name.startswith(prefix):
                    yield f"tools[{index}].name: names that begin with {prefix!r} are for {of}, choose another one"
        for name in self.function_names:  # a call of this name is its turn
            if name in self.tool_names or name in self.builtin or name.startswith((CLIENT_PREFIX, GOAL_PREFIX)):
                at = f"agents[{self.agent_names.index(name)}].name"
                yield f"{at}: {name!r} is the name of a tool, or reserved for one; a function needs another one"

    def _of_teams(self) -> Iterator[str]:
        for name, team in self.teams.items():
            if isinstance(team, dict):
                yield from (f"teams.{name}.{mistake}" for mistake in _NameValidator(team).mistakes())

    def _of_models(self) -> Iterator[str]:
        profiles = {name: _dict(profile) for name, profile in self.models.items()}
        for name, profile in profiles.items():
            others = [one for one in self.models if one != name]
            yield from _unknown(f"models.{name}.fallback", "other profile", profile.get("fallback"), others)
        defaults = [name for name, profile in profiles.items() if profile.get("default")]
        if len(defaults) > 1:
            yield f"models: {', '.join(map(repr, defaults))} are all marked as default, only one can be"
        yield from _unknown("utility_model", "profile", self.utility_model, self.models)
        for index, agent in enumerate(self.agents if len(self.models) > 1 and not defaults else ()):
            if all(agent.get(name) is None for name in ("model", "map", "function", "pydantic_ai")):
                possible = _listed(self.models)
                yield f"agents[{index}].model: is missing, and no profile is the default; possible are {possible}"

    def _of_agents(self) -> Iterator[str]:
        remote = (name for name, one in self.models.items() if _dict(one).get("provider") == REMOTE_AGENT)
        teams = [*self.teams, *(f"{REMOTE_PREFIX}{name}" for name in remote)]
        for index, agent in enumerate(self.agents):
            at, context = f"agents[{index}]", _dict(agent.get("context"))
            yield from _unknown(f"{at}.model", "profile", agent.get("model"), self.models)
            yield from self._of_tools(f"{at}.tools", agent.get("tools"))
            yield from _unknown(f"{at}.context.model", "profile", context.get("model"), self.models)
            others = [name for name in self.agent_names if name != agent.get("name")]
            yield from _unknown(f"{at}.handoffs", "other agent", agent.get("handoffs"), others)
            yield from _unknown(f"{at}.delegates", "team", agent.get("delegates"), teams)
            if isinstance(agent.get("map"), dict):
                yield from self._of_map(at, agent)
            yield from _unknown(f"{at}.context.see", "other agent", context.get("see"), self.agent_names)

    def _of_map(self, at: str, agent: dict[str, Any]) -> Iterator[str]:
        team, over = agent["map"].get("team"), str(agent["map"].get("over")).split(".")
        yield from _unknown(f"{at}.map.team", "team", team, self.teams)
        typed = [one.get("name") for one in self.agents if one.get("output") is not None or one.get("map") is not None]
        if over[0] == "output" and len(over) > 1 and over[1] not in typed:
            yield f"{at}.map.over: no agent {_short(over[1])} with an output, possible are {_listed(typed)}"
        for name in agent.keys() - {"name", "description", "map"}:
            yield f"{at}.{name}: an agent with a map has no turn of a model, leave this out"

    def _possible_tools(self) -> list[str]:
        servers = [f"{SERVER_TOOLS_PREFIX}{name}" for name in self.servers.servers]
        return [*self.tool_names, *self.servers.tools, *servers, *sorted(self.builtin - _ALLOWED_ELSEWHERE.keys())]

    def _of_tools(self, where: str, names: object) -> Iterator[str]:
        possible = self._possible_tools()
        for index, name in enumerate(names if isinstance(names, list | tuple) else []):
            at = f"{where}[{index}]"
            if isinstance(name, str) and name in _ALLOWED_ELSEWHERE:
                yield f"{at}: {name!r} is not listed here, {_ALLOWED_ELSEWHERE[name]}"
            elif isinstance(name, str) and not self.servers.may_have(name):
                if name in MEMORY_TOOLS - set(possible):
                    yield f"{at}: {name!r} needs a memory: say whose, such as memory: {{of: tenant}}"
                else:
                    yield from _unknown(at, "tool", name, possible)

    def _of_limits(self) -> Iterator[str]:
        for name in _dict(self.limits.get("agents")):
            yield from _unknown(f"limits.agents.{name}", "agent", name, self.agent_names)
        for name in _dict(self.limits.get("tools")):
            if not self.servers.may_have(str(name)):
                yield from _unknown(f"limits.tools.{name}", "tool", name, [*self._possible_tools(), DELEGATE])

    def _of_guards(self) -> Iterator[str]:
        for key in ("input", "output"):
            listed = self.guards.get(key)
            names = list(listed[:_MAX_MISTAKES]) if isinstance(listed, list | tuple) else []
            yield from (
                f"guards.{key}[{index}]: {_short(name)} is there twice"
                for index, name in enumerate(names)
                if name in names[:index]
            )
            yield from _unknown(f"guards.{key}", "tool or team", names, [*self.tool_names, *self.teams])
        for agent in self.agents if self.guards.get("output") else ():
            if any(agent.get(kind) is not None for kind in ("function", "pydantic_ai", "map")):
                why = "is a function or has a map; output guards check only answers of models: let a model answer"
                yield f"guards.output: agent {_short(agent.get('name'))} {why}, or check the text in your code"

    def _of_routing(self) -> Iterator[str]:
        initial, routing = self.model.get("initial_agent"), "collaboration_model.routing_graph"
        yield from _unknown("collaboration_model.initial_agent", "agent", initial, self.agent_names)
        for node, edges in _dict(self.model.get("routing_graph")).items():
            yield from _unknown(f"{routing}.{node}", "agent", node, self.agent_names)
            for index, edge in enumerate(edges if isinstance(edges, list | tuple) else [edges]):
                at, to = f"{routing}.{node}[{index}]", edge.get("to") if isinstance(edge, dict) else edge
                yield from _unknown(f"{at}.to", "agent", to, [*self.agent_names, END, TO_USER])
                yield from self._of_condition(f"{at}.when", _dict(edge).get("when"))

    def _of_condition(self, at: str, when: object) -> Iterator[str]:
        if not isinstance(when, dict):
            return
        for key in ("tool_called", "tool_failed"):
            name = when.get(key)
            if not (isinstance(name, str) and self.servers.may_have(name)):
                yield from _unknown(f"{at}.{key}", "tool", name, [*self._possible_tools(), HANDOFF, DELEGATE])
        yield from self._of_condition(f"{at}.not", when.get("not"))
        for key in ("any", "all"):
            nested = when.get(key)
            for index, condition in enumerate(nested if isinstance(nested, list | tuple) else []):
                yield from self._of_condition(f"{at}.{key}[{index}]", condition)


_ALLOWED_ELSEWHERE = {
    HANDOFF: "name the agents under 'handoffs'",
    DELEGATE: "name the teams under 'delegates'",
}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(items: list[dict[str, Any]]) -> list[str]:
    return [str(item.get("name"))[:MAX_NAME_CHARS] for item in items]


def _unknown(where: str, kind: str, named: object, possible: Iterable[str]) -> Iterator[str]:
    """Yield a mistake if the text, or one of the texts in the list, is none of the possible names.

    Values of other types are mistakes that the models name.
    """
    if isinstance(named, list | tuple):
        for index, name in enumerate(named):
            yield from _unknown(f"{where}[{index}]", kind, name if isinstance(name, str) else None, possible)
    elif isinstance(named, str) and named not in (names := list(possible)):
        yield f"{where}: no {kind} {_short(named)}, possible are {_listed(names)}"


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none: none is declared"
