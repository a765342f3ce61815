"""OAuth tokens for MCP servers: an `Authorization` header, and one new token if the server refuses it.

    request with the known token ─► 401 ─► lock ─► another worker's new token? ─no─► get one ─► request, once more

Of all workers one gets the new token. Redis has the lock, and the token of client credentials, encrypted with a key
that derives from the client's secret. A token of the operator's function is not stored: the function is asked again.
"""

import base64
import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import anyio
import httpx2
from cryptography.fernet import Fernet, InvalidToken
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

from roboco.domain.canonical_json import sha256
from roboco.domain.team.mcp_server import ClientCredentials, McpServer
from roboco.errors import UsageError
from roboco.ports.tools import TaskOwner
from roboco.tools.mcp.http import clean_body

GetToken = Callable[..., str]
"""The operator's function: `url`, `tenant`, `user` and `refresh` are its keyword arguments."""
_UNAUTHORIZED = 401
_EARLY_SECONDS = 30
"""Seconds before its end at which a token counts as expired."""
_DEFAULT_LIFETIME = 3600
_MAX_SHOWN_CHARS = 500


GetCredential = Callable[[str], Awaitable[str]]
"""Returns a credential of the task's tenant."""
TokenAccess = tuple[Any, GetToken | None, TaskOwner, GetCredential]
"""The shared token store (`RedisTokenStore`), the operator's function for tokens, the user whose token is sent, and
the credentials of the user's tenant."""


def token_auth(server: McpServer, access: TokenAccess) -> "TokenAuth | None":
    """Return what sends the tokens of the server, or None if it gets none. Raise UsageError if there can be none."""
    store, get_token, owner, _ = access
    if server.auth is None:
        return None
    if isinstance(server.auth, ClientCredentials):
        return ClientTokens(server, store, server.auth)
    if get_token is None:
        raise UsageError(
            f"MCP server {server.location!r} gets the token of the task's {server.auth}: set ROBOCO_MCP_TOKENS to the "
            "function that returns it"
        )
    if server.auth == "user" and owner.user is None:
        raise UsageError(
            f"MCP server {server.location!r} gets the token of the task's user, and the task has none: submit it with "
            "a caller, or use `auth: tenant`"
        )
    return FunctionTokens(server, store, get_token, owner)


class TokenAuth(httpx2.Auth):
    """Sends a token. `secrets` are the newest tokens, which must not appear in messages."""

    def __init__(self, server: McpServer, store: Any, owner: str) -> None:
        self.secrets: tuple[str, ...] = ()
        self._url = server.url or ""
        self._store = store
        self._name = sha256(json.dumps([server.cache_key, owner]))

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with the known token; if it is refused, send it once more with a new one."""
        held = await anyio.to_thread.run_sync(self._known, abandon_on_cancel=True)
        response = yield self._with_token(request, held)
        if response.status_code == _UNAUTHORIZED:
            await response.aread()
            token = await anyio.to_thread.run_sync(self._renewed_alone, held, abandon_on_cancel=True)
            yield self._with_token(request, token)

    def _renewed_alone(self, refused: str) -> str:
        with self._store.lock(self._name):
            return self._renewed(refused)

    def _with_token(self, request: httpx2.Request, token: str) -> httpx2.Request:
        if token:
            self.secrets = tuple(dict.fromkeys([token, *self.secrets]))[:4]
            request.headers["authorization"] = f"Bearer {token}"
        return request

    @abstractmethod
    def _known(self) -> str:
        """Return the known token, or "" if there is none."""

    @abstractmethod
    def _renewed(self, refused: str) -> str:
        """Return a token in place of the refused one: another worker's, or a new one. Raise UsageError without one."""


