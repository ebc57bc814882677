"""A held call as lines for a person who decides about it; characters that do not show are escapes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from maitred.surfaces.cli.console import visible

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.model.held_calls import HeldCall


def call_summary(held: "HeldCall") -> Iterator[Text]:
    """All that a person needs for a decision about a call, or what came of it."""
    from maitred.gateway import exact_text  # noqa: PLC0415  # imports the gateway

    bound = held.binding
    yield Text.assemble((held.id, "bold"), f"  {visible(held.name)}", (f"  {held.state}", "dim"))
    client = f", client {visible(held.client)}" if held.client else ""
    chain = f", in chain {held.chain}" if held.chain else ""
    yield Text(f"  from {visible(bound.principal)}{client}{chain}")
    if held.arguments:
        for number, line in enumerate(exact_text(held.arguments).split("\n")):
            yield Text(f"  {'arguments: ' if not number else ''}{visible(line)}")
    yield Text(f"  held by {visible(held.why)}")
    yield from _next(held)
    yield Text()


def _next(held: "HeldCall") -> Iterator[Text]:
    if held.state != "waiting":
        by = f" by {visible(held.decided_by)} at {_clock(held.decided_at)}" if held.decided_by else ""
        state, made = ("approved", ", and made") if held.state == "used" else (held.state, "")
        yield Text(f"  {state}{by}{made}")
        return
    yield Text(f"  refused at {_clock(held.expires_at)} if no person decides")
    more = "".join(f", `--for {one}`" for one in held.choices if one not in ("once", "refuse"))
    approve = f"`maitred calls approve {held.id}`{more}, or " if "once" in held.choices else ""
    yield Text(f"  {approve}`maitred calls refuse {held.id}`")


def _clock(at: str) -> str:
    return f"{at[:19].replace('T', ' ')} UTC"
