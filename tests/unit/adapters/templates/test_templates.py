"""Prompt templates: a template computes text from its variables, and has access to nothing else."""

import tracemalloc
from typing import Any

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from roboco.adapters.templates import rules as template_rules
from roboco.adapters.templates.rules import MAX_CACHED_CHARS, parse_template
from roboco.adapters.templates.templates import JinjaPrompts, check_template
from roboco.adapters.templates.values import MAX_TEXT_CHARS
from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.errors import UsageError
from tests.faults.hostile import tenant

VARIABLES: dict[str, Any] = {
    "task": {"id": "t1", "prompt": "write"},
    "team": {"name": "desk", "agents": [{"name": "one"}, {"name": "two"}]},
    "agent": {"name": "one"},
    "context": {"tone": "dry", "lines": ["a", "b"]},
}


def render(template: str) -> str:
    return JinjaPrompts().render(template, VARIABLES)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("You write.", "You write."),
        ("{{ agent.name }} of {{ team.name }}", "one of desk"),
        ("{{ task.id }}: {{ task.prompt }}", "t1: write"),
        ("{% for one in team.agents %}{{ one.name }} {% endfor %}", "one two "),
        ("{% if context.tone == 'dry' %}Be dry.{% endif %}", "Be dry."),
        ("{{ context.tone | upper }} {{ context['lines'] | join(', ') }}", "DRY a, b"),
        ("{{ context.get('colour', 'red') }} {{ context.colour is defined }}", "red False"),
        ("<b>{{ '<i>' }}</b>", "<b><i></b>"),
        ("{% set x = 2 %}{{ x * 3 }}", "6"),
    ],
)
def test_a_template_is_rendered(template: str, expected: str) -> None:
    assert render(template) == expected
    assert check_template(template) == []


@pytest.mark.parametrize(
    ("template", "remedy"),
    [
        (
            "{{ context.audience }}",
            """: pass --context audience=... (command line) or context={"audience": ...} (Python)""",
        ),
        ("{{ context['audience'] }}", """ or context={"audience": ...} (Python)"""),
        ("{% for x in [1] %}{{ context.audience }}{% endfor %}", """ or context={"audience": ...} (Python)"""),
        ("{{ context.user.name }}", """: pass context={"user": {"name": ...}} (Python)"""),
    ],
)
def test_missing_context_names_the_remedy(template: str, remedy: str) -> None:
    with pytest.raises(UsageError) as failed:
        JinjaPrompts().render(template, VARIABLES | {"context": {"user": {}}})
    assert str(failed.value).endswith(remedy)


@pytest.mark.parametrize(
    "template",
    [
        "{{ task.audience }}",
        "{% set context = {} %}{{ context.audience }}",
        "{{ context.user.name.first }}",
        "{{ context.a.b.c.d.e.f }}",
        "{{ context." + "a" * 61 + " }}",
    ],
)
def test_missing_attribute_elsewhere_names_the_filter(template: str) -> None:
    context = {"a": {"b": {"c": {"d": {"e": {}}}}}, "user": {"name": "Ada"}}
    with pytest.raises(UsageError, match="'is defined' asks, and the filter 'default' replaces it"):
        JinjaPrompts().render(template, VARIABLES | {"context": context})


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ context.__class__.__init__.__globals__ }}",
        "{{ context['__class__']['__mro__'] }}",
        "{{ context | attr('__class__') }}",
        "{{ self.__init__.__globals__ }}",
        "{{ (1).__class__.__base__ }}",
        "{{ render.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ joiner.__init__.__globals__ }}",
        "{{ lipsum.__globals__['os'] }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ '%s' | format(''.__class__) }}",
        "{{ ''.format_map({}).__class__ }}",
        "{{ context.update({'a': 1}) }}",
        "{{ context.lines.append('c') }}",
        "{{ context.lines.__add__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os.name }}",
        "{% extends 'x' %}",
    ],
)
def test_a_template_has_no_access_beyond_its_variables(template: str) -> None:
    before = repr(VARIABLES)
    with pytest.raises(UsageError, match="the template fails"):
        render(template)
    assert repr(VARIABLES) == before


