"""Prompt templates: a template computes text from its variables, and has access to nothing else."""

import threading
from contextlib import suppress
from typing import Any

import pytest

from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.errors import UsageError
from roboco.templates import rendering
from roboco.templates.rendering import MAX_TEXT_CHARS, MAX_VALUES
from roboco.templates.syntax import FILTERS, MAX_CODE_TOKENS, TESTS
from roboco.templates.templates import JinjaPrompts, check_template
from tests.faults.hostile import tenant
from tests.support.processor_time import assert_costs_at_most

VARIABLES: dict[str, Any] = {
    "task": {"id": "t1", "prompt": "write"},
    "team": {"name": "desk", "agents": [{"name": "one"}, {"name": "two"}]},
    "agent": {"name": "one"},
    "context": {"tone": "dry", "lines": ["a", "b"]},
}


def render(template: str) -> str:
    return JinjaPrompts().render(template, VARIABLES)


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
        "{{ ''.__class__ }}",
        "{{ context.__class__.__init__.__globals__ }}",
        "{{ context | attr('__class__') }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{{ context.update({'a': 1}) }}",
        "{{ context.lines.append('c') }}",
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
        "{{ context.nothing.more }}",
        "{% for x in context.nothing %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ 'abc'.index('z') }}",
        "{{ range(10 ** 9) | list }}",
        "{{ agent() }}",
        "{{ [1] | select('odd', case=1) | list }}",
        "{{ [] | max }}",
    ],
)
def test_every_failure_of_a_template_raises_usage_error(template: str) -> None:
    with pytest.raises(UsageError, match="the template fails"):
        render(template)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ tusk.id }}", "unknown variable 'tusk', possible are task, team, agent, context, output, state"),
        ("{{ a }}{{ b }}", "unknown variable 'a'"),
        ("{{ ", "is not a Jinja template"),
        ("{% if %}", "is not a Jinja template"),
        ("{% for x in context %}", "is not a Jinja template"),
        ("{{ task.id }", "is not a Jinja template"),
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
    """No template takes much longer than a plain one, most of whose time the same variables take."""

    def work(text: str) -> None:
        with suppress(UsageError):
            assert len(JinjaPrompts().render(text, tenant.VARIABLES)) <= MAX_TEXT_CHARS

    assert_costs_at_most(10, lambda: work(template), lambda: work("{{ 1 }}"))


@pytest.mark.parametrize("template", tenant.DEEP_TEMPLATES, ids=range(len(tenant.DEEP_TEMPLATES)))
def test_a_deep_template_fits_the_stack_of_a_small_thread(template: str) -> None:
    """A template that is too deep would end the process."""
    before = threading.stack_size(1024 * 1024)
    try:
        thread = threading.Thread(target=check_template, args=(template,))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)


