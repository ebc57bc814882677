"""What a client gets in the form that it takes: names, answers, instructions and hints within its limits.

The limits are those of `maitred.config.clients`, for the client that a viewer says it is. All other clients
get what every client takes. Nothing here decides what a viewer may do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from maitred.calls.outline import MOST_CHARS_PER_TOKEN
from maitred.calls.results import LEAST_LIMIT_TOKENS, AnswerLimit, Shortener
from maitred.catalog.names import fit_names
from maitred.catalog.snapshot import Snapshot
from maitred.config.clients.table import traits_of
from maitred.config.clients.traits import MOST_NAME, ClientTraits
from maitred.disclosure.budget import to_o200k_budget
from maitred.disclosure.introduction import InstructionForm
from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.tools import Tool

_OWN_SHARE: Final = 0.95
"""The share of a client's limit for the answer; the gateway adds short notes to it."""
_DEFERRING: Final = ("some", "all")


def limit_of_traits(traits: ClientTraits) -> AnswerLimit | None:
    """The longest answer for a client, in o200k tokens; `None` if it has no limit that is known."""
    cap = traits.answers
    if cap is None:
        return None
    characters = int(cap.characters * _OWN_SHARE)
    tokens = int(to_o200k_budget(cap.tokens, cap.family) * _OWN_SHARE) if cap.tokens else characters
    return AnswerLimit(tokens=max(tokens, LEAST_LIMIT_TOKENS), characters=characters)


def answer_limit(viewer: Viewer) -> AnswerLimit | None:
    """The longest answer for the client of a viewer; `None` if it has no limit that is known."""
    return limit_of_traits(traits_of(viewer))


def instruction_form(traits: ClientTraits) -> InstructionForm:
    """The form of the instructions for a client: how much of them counts, and whether it hides the menu."""
    form = InstructionForm(is_deferring=traits.deferral.defers in _DEFERRING)
    return form if traits.instructions is None else replace(form, most=traits.instructions)


@dataclass(frozen=True, kw_only=True)
class _ShownNames:
    """The names of the tools of a snapshot that are longer than a client takes, and what it gets instead."""

    snapshot: Snapshot
    by_published: Mapping[str, str] = field(default_factory=dict)
    by_shown: Mapping[str, str] = field(default_factory=dict)


class ClientShapes:
    """Knows the shapes for viewers; `shortener` is that of all answers."""

    def __init__(self, context: GatewayState, shortener: Shortener) -> None:
        self._context = context
        self._shortener = shortener
        self._names: dict[int, _ShownNames] = {}

    def shown_tool(self, tool: Tool, viewer: Viewer) -> Tool:
        """A tool under the name that the list of a viewer's client has for it.

        For a client that cuts answers it declares no form of its answers: one of such a form could not be
        cut to what the client takes.
        """
        name, cuts = self.shown_name(tool.name, viewer), traits_of(viewer).answers is not None
        if name == tool.name and not (cuts and tool.output_hash):
            return tool
        return replace(tool, name=name, output_hash="" if cuts else tool.output_hash)

    def shown_name(self, name: str, viewer: Viewer) -> str:
        """The name that the list of a viewer's client has for a published one."""
        most = traits_of(viewer).most_own_name
        return name if len(name) <= most else self._names_within(most).by_published.get(name, name)

    def published_name(self, name: str, viewer: Viewer) -> str:
        """The published name of a tool that the client of a viewer calls; the name itself if it has none."""
        if name in self._context.snapshot.by_name:
            return name
        most = traits_of(viewer).most_own_name
        return name if most >= MOST_NAME else self._names_within(most).by_shown.get(name, name)

    def _names_within(self, most: int) -> _ShownNames:
        """The names of the present snapshot for a client that takes so many characters."""
        snapshot, found = self._context.snapshot, self._names.get(most)
        if found is None or found.snapshot is not snapshot:
            shown = fit_names(snapshot.by_name, most)
            by_shown = {short: name for name, short in shown.items()}
            found = _ShownNames(snapshot=snapshot, by_published=shown, by_shown=by_shown)
            self._names[most] = found
        return found

    def answer_limit(self, viewer: Viewer) -> AnswerLimit | None:
        """The longest answer of `call_tool` for the client of a viewer, if it has a limit that is known."""
        limit = answer_limit(viewer)
        if limit is None:
            return None
        return replace(limit, tokens=self._shortener.within(limit).limit_tokens)

    def fit(self, result: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
        """A result of the gateway's own within the limit of a viewer's client."""
        limit = answer_limit(viewer)
        if limit is None:
            return result
        return self._shortener.only_within(limit).shorten(viewer.principal, result)

    def menu(self, definitions: Sequence[dict[str, Any]], viewer: Viewer) -> list[dict[str, Any]]:
        """Definitions of the menu, with a hint how long answers of servers get, for a client that reads it.

        With it, the client takes such an answer whole, whatever its usual limit is.
        """
        hint = traits_of(viewer).size_hint
        if hint is None:
            return [*definitions]
        limit = self._shortener.within(answer_limit(viewer)).limit_tokens
        marks = {hint.key: min(limit * MOST_CHARS_PER_TOKEN, hint.most)}
        return [
            {**one, "_meta": {**one["_meta"], **marks}} if one["annotations"]["openWorldHint"] else one
            for one in definitions
        ]


class ClientShapeMethods:
    """The methods of a gateway by which surfaces give each client what it takes."""

    _access: Authorization
    _shapes: ClientShapes

    def shown_tool(self, tool: Tool, viewer: Viewer) -> Tool:
        """A tool as the list of a viewer's client has it: under a shorter name, if it must be."""
        return self._shapes.shown_tool(tool, viewer)

    def published_name(self, name: str, viewer: Viewer) -> str:
        """The published name of a tool that a viewer's client calls; the name itself if there is none."""
        found = self._shapes.published_name(name, viewer)
        if found == name or found in self._access.portion(viewer).context.snapshot.by_name:
            return found
        return name

    def answer_limit(self, viewer: Viewer) -> AnswerLimit | None:
        """The longest answer for the client of a viewer; `None` if it has no limit that is known."""
        return self._shapes.answer_limit(viewer)

    def fit_answer(self, result: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
        """A result within the limit of the viewer's client; what is cut is stored whole for the principal."""
        return self._shapes.fit(result, viewer)

    def menu_for(self, definitions: Sequence[dict[str, Any]], viewer: Viewer) -> list[dict[str, Any]]:
        """The definitions of the menu as the client of a viewer takes them."""
        return self._shapes.menu(definitions, viewer)