@pytest.mark.parametrize(
    "template",
    [
        "{{ nothing }}",
        "{{ context.nothing }}",
        "{{ context.nothing.more }}",
        "{{ team.agents[9].name }}",
        "{{ agent.prompt }}",
        "{% for x in context.nothing %}{% endfor %}",
    ],
)
def test_a_missing_variable_is_refused_and_not_left_out(template: str) -> None:
    with pytest.raises(
        UsageError, match=r"the template fails: .*(undefined|unknown variable|no element|context of the task has no)"
    ):
        render(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 1 / 0 }}",
        "{{ 1 % 0 }}",
        "{{ 'a' + 1 }}",
        "{{ '%d' % 'x' }}",
        "{{ '{}'.format() }}",
        "{{ '{a}'.format() }}",
        "{{ 'a'.encode('nothing') }}",
        "{{ 'abc'.index('z') }}",
        "{{ range(10 ** 9) | list }}",
        "{{ 2.0 ** 5000 }}",
        "{{ [1, 'a'] | sort }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ context.lines.nothing() }}",
        "{{ agent() }}",
        "{{ 'x' | nothing }}",
        "{{ {}[[]] }}",
        "{{ team.agents | selectattr('role') | list }}",
        "{{ team.agents | selectattr | list }}",
        "{{ team.agents | select(task.id) | list }}",
        "{{ [1] | select('eq') | list }}",
        "{{ [1] | select('odd', case=1) | list }}",
        "{{ [1, 'a'] | min }}",
        "{{ [] | max }}",
        "{{ [1] | dictsort }}",
        "{{ {'a': 1} | dictsort(by='both') }}",
    ],
)
def test_every_failure_of_a_template_raises_usage_error(template: str) -> None:
    with pytest.raises(UsageError, match="the template fails"):
        render(template)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ tusk.id }}", "unknown variable 'tusk', possible are task, team, agent, context"),
        ("{{ a }}{{ b }}", "unknown variable 'a'"),
        ("{{ ", "is not a Jinja template"),
        ("{% if %}", "is not a Jinja template"),
        ("{% for x in context %}", "is not a Jinja template"),
        ("{{ task.id }", "is not a Jinja template"),
        ("{{ team.agents | selectattr('name', 'like', 'x') }}", "no test 'like', possible are !=, <, <=, =="),
        ("{{ [1] | reject('name') }}", "no test 'name'"),
    ],
)
def test_mistakes_are_found_without_a_task(template: str, expected: str) -> None:
    assert expected in check_template(template)[0]


@pytest.mark.parametrize("template", tenant.REFUSED_TEMPLATES, ids=range(len(tenant.REFUSED_TEMPLATES)))
def test_an_unsupported_construct_is_refused_by_the_check(template: str) -> None:
    assert check_template(template)
    with pytest.raises(UsageError, match="the template fails"):
        JinjaPrompts().render(template, tenant.VARIABLES)


@pytest.mark.parametrize("template", tenant.GREEDY_TEMPLATES, ids=range(len(tenant.GREEDY_TEMPLATES)))
def test_the_time_and_output_of_a_template_are_limited(template: str) -> None:
    assert check_template(template) == []
    with pytest.raises(UsageError, match="the template fails: line 1: "):
        JinjaPrompts().render(template, tenant.VARIABLES)


@pytest.mark.parametrize("template", [one for one in tenant.GREEDY_TEMPLATES if "big | t" in one])
def test_the_memory_of_a_template_is_limited(template: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="the template fails"):
            JinjaPrompts().render(template, tenant.VARIABLES)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_tojson_of_a_deep_value_stops_before_its_text_is_long() -> None:
    """Each of 8,000 items would become a line of 3,600 spaces."""
    deep = "{% set a = " + "[" * 45 + "a" + "]" * 45 + " %}"
    template = "{% set a = range(1000) | list %}" + "{% set a = a + a %}" * 3 + deep * 10 + "{{ a | tojson(8) }}"
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=f"it makes a text longer than {MAX_TEXT_CHARS} characters"):
            render(template)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_mistake_names_the_construct_its_line_and_the_alternatives() -> None:
    (mistake,) = check_template("You write.\n\n{{ context.tone.upper() }}")
    assert mistake.startswith("line 3: this call is not possible, only range(...), and get, items, keys and values of")
    (mistake,) = check_template("\n{{ context.tone | shout }}")
    assert mistake.startswith("line 2: no filter 'shout' here, possible are abs, capitalize")
    (mistake,) = check_template("{% macro x() %}{% endmacro %}")
    assert mistake.startswith("line 1: 'macro' is not possible, only {{ expressions }}, if, for and set")
    (mistake,) = check_template("{{ task.id is callable }}")
    assert mistake.startswith("line 1: no test 'callable', possible are !=, <, <=, ==")


