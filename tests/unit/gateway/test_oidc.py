"""Tokens of an OIDC provider: signatures, claims, rotation of keys, and attacks on the algorithm."""

import asyncio
import base64
import hmac
import json
from typing import Any
from unittest.mock import Mock

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from roboco.domain.access_key import CallerLimits
from roboco.errors import TransientError
from roboco.gateway import oidc
from roboco.gateway.calls import CallLine
from roboco.gateway.oidc import MAX_AGE, RETRY_SECONDS, Tokens
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.settings import GatewaySettings, OidcClaims
from roboco.http.http_exchange import HttpAnswer

ISSUER, AUDIENCE, NOW = "https://login.example", "roboco", 1_800_000_000
RSA, OTHER_RSA = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
EC = ECKey.generate_key("P-256")
SETTINGS = GatewaySettings(oidc_issuer=ISSUER, oidc_audience=AUDIENCE)
LIMITS = CallerLimits(requests_per_minute=7)


def public(key: Any, key_id: str, **more: Any) -> dict[str, Any]:
    """Return the public part of a key, as a provider shows it."""
    return {**key.as_dict(private=False), "kid": key_id, "use": "sig", **more}


class Provider:
    """A provider, and a gateway that trusts it, with a clock that the test moves."""

    def __init__(self, **settings: Any) -> None:
        self.documents: dict[str, Any] = {
            f"{ISSUER}/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"},
            f"{ISSUER}/keys": {"keys": [public(RSA, "r1"), public(EC, "e1")]},
        }
        self.reads = 0
        self.broken = False
        self.breaks = False
        """True if the provider is down after the first request."""
        self.clock = 0.0
        self.settings = SETTINGS.model_copy(update=settings)

    def fetch(self, address: str) -> dict[str, Any]:
        """Return the document at an address."""
        self.reads += 1
        if self.broken:
            raise TransientError("the provider is down")
        found: dict[str, Any] = self.documents[address]
        return found

    def callers(self, *tokens: str) -> list[Principal | int]:
        """Return the caller of each token, or the status of its Problem, from one gateway."""
        return asyncio.run(self.ask(*[(0.0, token) for token in tokens]))

    async def ask(self, *requests: tuple[float, str]) -> list[Principal | int]:
        """Do the same, each some seconds after the one before."""
        line = CallLine("token", 1, 4, 5.0)
        gateway = Tokens(self.settings, line, self.fetch, lambda: NOW + self.clock)
        answers: list[Principal | int] = []
        for seconds, token in requests:
            self.clock += seconds
            try:
                answers.append(await gateway.principal(token, LIMITS))
            except Problem as problem:
                answers.append(problem.status)
            self.broken = self.breaks
        line.close()
        return answers


