"""Checks of the teams' models. Import this module lazily: it imports openai, a quarter of a command's start-up time."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import openai

from roboco.cli.doctor.check import CheckResult, expect
from roboco.cli.doctor.parallel_checks import CheckGroup, run_parallel
from roboco.domain.team.model_profile import REMOTE_AGENT, ModelProfile
from roboco.domain.team.team import Team
from roboco.errors import ModelError, RobocoError
from roboco.model.allowlist import LOCAL_KEY, base_url_of, check_allowed, key_variable, model_key, needs_key

LIST_TIMEOUT: Final = 10.0
"""Seconds for a model's server to list its models."""
_NATIVE: Final = frozenset({"anthropic", "bedrock", "google"})
"""Providers with a protocol that differs from OpenAI's."""


def check_models(teams: Iterable[Team | RobocoError | OSError], allowed: tuple[str, ...] = ()) -> Iterator[CheckResult]:
    """Check that the servers of the teams' models answer, accept the keys and have the models.

    An address or a variable that the operator does not allow is not used.
    """
    declared = [profile for team in teams if isinstance(team, Team) for profile in team.models.values()]
    different = {
        (one.provider, one.base_url, one.api_key_env, one.model): one
        for one in declared or [ModelProfile(model="gpt-4o-mini")]
    }
    groups = [CheckGroup(f"model {one.model}", partial(_checks_of_model, one, allowed)) for one in different.values()]
    yield from run_parallel(groups, 2 * LIST_TIMEOUT)


def _checks_of_model(profile: ModelProfile, allowed: tuple[str, ...]) -> list[CheckResult]:
    name, variable = f"model {profile.model}", key_variable(profile)
    try:
        check_allowed(profile, allowed)
    except ModelError as error:
        found, _, todo = error.message.partition(": ")
        return [CheckResult(name, "fail", found, todo)]
    if profile.api_key is not None:
        return [
            CheckResult(name, "ok", f"not asked: its key is credential {profile.api_key.credential!r} of each tenant")
        ]
    if needs_key(profile) and not model_key(profile):
        return [CheckResult(name, "fail", f"{variable} is not set", "set it here and where the agents workers run")]
    if profile.provider == REMOTE_AGENT:
        return [CheckResult(name, "ok", "not asked: a message to a remote agent may have effects")]
    if profile.provider in _NATIVE:
        return [CheckResult(name, "ok", "not asked: roboco models check TEAM calls models of this provider")]
    return [_check_model(profile)]


def _check_model(profile: ModelProfile) -> CheckResult:
    name, variable, key = f"model {profile.model}", key_variable(profile), model_key(profile) or "none"
    try:
        with openai.OpenAI(base_url=base_url_of(profile), api_key=key, timeout=LIST_TIMEOUT, max_retries=0) as client:
            models = {model.id for model in client.models.list().data}
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        return CheckResult(
            name, "fail", f"its server refuses the key: {error.status_code}", f"correct {variable or 'api_key_env'}"
        )
    except openai.NotFoundError:
        return CheckResult(name, "ok", "its server answers, but does not list its models")
    except openai.OpenAIError as error:
        found = f"its server does not answer: {type(error).__name__}"
        return CheckResult(
            name, "fail", found, "check OPENAI_BASE_URL, or the team's base_url, and the network between"
        )
    if key == LOCAL_KEY:
        return CheckResult(name, "ok", "the local model of `roboco dev` answers in its place")
    return expect(
        name,
        profile.model in models,
        "answers" if profile.model in models else "is not there",
        f"name one of {', '.join(sorted(models)[:5]) or 'those that it has'}",
    )