def test_templates_of_a_team_share_a_budget() -> None:
    greedy = "{% for i in range(200) %}{% for j in range(40) %}{% endfor %}{% endfor %}"
    shared = JinjaPrompts().with_shared_budget()
    assert [shared.render(greedy, VARIABLES) for _ in range(4)] == [""] * 4
    with pytest.raises(UsageError, match="it takes more than 200000 steps"):
        [shared.render(greedy, VARIABLES) for _ in range(4)]
    with pytest.raises(UsageError, match="it takes more than 50000 steps"):
        JinjaPrompts().with_shared_budget().render(greedy.replace("200", "500"), VARIABLES)


def test_a_template_without_code_is_not_parsed() -> None:
    assert render("a } } % b\r\nc\n\n") == "a } } % b\nc\n"
    assert render("x" * (MAX_TEXT_CHARS + 1)) == "x" * (MAX_TEXT_CHARS + 1)


def test_a_template_that_is_too_long_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_rules, "_environment", None)
    long = "{{ task.id }}" + "x" * MAX_PROMPT_CHARS
    mistake = f"has {len(long)} characters, at most {MAX_PROMPT_CHARS} are possible"
    assert check_template(long) == [mistake]
    with pytest.raises(UsageError, match=f"the template fails: {mistake}"):
        render(long)


def test_the_tree_of_a_long_template_is_not_cached() -> None:
    short = "{{ task.id }}" + "x" * (MAX_CACHED_CHARS - 13)
    assert parse_template(short) is parse_template(short)
    assert parse_template(short + "x") is not parse_template(short + "x")