class FunctionTokens(TokenAuth):
    """The tokens of the operator's function, for a tenant or a user."""

    def __init__(self, server: McpServer, store: Any, get_token: GetToken, owner: TaskOwner) -> None:
        super().__init__(server, store, json.dumps([owner.tenant, owner.user]))
        self._get_token = get_token
        self._tenant, self._user = owner.tenant, owner.user
        self._token = ""

    def _known(self) -> str:
        self._token = self._token or self._ask(refresh=False)
        return self._token

    def _renewed(self, refused: str) -> str:
        found = self._ask(refresh=False)
        self._token = self._ask(refresh=True) if found == refused else found
        return self._token

    def _ask(self, refresh: bool) -> str:
        whose = f"tenant {self._tenant or 'none'!r}" + (f" and user {self._user!r}" if self._user is not None else "")
        known = {"url": self._url, "tenant": self._tenant, "user": self._user, "refresh": refresh}
        try:
            token = (self._get_token(**known) or "").strip().removeprefix("Bearer ")
        except Exception as error:  # the operator's function may raise anything
            text = f"{type(error).__name__}: {error}"[:_MAX_SHOWN_CHARS]
            raise UsageError(f"the function of ROBOCO_MCP_TOKENS has no token for {whose}: {text}") from error
        if not token or not token.isascii() or not token.isprintable():
            raise UsageError(
                f"the function of ROBOCO_MCP_TOKENS has no token for {whose}: the user must sign in to the server's "
                "provider in the application of the function"
            )
        return token


class ClientTokens(TokenAuth):
    """The tokens of client credentials, which all workers share."""

    def __init__(self, server: McpServer, store: Any, credentials: ClientCredentials) -> None:
        super().__init__(server, store, "")
        self._credentials = credentials
        self._id = required_variable(credentials.client_id)
        self._secret = required_variable(credentials.client_secret)
        key = hashlib.sha256(f"roboco mcp token\0{self._name}\0{self._secret}".encode()).digest()
        self._cipher = Fernet(base64.urlsafe_b64encode(key))

    def _known(self) -> str:
        data = self._store.get(self._name)
        try:
            return "" if data is None else self._cipher.decrypt(data).decode()
        except InvalidToken:
            return ""

    def _renewed(self, refused: str) -> str:
        found = self._known()
        if found and found != refused:
            return found
        token = anyio.run(self._request)
        if (seconds := (token.expires_in or _DEFAULT_LIFETIME) - _EARLY_SECONDS) > 0:
            self._store.put(self._name, self._cipher.encrypt(token.access_token.encode()).decode(), seconds)
        return token.access_token

    async def _request(self) -> OAuthToken:
        received, issuer, scope = _Received(), self._credentials.issuer, self._credentials.scope
        auth = ClientCredentialsOAuthProvider(self._url, received, self._id, self._secret, scope=scope, issuer=issuer)
        hooks = {"response": [clean_body, self._name_scope]}
        text = "check its id, secret and scope"
        try:  # the package finds the issuer's address for tokens with a request that the server refuses
            with anyio.fail_after(_EARLY_SECONDS):
                async with httpx2.AsyncClient(auth=auth, timeout=None, event_hooks=hooks) as client:
                    await client.post(self._url, json={})
        except (OAuthFlowError, TimeoutError, httpx2.HTTPError, httpx2.StreamError, ValidationError) as error:
            text = f"{type(error).__name__}: {error}"[:_MAX_SHOWN_CHARS]
        if received.tokens is None:
            raise UsageError(f"issuer {issuer!r} gives no token for its client: {text}")
        return received.tokens

    async def _name_scope(self, response: httpx2.Response) -> None:
        """Name the declared scope in place of the server's, for which the package would ask."""
        if self._credentials.scope and response.status_code == _UNAUTHORIZED:
            named = response.headers.get("www-authenticate", "").removeprefix("Bearer").strip()
            response.headers["www-authenticate"] = f'Bearer scope="{self._credentials.scope}", {named}'


class _Received:
    """The token that the package has received. Its storage is empty, so that it always gets one."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    get_client_info = get_tokens

    async def set_client_info(self, client_info: Any) -> None:
        pass


def required_variable(variable: str) -> str:
    """Return the value of the worker's variable. Raise UsageError if it has none."""
    value = os.environ.get(variable)
    if not value:
        raise UsageError(f"environment variable {variable!r} is not set on this worker")
    return value