def token(key: Any = RSA, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a signed token. A claim that is None is left out."""
    fields = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": NOW + 300,
        "iat": NOW,
        "tenant": "acme",
        "scope": "openid roboco:read roboco:submit roboco:unknown read",
    } | claims
    given = {name: value for name, value in fields.items() if value is not None}
    head = {"alg": "RS256", "kid": "r1"} if key is RSA else {"alg": "ES256", "kid": "e1"}
    chosen = head if header is None else header
    return jwt.encode(chosen, given, key, algorithms=["RS256", "ES256", "HS256", "PS256", "RS512"])


def test_claims_name_the_caller() -> None:
    expected = Principal("oidc:ann", "acme", frozenset({Scope.READ, Scope.SUBMIT}), None, LIMITS)
    assert Provider().callers(token(), token(EC)) == [expected, expected]


def test_scopes_may_be_a_list_and_teams_a_claim() -> None:
    provider = Provider(oidc_claims=OidcClaims(scope="roles", teams="teams", utility_model="side"))
    many, one = ["roboco:read", 5, "roboco:approve"], "roboco:read write"
    [caller, without] = provider.callers(token(roles=many, teams=["desk"], side="small"), token(roles=one))
    assert isinstance(caller, Principal)
    assert isinstance(without, Principal)
    assert caller.scopes == {Scope.READ, Scope.APPROVE}
    assert caller.teams == frozenset({"desk"})
    assert without.teams == frozenset()
    assert (caller.utility_model, without.utility_model) == ("small", None)


def test_a_token_without_a_tenant_is_an_operators_and_no_other() -> None:
    plain, operator, both = Provider().callers(
        token(tenant=None), token(tenant=None, scope="roboco:operate"), token(scope="roboco:operate roboco:read")
    )
    assert plain == 403
    assert isinstance(operator, Principal)
    assert operator.tenant is None
    assert isinstance(both, Principal)
    assert (both.tenant, both.scopes) == ("acme", frozenset({Scope.READ}))


@pytest.mark.parametrize("tenant", ["", "ACME", "a:b", "../x", 5, ["acme"], {"a": 1}, "a" * 33])
def test_a_tenant_that_is_not_allowed_is_refused(tenant: Any) -> None:
    assert Provider().callers(token(tenant=tenant)) == [403]


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": ["other"]},
        {"aud": None},
        {"aud": {"roboco": 1}},
        {"exp": NOW - 61},
        {"exp": None},
        {"exp": str(NOW + 300)},
        {"nbf": NOW + 61},
        {"iat": NOW + 61},
        {"sub": ""},
        {"sub": 5},
        {"sub": "a\nb"},
        {"sub": "a" * 191},
    ],
    ids=str,
)
def test_wrong_claims_are_refused(claims: dict[str, Any]) -> None:
    assert Provider().callers(token(**claims)) == [401]


def test_clocks_may_differ_a_little_and_the_audience_may_be_a_list() -> None:
    found = Provider().callers(token(exp=NOW - 59), token(nbf=NOW + 59), token(aud=["other", AUDIENCE]))
    assert all(isinstance(one, Principal) for one in found)


def unsigned(head: Any, signature: str = "", **claims: Any) -> str:
    """Return a token with this header."""
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 300, "tenant": "acme"} | claims
    parts = (json.dumps(one).encode() if not isinstance(one, bytes) else one for one in (head, body))
    return ".".join([*(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts), signature])


def signed_with_public_key() -> str:
    """Return a token whose HS256 secret is the provider's public key."""
    text = unsigned({"alg": "HS256", "kid": "r1"})[:-1]
    mac = hmac.digest(RSA.as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


@pytest.mark.parametrize(
    "attack",
    [
        unsigned({"alg": "none"}),
        unsigned({"alg": "none", "kid": "r1"}),
        unsigned({"alg": "RS256", "kid": "r1"}),
        unsigned({"alg": ["RS256"], "kid": "r1"}),
        unsigned({"alg": "RS256", "kid": ["r1"]}),
        unsigned([]),
        unsigned(b"\xff\xfe"),
        unsigned(b"[" * 1400),
        "a.b",
        "a.b.c.d.e",
        "...",
        "x" * 16_000,
        signed_with_public_key(),
        token(OTHER_RSA, {"alg": "RS256", "kid": "r1"}),
        token(OTHER_RSA, {"alg": "RS256", "kid": "r1", "jwk": OTHER_RSA.as_dict(private=False)}),
        token(OTHER_RSA, {"alg": "RS256", "kid": "r1", "jku": "https://evil.example/keys"}),
        token(RSA, {"alg": "RS512", "kid": "r1"}),
        token(RSA, {"alg": "PS256", "kid": "r1"}),
        token(RSA, {"alg": "RS256", "kid": "e1"}),
        token(EC, {"alg": "ES256", "kid": "r1"}),
        token(RSA)[:-4] + "AAAA",
        token(RSA, {"alg": "RS256", "kid": "../../etc/passwd"}),
    ],
    ids=range(22),
)
def test_attacks_are_refused(attack: str) -> None:
    assert Provider().callers(attack) == [401]


def test_a_token_without_a_key_id_needs_a_single_key() -> None:
    provider = Provider()
    assert provider.callers(token(RSA, {"alg": "RS256"})) == [401]
    del provider.documents[f"{ISSUER}/keys"]["keys"][1]
    [found] = provider.callers(token(RSA, {"alg": "RS256"}))
    assert isinstance(found, Principal)


def test_a_new_key_is_read_once_and_invented_ids_cause_no_flood() -> None:
    provider = Provider()
    invented = [(0.1, token(RSA, {"alg": "RS256", "kid": f"k{number}"})) for number in range(20)]
    rotated = token(OTHER_RSA, {"alg": "RS256", "kid": "r2"})

    async def work() -> list[Principal | int]:
        return await provider.ask((0, token()), *invented, (RETRY_SECONDS, rotated))

    provider.documents[f"{ISSUER}/keys"]["keys"].append(public(OTHER_RSA, "r2"))
    answers = asyncio.run(work())
    assert isinstance(answers[0], Principal)
    assert set(answers[1:-1]) == {401}
    assert isinstance(answers[-1], Principal)
    assert provider.reads == 2  # the configuration and the keys, once: the first read had the new key already


def test_known_keys_count_for_a_bounded_time_while_the_provider_is_down() -> None:
    provider = Provider()
    provider.breaks = True
    lasting = token(exp=NOW + 2 * MAX_AGE)
    known, still, gone = asyncio.run(provider.ask((0, lasting), (MAX_AGE - 1, lasting), (2, lasting)))
    assert isinstance(known, Principal)
    assert isinstance(still, Principal)
    assert gone == 503


def test_a_provider_that_never_answers_or_names_another_issuer_is_unavailable() -> None:
    broken = Provider()
    broken.broken = True
    assert broken.callers(token()) == [503]
    foreign = Provider()
    foreign.documents[f"{ISSUER}/.well-known/openid-configuration"]["issuer"] = "https://evil.example"
    assert foreign.callers(token()) == [503]


@pytest.mark.filterwarnings("ignore:Key size should be")
def test_keys_for_other_purposes_sign_no_token() -> None:
    small = RSAKey.generate_key(1024)
    provider = Provider()
    provider.documents[f"{ISSUER}/keys"]["keys"] = [
        public(RSA, "a"),
        public(RSA, "b", use="enc"),
        public(RSA, "c", alg="RS512"),
        public(small, "d"),
        {"kty": "unknown", "kid": "e"},
        {"kty": "EC", "crv": "BP-256", "x": "AA", "y": "AA", "kid": "f"},
        {"kty": "RSA", "kid": 5, "x5c": "MII", "key_ops": ["foo"]},
        "no key",
    ]
    tokens = [token(RSA, {"alg": "RS256", "kid": name}) for name in "abc"]
    known, *refused = provider.callers(*tokens, token(small, {"alg": "RS256", "kid": "d"}))
    assert isinstance(known, Principal)
    assert refused == [401] * 3


@pytest.mark.parametrize("keys", [[], "x", [None], [{"kty": "RSA", "n": "!", "e": 3.1}]])
def test_a_provider_without_valid_keys_is_unavailable(keys: Any) -> None:
    provider = Provider()
    provider.documents[f"{ISSUER}/keys"]["keys"] = keys
    assert provider.callers(token()) == [503]


@pytest.mark.parametrize(
    "answer",
    [
        HttpAnswer(302, b"{}"),
        HttpAnswer(500, b"{}"),
        HttpAnswer(200, b"[]"),
        HttpAnswer(200, b"no"),
        ValueError("long"),
        httpx2.ConnectError("x"),
        TimeoutError(),
    ],
    ids=str,
)
def test_an_answer_that_is_no_json_object_is_refused(
    answer: HttpAnswer | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/unit/http` proves the bounds of an exchange, which follows no redirection."""
    exchange = Mock(side_effect=[HttpAnswer(200, b'{"a": 1}'), answer])
    monkeypatch.setattr(oidc, "exchange", exchange)
    assert oidc.fetch_json("http://127.0.0.1/keys") == {"a": 1}
    with pytest.raises(TransientError):
        oidc.fetch_json("http://127.0.0.1/keys")
    assert exchange.call_args.args[-2:] == (oidc.TIMEOUT, oidc.MAX_BYTES)


@pytest.mark.parametrize("place", ["https://[x", "https://h:99999/", "https://h\n/"])
def test_malformed_addresses_are_refused(place: str) -> None:
    with pytest.raises(TransientError):
        oidc.fetch_json(place)


@pytest.mark.parametrize("place", ["http://login.example/x", "file:///etc/passwd", "x", ""])
def test_addresses_without_tls_are_refused(place: str) -> None:
    with pytest.raises(TransientError, match="no TLS"):
        oidc.fetch_json(place)
