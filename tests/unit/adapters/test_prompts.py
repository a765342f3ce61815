"""Prompts: a template computes text from what it is given, and reaches nothing else."""

import sys
import time
from typing import Any

import pytest

from roboco.adapters.prompts import JinjaPrompts, check_template
from roboco.errors import UsageError

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
def test_templates(template: str, expected: str) -> None:
    assert render(template) == expected
    assert check_template(template) == []


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
def test_nothing_outside_is_reached(template: str) -> None:
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
def test_what_is_not_there_is_refused_and_not_left_out(template: str) -> None:
    with pytest.raises(UsageError, match=r"the template fails: .*(undefined|no attribute|no element)"):
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
    ],
)
def test_whatever_fails_is_a_usage_error(template: str) -> None:
    with pytest.raises(UsageError, match="the template fails"):
        render(template)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ tusk.id }}", "unknown variable 'tusk', possible are task, team, agent, context"),
        ("{{ a }}{{ b }}", "unknown variable 'a'"),
        ("{{ ", "is not a Jinja template"),
        ("{% if %}", "is not a Jinja template"),
        ("{% for x in context %}", "is not a Jinja template"),
        ("{{ task.id }", "is not a Jinja template"),
    ],
)
def test_mistakes_are_seen_without_a_task(template: str, told: str) -> None:
    assert told in check_template(template)[0]


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000 * 'x' }}",
        "{{ ('x' * 9999 * 9999) * 9999 }}",
        "{{ [1] * 1000000000 }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ lipsum(n=1000000) }}",
        "{% set x = 'x' * 9999 %}{% for i in range(999) %}{{ x }}{% endfor %}",
    ],
)
def test_a_template_ends_soon_and_stays_small(template: str) -> None:
    began = time.thread_time()
    with pytest.raises(UsageError, match="the template fails"):
        render(template)
    assert time.thread_time() - began < 5
    before = time.thread_time()
    assert [mistake for mistake in check_template(template) if "lipsum" not in mistake] == []
    assert time.thread_time() - before < 1, "nothing is computed by a check"


@pytest.mark.parametrize("template", ["{{" + "(" * 5000 + "1" + ")" * 5000 + "}}", "{% if 1 %}" * 3000])
def test_a_template_that_is_nested_too_deep(template: str) -> None:
    assert "nested too deep" in check_template(template)[0]


def test_whoever_traces_goes_on_to_trace() -> None:
    def trace(*_: Any) -> None: ...

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert render("{{ agent.name }}") == "one"
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


def test_each_unknown_variable_is_told() -> None:
    assert len(check_template("{{ a }}{{ b }}{{ a }}{{ task }}")) == 2