def test_large_variables_are_refused() -> None:
    variables = VARIABLES | {"context": {"rows": [{"n": 0}] * (MAX_VALUES // 2)}}
    with pytest.raises(UsageError, match="its variables have more than 5000 values; pass a smaller context, or a text"):
        JinjaPrompts().render("{{ task.id }}", variables)


@pytest.mark.parametrize(
    "value", [10**30, -(2**63), 2**63, 1.5, True, None, "it's {{ a }} %} \\ \n é 😀", {}, [], {"a b": [{}]}]
)
def test_a_value_of_the_context_is_rendered_as_python_writes_it(value: Any) -> None:
    assert JinjaPrompts().render("{{ context.x }}", {"context": {"x": value}}) == str(value)


@pytest.mark.parametrize(("kind", "names"), [("filter", FILTERS), ("test", TESTS)])
def test_minijinja_has_the_listed_filters_and_tests(kind: str, names: tuple[str, ...]) -> None:
    environment = rendering._environment(1000)
    assert [name for name in names if not environment.eval_expr(f"name is {kind}", name=name)] == []


@pytest.mark.parametrize(
    "template",
    [
        "{{ '{{' }}{{ \"%}\" }}{% raw %}{{ '{% endraw %}{# ' #}",
        "{{ {'a': {'b': {}}}['a'] }}{%- if 5 % 2 -%}'{%+ endif +%}",
    ],
)
def test_the_code_of_a_template_ends_where_the_parser_ends_it(template: str) -> None:
    assert check_template(template) == []
    assert check_template(template + "{{ " + "not " * MAX_CODE_TOKENS + "1 }}") == [
        f"has more than {MAX_CODE_TOKENS} words and signs of code, make it simpler"
    ]
    assert check_template(template + " not" * MAX_CODE_TOKENS) == []


def test_a_mistake_names_the_construct_its_line_and_the_alternatives() -> None:
    (mistake,) = check_template("You write.\n\n{{ context.tone.upper() }}")
    assert mistake.startswith("line 3: this call is not possible, only range(...), and get, items, keys and values; or")
    (mistake,) = check_template("\n{{ context.tone | shout }}")
    assert mistake.startswith("line 2: no filter 'shout', possible are abs, capitalize")
    mistake, _ = check_template("{% macro x() %}{% endmacro %}")
    assert mistake.startswith("line 1: 'macro' is not possible, only {{ expressions }}, if, for and set")
    (mistake,) = check_template("{{ task.id is callable }}")
    assert mistake.startswith("line 1: no test 'callable', possible are boolean, defined")


def test_templates_of_a_team_share_a_time() -> None:
    shared = JinjaPrompts(0.0)
    assert shared.render("{{ task.id }}", VARIABLES) == "t1"
    with pytest.raises(UsageError, match="the templates up to here take more than 0 seconds, make them simpler"):
        shared.render("{{ task.id }}", VARIABLES)


def test_a_template_that_is_too_long_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_environment", None)
    long = "{{ task.id }}" + "x" * MAX_PROMPT_CHARS
    mistake = f"has {len(long)} characters, at most {MAX_PROMPT_CHARS} are possible"
    assert check_template(long) == [mistake]
    with pytest.raises(UsageError, match=f"the template fails: {mistake}"):
        render(long)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "{{ context.nothing | default('x') }} {{ task.id is defined }} {{ '' or 'x' }} {{ 1 ~ none }}",
            "x True x 1None",
        ),
        ("{{ team.agents | map(attribute='name') | join(', ') }} {{ [3, 1] | sum + 1 }}", "one, two 5"),
        (
            "{{ (1, ('x', ())) | tojson(3) }} {{ '<' | tojson }}",
            '[\n   1,\n   [\n      "x",\n      []\n   ]\n] "\\u003c"',
        ),
        ("{{ 7 // 2 }} {{ 7 % 4 }} {{ 1 + 2 - 4 }} {{ 2.567 | round(1) }} {{ 'a' in 'abc' }}", "3 3 -1 2.6 True"),
        (
            "{% for k, v in context.items() %}{{ k }}={{ v }};{% endfor %}{{ context.get('x', 5) }}",
            "tone=dry;lines=['a', 'b'];5",
        ),
        ("{% for x in context['lines'] if x != 'c' %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}", "1a2b"),
        (
            "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{% set a, b = 1, 2 %}{{ b }}",
            "1232",
        ),
        (
            "{% if false %}a{% elif context.tone %}b{% else %}c{% endif %}{# a comment #}{% raw %}{{ x }}{% endraw %}",
            "b{{ x }}",
        ),
        ("a\r\n  {%- if true -%}\n b \n{%- endif %}\nc\n", "ab\nc"),
        (
            "{{ team.agents | selectattr('name', 'equalto', 'two') | list }} {{ [1, 2] | reject('in', [2]) | list }}",
            "[{'name': 'two'}] [1]",
        ),
        (
            "{{ [(1, 'x'), (2, 'y')] | selectattr(0, 'even') | list }} {{ team.agents | max(attribute='name') }}",
            "[(2, 'y')] {'name': 'two'}",
        ),
        (
            "{{ {'b': 1, 'A': 3} | dictsort(by='value', reverse=true) }} {{ [1, 2, 3][::-1] }}",
            "[('A', 3), ('b', 1)] [3, 2, 1]",
        ),
    ],
)
def test_a_template_renders_as_jinja_does(template: str, expected: str) -> None:
    """The texts are those of Jinja 3.1."""
    assert check_template(template) == []
    assert render(template) == expected
