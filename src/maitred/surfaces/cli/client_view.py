"""`maitred doctor --client`: what a client sees of this gateway, and what it gets.

The lists and texts are made as for the client itself, from the same entry of `clients.yaml`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.text import Text

from maitred.config.clients.connection import ClientState, look_at, own_entry, own_profile
from maitred.config.clients.entries import NAME
from maitred.config.clients.files import UserMachine
from maitred.config.clients.table import KnownClient, find_client
from maitred.config.settings import Settings
from maitred.disclosure.budget import for_model, from_o200k
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.surfaces.cli.console import known_gateway, out, print_json, run, visible
from maitred.surfaces.cli.required_tools import look_for_tools, show_required
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

_DEFERS: Final[Mapping[str, str]] = {
    "none": "hides no tool",
    "some": "may hide tools until its model searches for them",
    "all": "hides every tool until its model searches for it",
    "unknown": "it is not known whether it hides tools",
}
_YES_NO: Final[Mapping[bool | None, str]] = {
    True: "taken",
    False: "ignored: a category answers with the signatures of its tools",
    None: "not known",
}


@dataclass(frozen=True, kw_only=True)
class ClientView:
    """What a client sees and gets.

    `tokens` are those of the definitions in o200k, `family_tokens` in its own family. `names` are the names
    in its list, `shortened` how many of them are shorter than the published ones. Of an answer, it gets
    `answer_tokens` in o200k, and `answer_characters` if it counts these; 0 is no limit of the client's.
    """

    client: KnownClient
    state: ClientState | None
    entry: Mapping[str, Any]
    profile: str
    mode: str
    names: Sequence[str]
    shortened: int
    tokens: int
    family_tokens: int
    instructions: str
    answer_tokens: int
    answer_characters: int
    hint: int
    required: Sequence[Mapping[str, Any]] = ()

    @property
    def faults(self) -> Sequence[str]:
        """What is wrong with its file."""
        if self.state is None:
            return []
        wanted = self.client.traits.deferral.entry
        lacking = [key for key, value in wanted.items() if self.entry.get(key) != value]
        can_be_put = NAME in self.state.own
        again = f"`maitred connect {self.client.id}` puts it there" if can_be_put else "put it there by hand"
        found = [self.state.fault] if self.state.fault else []
        return found + ([f"the entry lacks {_pairs(wanted)}; {again}"] if self.entry and lacking else [])

    def to_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        traits = dataclasses.asdict(self.client.traits)
        return {
            "client": self.client.id,
            "names": sorted(self.client.names),
            "file": str(self.state.path) if self.state else "",
            "connected": bool(self.entry),
            "profile": self.profile,
            "faults": list(self.faults),
            "mode": self.mode,
            "tools": list(self.names),
            "required": list(self.required),
            "shortened": self.shortened,
            "longest_name": max(map(len, self.names), default=0),
            "tokens": self.tokens,
            "family_tokens": self.family_tokens,
            "instructions": self.instructions,
            "answer": {
                "tokens": self.answer_tokens,
                "characters": self.answer_characters,
                "hint_characters": self.hint,
            },
            "traits": traits,
        }


def show_client(
    name: str,
    servers: Sequence[str],
    required: Sequence[str],
    settings: Settings,
    viewer: Viewer,
    *,
    as_json: bool,
) -> None:
    """Print what a client sees and gets; ends with 1 if its file has a fault, or it lacks a required tool.

    Raises:
        ConfigError: The client is not known, or servers are named besides.
    """
    client = find_client(name, "--client")
    if servers:
        raise ConfigError("--client", ["says what a client sees of all servers; leave their names out"])

    async def go() -> ClientView:
        async with known_gateway(settings) as gateway:
            return await _view(gateway, client, required, viewer)

    view = run(go)
    if as_json:
        print_json(view.to_json())
    else:
        _show(view)
    if view.faults or not all(one["ok"] for one in view.required):
        raise typer.Exit(1)


async def _view(
    gateway: "Gateway", client: KnownClient, required: Sequence[str], viewer: Viewer
) -> ClientView:
    from maitred.catalog.token_count import count_tokens  # noqa: PLC0415  # loads a vocabulary
    from maitred.surfaces.mcp.list_pages import whole_list  # noqa: PLC0415  # imports the gateway

    state = _state(client)
    entry = own_entry(state) if state else {}
    own_name, profile = min(client.names, default=""), own_profile(state) if state else ""
    era = client.traits.eras[0] if client.traits.eras else "handshake"
    within = gateway.within_profile(profile, viewer)
    seen_by = replace(within, surface="mcp", client=own_name, era=era, connection="doctor")
    definitions = await whole_list(gateway, seen_by)
    (tokens,) = count_tokens([for_model(definitions)])
    names = [one["name"] for one in definitions]
    limit = gateway.answer_limit(seen_by)
    family = client.traits.answers.family if client.traits.answers else "gpt"
    errors = {one.name: one.error for one in gateway.watched_servers(viewer) if one.error}
    key = client.traits.size_hint.key if client.traits.size_hint and client.names else ""
    return ClientView(
        client=client,
        state=state,
        entry=entry,
        profile=profile,
        mode=gateway.mode(seen_by),
        names=names,
        shortened=sum(gateway.published_name(one, seen_by) != one for one in names),
        tokens=tokens,
        family_tokens=from_o200k(tokens, family),
        instructions=gateway.introduction(seen_by),
        answer_tokens=limit.tokens if limit else gateway.settings.results.max_tokens,
        answer_characters=limit.characters if limit else 0,
        hint=max((one.get("_meta", {}).get(key, 0) for one in definitions), default=0),
        required=await look_for_tools(gateway, required, errors, seen_by),
    )


def _state(client: KnownClient) -> ClientState | None:
    try:
        return look_at(UserMachine.here(), client)
    except ConfigError:  # it has no such file on this platform
        return None


def _show(view: ClientView) -> None:
    out.print(Text.assemble((view.client.title, "bold"), f"  {view.client.id}"))
    for label, text in _rows(view):
        out.print(Text(f"{label:<14}{visible(text)}"))
    for fault in view.faults:
        out.print(Text.assemble(("fault", "red"), f"         {visible(fault)}"))
    show_required(view.required)
    out.print()
    out.print(Text(view.instructions))


def _rows(view: ClientView) -> Sequence[tuple[str, str]]:
    traits = view.client.traits
    family = traits.answers.family if traits.answers and traits.answers.tokens else ""
    own = f", {view.family_tokens:,} of {family}" if family and view.family_tokens != view.tokens else ""
    shows = "" if traits.instructions is None else f"; it shows {traits.instructions:,}"
    return [
        ("known by", ", ".join(sorted(view.client.names)) or "nothing: it gets what every client gets"),
        ("file", _file(view)),
        (
            "tools",
            f"{count_of(len(view.names), 'tool')} ({view.mode}), {view.tokens:,} tokens{own}",
        ),
        ("names", _names(view)),
        ("instructions", f"{count_of(len(view.instructions), 'character')}{shows}"),
        ("answers", _answers(view)),
        ("deferral", _deferral(view)),
        ("list changes", _YES_NO[traits.list_changes]),
        ("elicitation", _elicitation(traits.elicitation)),
        ("protocol", " and ".join(f"{era} era" for era in traits.eras) or "era not known"),
    ]


def _file(view: ClientView) -> str:
    if view.state is None:
        return "none on this platform"
    joined = f"connected as {view.state.own[0]}" if view.entry else "not connected"
    profile = f", with the profile {view.profile}" if view.profile else ""
    return f"{view.state.path}: {joined}{profile}"


def _names(view: ClientView) -> str:
    traits, longest = view.client.traits, max(map(len, view.names), default=0)
    prefix = f", and its prefix {traits.prefix} {len(traits.prefix)}" if traits.prefix else ""
    cut = f"; {count_of(view.shortened, 'name')} shortened" if view.shortened else ""
    return f"the longest has {count_of(longest, 'character')}{prefix}; at most {traits.most_name} in all{cut}"


def _answers(view: ClientView) -> str:
    cap = view.client.traits.answers
    if cap is None:
        return f"cut at {view.answer_tokens:,} tokens (results.max_tokens); no cap of its own is known"
    if not cap.tokens:
        return (
            f"cut at {count_of(view.answer_characters, 'character')};"
            f" its cap is {count_of(cap.characters, 'character')}"
        )
    hint = f"; {count_of(view.hint, 'character')} announced" if view.hint else ""
    return f"cut at {count_of(view.answer_tokens, 'token')}; its cap is {cap.tokens:,} of {cap.family}{hint}"


def _deferral(view: ClientView) -> str:
    deferral = view.client.traits.deferral
    ways = []
    if deferral.entry:
        set_now = (
            "there" if view.entry and not view.faults else "not there yet" if not view.entry else "missing"
        )
        ways.append(f"off by {_pairs(deferral.entry)} in the entry ({set_now})")
    if deferral.tool:
        ways.append(f"{_pairs(deferral.tool)} on the tools")
    if deferral.person:
        ways.append(f"a person can {deferral.person}")
    return "; ".join([_DEFERS[deferral.defers], *ways])


def _elicitation(modes: Sequence[str] | None) -> str:
    if modes is None:
        return "not known"
    return " and ".join(modes) if modes else "none"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {str(value).lower()}" for key, value in values.items())
