"""The kill switch for one principal: what `suspend --principal` and `resume --principal` do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.surfaces.cli.console import gateway_of, out, print_json, run
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.access.suspended_principals import SuspendedPrincipal
    from maitred.gateway.principals import PrincipalSuspension

PrincipalOption = Annotated[
    str, typer.Option(metavar="NAME", help="A principal instead of a server, as the audit trail has it.")
]


def check_choice(command: str, server: str | None, principal: str) -> None:
    """Refuse a command that names neither a server nor a principal, or both.

    Raises:
        ConfigError: It does.
    """
    if bool(server) == bool(principal):
        raise ConfigError(command, ["name a server, or a principal with --principal NAME"])


def suspend_principal(settings: Settings, viewer: Viewer, principal: str, why: str, *, as_json: bool) -> None:
    """Suspend a principal, and say what that did."""

    async def go() -> "PrincipalSuspension":
        async with gateway_of(settings, discovers=False) as gateway:
            return await gateway.suspend_principal(principal, viewer, why=why)

    done = run(go)
    if as_json:
        print_json({"principal": done.principal, "suspended": True, "refused_calls": done.refused_calls})
        return
    refused = f" {count_of(done.refused_calls, 'waiting call')} refused." if done.refused_calls else ""
    text = (
        f"Suspended {principal!r}: its tokens are refused, and what it runs ends, within a second.{refused}"
    )
    out.note(Text(text))


def resume_principal(settings: Settings, viewer: Viewer, principal: str, why: str, *, as_json: bool) -> None:
    """Resume a principal."""

    async def go() -> None:
        async with gateway_of(settings, discovers=False) as gateway:
            await gateway.resume_principal(principal, viewer, why=why)

    run(go)
    if as_json:
        print_json({"principal": principal, "suspended": False})
        return
    out.note(Text(f"Resumed {principal!r}: its tokens count again."))


def list_suspended(settings: Settings, viewer: Viewer) -> "Sequence[SuspendedPrincipal]":
    """Who is suspended."""

    async def go() -> "Sequence[SuspendedPrincipal]":
        async with gateway_of(settings, discovers=False) as gateway:
            return await gateway.suspended_principals(viewer)

    return run(go)
