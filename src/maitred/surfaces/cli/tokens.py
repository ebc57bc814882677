"""`maitred tokens`: make access tokens for other callers, list them, revoke them."""

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from maitred.errors import ConfigError
from maitred.model.access import Role, Scope
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    make_table,
    out,
    prepare,
    print_json,
    print_table,
    run,
)
from maitred.surfaces.cli.options import category_option, profile_option, server_option
from maitred.surfaces.cli.principals import list_suspended
from maitred.wiring import open_tokens
from maitred.wording import quote_input

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.access.token_store import TokenRecord

_LIFETIME = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

tokens_app = typer.Typer(
    help="Make access tokens, list them, revoke them.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(tokens_app, name="tokens")


@tokens_app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who gets it; the audit trail has what they do under it.")],
    role: Annotated[Role, typer.Option(help="What its bearer may do.")],
    config: ConfigOption = None,
    server: Annotated[list[str] | None, server_option("Only this server and its tools; repeatable.")] = None,
    category: Annotated[
        list[str] | None, category_option("Only tools of this category and below; repeatable.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only tools known to change nothing.")
    ] = False,
    profile: Annotated[str, profile_option("Only tools of this profile of the configuration.")] = "",
    expires: Annotated[str, typer.Option(metavar="TIME", help="After how long it ends: 30d, 12h, 90m.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it, once."""
    from maitred.access.tokens import TokenRequest, token_json  # noqa: PLC0415  # slow to import

    settings, viewer = prepare(config)
    scope = Scope(servers=_limit(server), categories=_limit(category), read_only=read_only)
    scope = replace(scope, profiles=(profile,) if profile else ())
    wanted = TokenRequest(name=name, role=role, scope=scope, lifetime=_lifetime(expires))

    async def go() -> tuple[str, "TokenRecord"]:
        async with open_tokens(settings) as tokens:
            made = await tokens.make(wanted, viewer)
            return made.token, made.record

    token, record = run(go)
    if as_json:
        print_json({"token": token, **token_json(record)})
        return
    typer.echo(token)
    until = f" until {record.expires_at}" if record.expires_at else ""
    out.note(
        Text(
            f"It is for {name!r}{until} and is not shown again; `maitred tokens revoke {record.id}` ends it."
        )
    )


@tokens_app.command("list")
def list_tokens(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List all tokens, the newest first."""
    from maitred.access.tokens import token_json, token_state  # noqa: PLC0415  # slow to import

    settings, viewer = prepare(config)

    async def go() -> list["TokenRecord"]:
        async with open_tokens(settings) as tokens:
            return list(await tokens.listed(viewer))

    found = run(go)
    if as_json:
        print_json({"tokens": [token_json(record) for record in found]})
        return
    if not found:
        out.note("There are no tokens.")
        return
    rows = [
        (
            *(one.id, one.grant.principal, one.grant.role, _scope(one.grant.scope)),
            *(one.made_at, one.expires_at or "never", token_state(one)),
        )
        for one in found
    ]
    print_table(make_table("", ("id", "for", "role", "only", "made", "expires", "state"), rows))


@tokens_app.command("suspended")
def show_suspended(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the principals that are suspended; `maitred resume --principal` ends it."""
    found = list_suspended(*prepare(config))
    if as_json:
        print_json({"suspended": [one.to_json() for one in found]})
        return
    if not found:
        out.note("No principal is suspended.")
        return
    rows = [(one.principal, one.at, one.who, one.why) for one in found]
    print_table(make_table("", ("principal", "since", "by", "why"), rows))


@tokens_app.command()
def revoke(
    which: Annotated[str, typer.Argument(metavar="ID|NAME", help="A token, or all tokens of a name.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token. A running gateway refuses it within a second."""
    settings, viewer = prepare(config)

    async def go() -> list[str]:
        async with open_tokens(settings) as tokens:
            return [one.id for one in await tokens.revoke(which, viewer)]

    revoked = run(go)
    if as_json:
        print_json({"revoked": revoked})
        return
    out.note(Text(f"Revoked {', '.join(revoked)}."))


def _limit(names: Collection[str] | None) -> frozenset[str] | None:
    return frozenset(names) if names else None


def _lifetime(text: str) -> timedelta | None:
    if not text:
        return None
    found = _LIFETIME.fullmatch(text)
    if found is None:
        raise ConfigError("--expires", [f"{quote_input(text)} is no time; write it as 30d, 12h or 90m"])
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _scope(scope: Scope) -> str:
    """The limits of a token in words."""
    said = [*sorted(scope.servers or ()), *(f"category/{one}" for one in sorted(scope.categories or ()))]
    said += [f"profile/{name}" for name in scope.profiles]
    return ", ".join([*said, *(["read-only"] if scope.read_only else [])])
