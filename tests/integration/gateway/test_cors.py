"""Pages of other origins: none by default, and those of the setting with a key in a header, but never a cookie."""

from pathlib import Path

import pytest

from tests.support.gateway_auth import SECRET, AuthWorld, auth_world

SHOP = "https://shop.example"


def preflight(world: AuthWorld, origin: str = SHOP, headers: str = "authorization,idempotency-key") -> dict[str, str]:
    """Return the headers of the answer to a browser's question."""
    answer = world.client.options(
        "/v1/me",
        headers={
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": headers,
            "sec-fetch-site": "cross-site",
        },
    )
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control")}


def test_without_the_setting_no_page_is_allowed(tmp_path: Path) -> None:
    with auth_world(tmp_path) as world:
        assert preflight(world) == {}
        answer = world.me(world.key(), origin=SHOP)
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origins", [(), ("https://other.example",)])
def test_a_refused_page_names_the_setting(tmp_path: Path, origins: tuple[str, ...]) -> None:
    with auth_world(tmp_path, cors_origins=origins) as world:
        asked = {"origin": SHOP, "access-control-request-method": "POST"}
        answer = world.client.options("/openai/v1/models", headers=asked)
        assert (answer.status_code, answer.json()["detail"]) == (403, f"pages of {SHOP} may not call this gateway")
        assert answer.json()["remedy"] == f"an operator adds {SHOP} to ROBOCO_GATEWAY_CORS_ORIGINS"


@pytest.mark.parametrize("authentication", [True, False])
def test_an_allowed_page_may_call_and_read_the_headers(tmp_path: Path, authentication: bool) -> None:
    with auth_world(tmp_path, cors_origins=(SHOP,), authentication=authentication) as world:
        allowed = preflight(world)
        assert allowed["access-control-allow-origin"] == SHOP
        assert "access-control-allow-credentials" not in allowed
        assert allowed["access-control-allow-headers"] == "authorization,idempotency-key"
        answer = world.me(world.key(), origin=SHOP, **{"sec-fetch-site": "cross-site"})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == SHOP
        assert answer.headers["access-control-expose-headers"] == "*"
        refused = world.client.get("/v1/me", headers={"origin": SHOP, "authorization": "Bearer x"})
        if authentication:
            assert refused.status_code == 401
            assert refused.headers["access-control-allow-origin"] == SHOP


def test_a_cookie_of_an_allowed_page_is_refused(tmp_path: Path) -> None:
    with auth_world(tmp_path, cors_origins=(SHOP,), cookie_secret=(SECRET,)) as world:
        world.client.post("/v1/sign-in", json={"key": world.key()})
        assert world.me().status_code == 200
        assert world.me(None, origin=SHOP).status_code == 403
        assert world.me(None, origin=SHOP, **{"sec-fetch-site": "cross-site"}).status_code == 403
