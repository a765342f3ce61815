"""A hostile tenant: schemas, patterns and templates that exhaust a worker's time or memory, or read its secrets."""

from typing import Any

BACKTRACKS = "^(a+)+$"
"""A pattern for which Python's `re` needs 2^n steps on n letters and a sign."""
NAME = "a" * 40 + "!"
_HIDDEN: dict[str, Any] = {"patternProperties": {BACKTRACKS: {}}}


def _deep(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def _laughs(keyword: str, levels: int = 30) -> dict[str, Any]:
    """Return a schema in which each level applies the next one twice."""
    twice = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": twice | {f"d{levels}": {} if keyword == "allOf" else {"required": ["q"]}}}


REFUSED_SCHEMAS: dict[str, dict[str, Any]] = {
    "reference to an unknown keyword": {"properties": {"x": {"$ref": "#/x-hidden"}}, "x-hidden": _HIDDEN},
    "reference into an annotation": {"default": _HIDDEN, "properties": {"x": {"$ref": "#/default"}}},
    "reference into a constant": {"$defs": {"a": {"const": _HIDDEN}}, "$ref": "#/$defs/a/const"},
    "reference into properties": {"properties": {"y": {}, "x": {"$ref": "#/properties/y"}}},
    "reference elsewhere": {"properties": {"x": {"$ref": "http://127.0.0.1:1/x.json"}}},
    "reference to a file": {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
    "reference to an anchor": {"$defs": {"a": {"$anchor": "b"}}, "$ref": "#b"},
    "reference to nothing": {"$ref": "#/$defs/none"},
    "reference to itself": {"$ref": "#"},
    "references in a circle": {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    "references in a long chain": {
        "$ref": "#/$defs/d0",
        "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(500)} | {"d500": {}},
    },
    "another name for itself": {"properties": {"x": {"$id": "http://127.0.0.1/y", "$ref": "#"}}},
    **{
        f"keyword {keyword}": {"properties": {"x": {keyword: value}}}
        for keyword, value in {
            "patternProperties": {BACKTRACKS: {}},
            "unevaluatedProperties": _HIDDEN,
            "unevaluatedItems": _HIDDEN,
            "additionalItems": _HIDDEN,
            "dependencies": {"a": _HIDDEN},
            "contentSchema": _HIDDEN,
            "$dynamicRef": "#a",
            "$dynamicAnchor": "a",
            "$recursiveRef": "#",
            "$anchor": "a",
            "$vocabulary": {"http://127.0.0.1:1/": True},
            "unknown": _HIDDEN,
        }.items()
    },
    "nested without end": _deep({}, 500),
    "doubling allOf": _laughs("allOf"),
    "doubling anyOf": _laughs("anyOf"),
    "doubling oneOf": _laughs("oneOf"),
    "many parts": {"anyOf": [{}] * 3000},
    "many characters": {"description": "x" * 100_000},
    "many types": {"properties": {"x": {"type": ["null"] * 5000}}},
    "a heavy pattern": {"properties": {"x": {"pattern": "(a{1000}){100}"}}},
    "many heavy patterns": {"anyOf": [{"pattern": rf"\w{{49}}{'a' * n}"} for n in range(300)]},
    "a huge pattern": {"properties": {"x": {"pattern": "(" * 3000}}},
}
"""Schemas that are refused in every message."""

_EITHER = {"oneOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}}, {"properties": {"x": {"$ref": "#/$defs/a"}}}]}


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def _fan(leaf: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that validates the list `x` 900 times with the leaf."""
    ways = [{"$ref": "#/$defs/b"}] * 30
    return {
        "properties": {"x": {"allOf": [{"$ref": "#/$defs/a"}] * 30}},
        "$defs": {"a": {"allOf": ways}, "b": {"$ref": "#/$defs/c"}, "c": leaf},
    }


ENDLESS_SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "items: true, 900 times": (_fan({"items": True}), {"x": [0] * 60_000}),
    "contains: false, 900 times": (_fan({"contains": False, "minContains": 0}), {"x": [0] * 60_000}),
    "propertyNames: true, 900 times": (_fan({"propertyNames": True}), {"x": {str(n): 0 for n in range(60_000)}}),
    "a long name, 900 times": (_fan({"uniqueItems": True}), {"x": [{"n" * 1_000_000: 0}, {"n" * 1_000_000: 1}]}),
    "two ways at each level of the value": ({"$ref": "#/$defs/a", "$defs": {"a": _EITHER}}, _nested(50)),
    "alternatives times items": (
        {"properties": {"x": {"items": {"anyOf": [{"properties": {"y": {"const": n}}} for n in range(600)] + [{}]}}}},
        {"x": [{"y": "z"}] * 5000},
    ),
    "a long enum times items": (
        {"properties": {"x": {"items": {"enum": [f"v{n}" for n in range(6000)]}}}},
        {"x": ["v5999"] * 5000},
    ),
    "a deep constant times items": (
        {"properties": {"x": {"items": {"const": [[1] * 20] * 50}}}},
        {"x": [[[1] * 20] * 50] * 200},
    ),
    "unique large numbers": (
        {"properties": {"x": {"uniqueItems": True}}},
        {"x": [10**4200 + n for n in range(2500)]},
    ),
    "unique integers beyond 64 bits": (
        {"properties": {"x": {"uniqueItems": True}}},
        {"x": [10**30 + n for n in range(5000)]},
    ),
    "alternatives that each copy a long text": (
        {"properties": {"x": {"anyOf": [{"type": "integer"}] * 1900}}},
        {"x": "x" * 4_000_000},
    ),
    "schemas inside each other, through the whole stack": (
        {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(20)}
            | {"d20": {"properties": {"x": {"$ref": "#/$defs/d0"}}, "required": ["y"]}},
        },
        _nested(60),
    ),
    "tiny factors": (
        {"properties": {"x": {"items": {"multipleOf": 1e-307}}}},
        {"x": [10**4299 + n for n in range(2000)]},
    ),
    "a pattern on a long text": ({"properties": {"x": {"pattern": "(a{30}){30}"}}}, {"x": "a" * 900_000}),
    "a pattern on many texts": (
        {"properties": {"x": {"items": {"pattern": "(a?){300}"}}}},
        {"x": ["a" * 900] * 5000},
    ),
    "required times items": (
        {"properties": {"x": {"items": {"required": [f"k{n}" for n in range(6000)]}}}},
        {"x": [{f"k{n}": 1 for n in range(6000)}] * 500},
    ),
}
"""Schemas that are accepted, each with a value whose validation would take too long."""

_DOUBLED = "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40
_PAIRS = "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
_TEXT = "{% set a = 'xxxxxxxxxx' %}"

REFUSED_TEMPLATES: tuple[str, ...] = (
    "{{ 'x'.ljust(10 ** 9) }}",
    "{{ 'a'.replace('a', 'b') }}",
    "{{ 'x'.join(context.lines) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ 'x' | center(1000000000) }}",
    "{{ context.big | urlize }}",
    "{{ context.lines | batch(1000000000) | list }}",
    "{{ context.lines | groupby('a') }}",
    "{{ context | xmlattr }}",
    "{{ context | attr('__class__') }}",
    "{{ 9 ** 9 ** 9 ** 9 }}",
    "{{ lipsum(n=1000000) }}",
    "{{ cycler('a').next() }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ context.deep | tojson(1000000000) }}",
    "{{ [1] * 100000000 }}",
    "{{ context.lines | tojson(45678) }}",
    "{{ context.lines | sort(attribute='a' ~ context.big) }}",
    "{{ context.lines | selectattr('a' ~ context.big) }}",
    "{% if 0 %}{% elif [" + "context, " * 900 + "] | tojson %}{% endif %}",
    "{% set a = [1] %}" + "{% set a = a, a, 1 == 1 %}" * 40,
    "{% set a = [1] %}" + "{% set a = {a: a} %}" * 40,
    "{% set a = [1] %}" + "{% set a = a + '' | first | default(a) %}" * 40,
    "{% set a = [1] %}" + "{% set a = a + ''.b | default(a) %}" * 40,
    "{{ context.lines.join(context.big) }}",
    "{{ context.lines | map('default', context) }}",
    "{{ context.lines | sum(start=context.lines) }}",
    "{{ context.lines | map(attribute=context.big) }}",
    "{% set a = context.lines %}" + "{% set a = a + a %}" * 40,
    "{% set a = 1 %}" + "{% for a in [[a, a]] %}" * 40 + "{% endfor %}" * 40,
    "{{ namespace(a=1) }}",
    "{{ context.update({'a': 1}) }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "{% call again() %}{% endcall %}",
    "{% set x %}{{ context.big }}{% endset %}",
    "{% include '/etc/passwd' %}",
    "{% extends 'x' %}",
    "{% for x in context.lines recursive %}{{ loop(context.lines) }}{% endfor %}",
    "{{ range(*context.lines) }}",
    "{{ context.big | upper(**context) }}",
    "{{ " + "1 + " * 3000 + "1 }}",
    "{{ " + "[" * 300 + "]" * 300 + " }}",
    "{{ " + "-" * 3000 + "1 }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ context" + ".a" * 1900 + " }}",
    "{{ " + "9" * 5000 + " }}",
    "{% if 1 %}" * 3000,
    "{{ task }}" * 5000,
)
"""Templates that a check refuses before they are rendered."""

GREEDY_TEMPLATES: tuple[str, ...] = (
    "{% set p = 'a' %}"
    + "{% set p = p ~ p %}" * 19
    + "{% set q = p ~ '.b' %}{% set l = [{p: {'b': 1}}] %}"
    + "{% set l = l + l %}" * 11
    + "{{ l | sum(attribute=q) }}" * 18,
    "{% for i in range(999) %}{% for j in range(999) %}{% endfor %}{% endfor %}",
    "{% for i in range(999) %}{% for j in range(999) %}{% for k in range(999) %}x{% endfor %}{% endfor %}{% endfor %}",
    "{% for i in range(999) %}{{ context.big }}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.big | upper | lower | title %}{% endfor %}",
    "{% for i in range(999) %}{% if context.big + 'a' in context.big + 'b' %}{% endif %}{% endfor %}",
    "{% for i in range(999) %}{% if context.big | reverse == context.big | replace('x', 'y') %}{% endif %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.big | tojson %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.many | tojson %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.many | string %}{% endfor %}",
    "{{ context.huge }}",
    "{{ context | tojson }}",
    "{% for i in range(999) %}{% set x = context.lines | sort %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.lines | unique | list %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.numbers | unique | list %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.lines | join(context.big) %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.lines[1:] + context.lines %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.big[1:] %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.many.items() %}{% endfor %}",
    "{% for i in range(999) %}{% set x = 'q' in context.lines %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.lines == context.lines %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.big | indent(100) %}{% endfor %}",
    "{% for i in range(999) %}{% set x = context.numbers | sum %}{% endfor %}",
    "{% for c in context.big %}{% for d in context.big %}{% endfor %}{% endfor %}",
    "{% for x in context.lines if context.big | upper == 'x' %}{% endfor %}",
    "{{ range(1000000000) }}",
    "{{ range(0, 1000000000, 1000) | list }}",
    "{{ 'x' * 1000000000 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ context.lines | join(context.big) }}",
    "{{ context.big | replace('x', context.big) }}",
    "{{ context.big | replace('', context.big) }}",
    "{{ context.big | trim(context.big) }}",
    "{{ context.newlines | indent(100) }}",
    "{{ context.newlines | indent(1000000000) }}",
    "{{ context.big | truncate(10, true, context.big * 99) }}",
    "{{ context.deep | tojson(1000000000) }}",
    "{{ context.numbers | tojson(8) | tojson | tojson | tojson | tojson | tojson | tojson | tojson | tojson }}",
    "{{ context.big | list | tojson }}",
    "{{ context.big | title | title | title | title | title | title | title | title | title | title | title }}",
    "{{ context.big ~ context.big ~ context.big ~ context.big ~ context.big ~ context.big }}",
    _TEXT + "{% set a = a ~ a %}" * 40,
    _TEXT + "{% set a = a + a %}" * 40,
    _TEXT + "{% set a = a | replace('x', a) %}" * 10,
    _TEXT + "{% set a = [a, a] | join(a) %}" * 40,
    _TEXT + "{% set a = a | tojson %}{% set a = [a] | string %}" * 60,
    "{% set a = [1] %}" + "{% set a = a + a %}" * 40,
    _DOUBLED + "{{ a }}",
    _DOUBLED + "{{ a | tojson }}",
    _DOUBLED + "{{ a | string | length }}",
    _DOUBLED + "{{ a | join }}",
    _DOUBLED + "{{ a | upper }}",
    _PAIRS + "{{ a == b }}",
    _PAIRS + "{{ a in [b] }}",
    _PAIRS + "{{ [a, b] | unique | list }}",
    _PAIRS + "{{ a is eq(b) }}",
    "{% set a = {'k': 1} %}" + "{% set a = {'k': a, 'l': a} %}" * 40 + "{{ a }}",
    "{{ 1e308 * 1e308 % 7 | round(1000000000) }}",
    "{{ 1.5 | round(-1000000000) }}",
    *(
        f"{{% for i in range(999) %}}{{% set x = context.{work} %}}{{% endfor %}}"
        for work in (
            *("lines | select('eq', 'x')", "lines | reject('in', 'x')", "numbers | select('odd')", "lines | min"),
            *("lines | map(attribute='0') | selectattr('0')", "numbers | max(true)", "many | dictsort", "lines | max"),
            *("many | dictsort(by='value')", "many.items() | rejectattr(0, 'defined')"),
        )
    ),
    "{% set l = [context.big] %}" + "{% set l = l + l %}" * 12 + "{{ l | select('lt', context.big) }}" * 3,
    "{% set l = [context.big] %}" + "{% set l = l + l %}" * 12 + "{{ l | min | length }}" * 3,
    "{{ context.big | list | dictsort }}{{ context.big | list | min }}",
    "{{ context.huge + context.huge }}",
    "{{ context.huge | int }}{{ context.huge * context.huge }}",
    "{{ context.big | int }}{{ context.big | float }}{{ context.numbers | map(attribute=context.big) }}",
    "{% for i in range(999) %}{% set x = -context.huge %}{% endfor %}",
    "{% set x = [context.a] %}{% set y = [context.b] %}{% for i in range(9999) %}{% if x == y %}{% "
    "endif %}{% endfor %}",
    "{% for i in range(9999) %}{% set x = [context.a, context.b] | sort | unique %}{% endfor %}",
)
"""Templates whose check or rendering ends before it takes much time or memory."""
_LEVELS = 1980
DEEP_TEMPLATES: tuple[str, ...] = (
    *("{{ " + sign * _LEVELS + "1 }}" for sign in ("-", "not ")),
    *("{{ " + f"1 {sign} " * (_LEVELS // 2) + "1 }}" for sign in ("+", "and", "~", "<", "if 0 else", "is odd and")),
    *("{{ task" + end * (_LEVELS // 3) + " }}" for end in (".a", "[0]", "[:]", "()", "|d")),
    "{% if 0 %}" + "{% elif 0 %}" * (_LEVELS // 6) + "{% endif %}",
    *("{{ '}}' }}{# ' #}{{ " + sign * 200_000 + "1 }}" for sign in ("-", "(", "[", "{")),
    "{{ {1: {1: {1: {1: {1: {}}}}}} }}{{ " + "-" * 200_000 + "1 }}",
    "{{ '{{ " + "-" * 200_000 + "1 }}",
    "{% raw %}{%\x0bendraw %}{#{% endraw %}{{ " + "-" * 60_000 + "1 }}#}",
    "{{ {1: {1: {1: {1: {1: 1}}}}} }} ' {{ " + "-" * 60_000 + "1 }} '",
)
"""Templates with about as many levels as a template may have tokens, or with more."""

CONTEXT: dict[str, Any] = {
    "big": "x" * 200_000,
    "newlines": "\n" * 200_000,
    "lines": [f"line {n}" for n in range(1500)],
    "numbers": list(range(1500)),
    "many": {f"k{n}": n for n in range(1500)},
    "deep": _nested(60),
    "huge": 10**4200,
}
"""The task's context from such a tenant."""
VARIABLES: dict[str, Any] = {"task": {"id": "t", "prompt": "p"}, "team": {}, "agent": {"name": "a"}, "context": CONTEXT}

HEAVY_PATTERNS: tuple[str, ...] = (
    "(a{1000}){100}",
    "(a{100}){100}",
    "(?:(?:a?){30}){34}",
    r"\w{200}",
    r"[\w.-]{1,100}",
    "((((((((((a|b){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}",
    "(?x)(a{100}) {100}",
    "a" * 5000,
    "[[[[" * 100,
    "(a{300}[[[[b]c]d)e]){300}",
    "(.{0,100}){0,20}!",
)
"""Regular expressions whose compiled form, or whose search, takes time though the engine does not backtrack."""