JINJA_TEMPLATES = [
    "{{ task.prompt | upper }}, {{ 'aB c-d' | title }} {{ 'aB' | capitalize }} {{ 'AB' | lower }} {{ ' a ' | trim }}",
    "{{ context.nothing | default('x') }} {{ context.nothing | d }} {{ '' | default('y', true) }}",
    "{{ team.agents | map(attribute='name') | join(', ') }} {{ team.agents | join('/', attribute='name') }}",
    "{{ team.agents | length }} {{ 'abc' | count }} {{ [3, 1, 2] | sort }} {{ ['b', 'A'] | sort(reverse=true) }}",
    "{{ [1, 2, 1] | unique | list }} {{ [1, 2] | sum }} {{ [1, 2] | first }} {{ [1, 2] | last }} {{ 'abc' | reverse }}",
    "{{ context | tojson }} {{ '<&>' | tojson }} {{ [1, {'b': 1, 'a': 2}] | tojson(2) }} {{ 'é' | tojson }}",
    "{{ [[], {}, [[1.5, none]], {'b': {'c': []}, 'a': '<\\''}, true] | tojson(0) }} {{ (1, ('x', ())) | tojson(3) }}",
    "{{ {2: 1, 10: 'é', 1.5: false} | tojson }} {{ {none: 'x'} | tojson(8) }} {{ 1e99 | tojson }} {{ {} | tojson(2) }}",
    "{{ context }} {{ team.agents }} {{ [1, 2.5, none, true, 'it\\'s'] }} {{ (1,) }} {{ {} }} {{ (1, 'a') }}",
    "{{ 'a-b-a' | replace('a', 'c') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'a\\nb' | indent(2, true) }}",
    "{{ 'some words here and there' | truncate(12) }} {{ 'some words here' | truncate(9, true) }}",
    "{{ '7' | int + 1 }} {{ 'x' | int }} {{ '1.5' | float }} {{ 2.567 | round(1) }} {{ -3 | abs }} {{ 5 | string }}",
    "{{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 * 3 }} {{ 1 + 2 - 4 }} {{ -1 }} {{ +1 }} {{ 1 ~ 'a' ~ none }}",
    "{{ 1 < 2 <= 2 }} {{ 1 == 1.0 }} {{ 'a' != 'b' }} {{ 'a' in 'abc' }} {{ 3 not in [1, 2] }} {{ 'tone' in context }}",
    "{{ 1 if context.tone == 'dry' else 2 }} {{ not true }} {{ '' or 'x' }} {{ 1 and 2 }} {{ 'a' 'b' }}",
    "{{ task.id is defined }} {{ context.nothing is undefined }} {{ none is none }} {{ 4 is even }} {{ 3 is odd }}",
    "{{ 6 is divisibleby 3 }} {{ 1 is in [1] }} {{ 'a' is string }} {{ [] is iterable }} {{ {} is mapping }}",
    "{{ 1 is number }} {{ true is boolean }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ true is true }} {{ 1 is not none }}",
    "{% for k, v in context.items() %}{{ k }}={{ v }};{% endfor %} {{ context.keys() | list }}",
    "{% for k, v in {'b': 1} | items %}{{ k }}{{ v }}{% endfor %} {{ context.get('x', 5) }} {{ context.get('x') }}",
    "{% for x in context['lines'] %}{{ loop.index }}/{{loop.length}}{{x}}{% if not loop.last %},{% endif %}{%endfor%}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index0 }}{{ x }}{{ loop.first }}{% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %} {% for c in 'ab' %}{{ c }}.{% endfor %}",
    "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% set a, b = 1, 2 %}{{ b }}",
    "{% if false %}a{% elif context.tone %}b{% else %}c{% endif %} {# a comment #}{% raw %}{{ x }}{% endraw %}",
    "a\n  {%- if true -%}\n b \n{%- endif %}\nc\n",
    "{{ [1, 2, 3] | select('odd') | list }} {{ [0, '', 'a'] | select | list }} {{ [1, 2] | reject('in', [2]) | list }}",
    "{{ [1, 2, 9] | select('>', 1) | list }} {{ ['a', 'b'] | select('lessthan', 'b') | list }} {{ 2 is ge 2 }}",
    "{{ team.agents | selectattr('name', 'equalto', 'two') | list }} {{ [0, 1] | reject | list }} {{ 'abc' | max }}",
    "{{ team.agents | rejectattr('name', 'in', ['one']) | map(attribute='name') | join }} {{ 3 is lt 2 }}",
    "{{ team.agents | selectattr('name') | list | length }} {{ team.agents | rejectattr('name') | list }}",
    "{{ team.agents | selectattr('role', 'defined') | list }} {{ [{'a': {'b': 0}}] | rejectattr('a.b') | list }}",
    "{{ [(1, 'x'), (2, 'y')] | selectattr(0, 'even') | list }} {{ [[1], [0]] | selectattr('0') | list }}",
    "{{ [3, 1.5, 2] | min }} {{ [3, 1, 3.0] | max }} {{ ['b', 'A', 'a'] | min }} {{ ['b', 'A'] | min(true) }}",
    "{{ ['B', 'a'] | max(case_sensitive=true) }} {{ team.agents | max(attribute='name') }} {{ [true, false] | max }}",
    "{{ [] | min | default('x') }} {{ [] | max is undefined }} {{ [{'n': [2]}, {'n': [1]}] | min(attribute='n.0') }}",
    "{{ {'b': 1, 'A': 3, 'a': 2} | dictsort }} {{ {'b': 1, 'A': 3} | dictsort(true) }} {{ {} | dictsort }}",
    "{{ {'b': 1, 'A': 3} | dictsort(by='value', reverse=true) }} {{ {'x': 'b', 'y': 'A'} | dictsort(false, 'value') }}",
    "{% for k, v in context | dictsort %}{{ k }}{% endfor %} {{ {2: 'a', 1: 'a'} | dictsort(false, 'value', true) }}",
    "{{ 'hello'[1:3] }} {{ [1, 2, 3][::-1] }} {{ context['lines'][-1] }} {{ 'abc'[0] }} {{ range(2, 8, 3) | list }}",
    "{% for a in team.agents %}{% for b in team.agents %}{{ a.name ~ b.name ~ loop.index }} {% endfor %}{% endfor %}",
]


@pytest.mark.parametrize("template", JINJA_TEMPLATES)
def test_a_template_renders_as_jinja_does(template: str) -> None:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    assert check_template(template) == []
    assert render(template) == environment.from_string(template).render(VARIABLES)


def test_a_template_that_is_nested_too_deep_is_refused() -> None:
    assert "nested deeper than 50" in check_template("{% if 1 %}" * 60 + "{% endif %}" * 60)[0]
    assert "nested too deep" in check_template("{{ " + "-" * 2000 + "1 }}")[0]


def test_each_unknown_variable_is_reported() -> None:
    assert len(check_template("{{ a }}{{ b }}{{ a }}{{ task }}")) == 2
