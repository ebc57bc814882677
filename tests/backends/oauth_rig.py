"""What the tests of logins share: somebody in a browser, and a session that carries the token."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from tests.backends.rig import RESOLVE, call, options, text_of
from tests.support.oauth_house import person

from maitred.backends.base import NOT_ASKED
from maitred.backends.http import HttpBackend
from maitred.backends.oauth.client import LoginTarget
from maitred.backends.oauth.grants import LoginGrant
from maitred.backends.oauth.login import log_in
from maitred.backends.oauth.tokens import OAuthTokens
from maitred.config.settings import Limits
from maitred.model.servers import OAuth

LONG_S = 120.0
NAME = "guarded"
NEEDED = f"run `maitred login {NAME}`"
Whisper = Callable[[], Awaitable[str]]


def choosing(access: LoginTarget, **choices: Any) -> LoginTarget:
    """The same with other choices of the operator."""
    return replace(access, spec=replace(access.spec, auth=OAuth(**choices)))


async def browse(page: str) -> None:
    await anyio.to_thread.run_sync(person, page)


async def logged_in(access: LoginTarget, going: Callable[[str], Awaitable[None]] = browse) -> LoginGrant:
    with anyio.fail_after(LONG_S):
        return await log_in(access, going, timeout_s=LONG_S)


@asynccontextmanager
async def whispering(access: LoginTarget) -> AsyncIterator[Whisper]:
    """Call the one tool over an open session, as a gateway would."""
    tokens = OAuthTokens(access)
    backend = HttpBackend(access.spec, resolve=RESOLVE, limits=Limits(), tokens_of=lambda _: tokens)
    with anyio.fail_after(LONG_S):
        async with backend.connect(options()) as connection:

            async def whisper() -> str:
                asked = call("whisper", text="hello")
                return text_of(await connection.call_tool("whisper", asked, timeout_s=10, caller=NOT_ASKED))

            yield whisper


async def whisper_once(access: LoginTarget) -> str:
    async with whispering(access) as whisper:
        return await whisper()
