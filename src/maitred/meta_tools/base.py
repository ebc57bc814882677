"""What a meta-tool is: what clients see of it, which arguments it takes, and how it answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.gateway import NOT_ASKED, Caller, Gateway
from maitred.meta_tools.arguments import check_keys
from maitred.model.access import Viewer
from maitred.model.annotations import annotate
from maitred.model.details import DETAILS
from maitred.model.tools import Tool, ToolCall

Result = dict[str, Any]
"""The result of a `tools/call` request."""

TEXT: Final = {"type": "string"}
INTEGER: Final = {"type": "integer"}
NUMBER: Final = {"type": "number"}
BOOLEAN: Final = {"type": "boolean"}
TEXTS: Final = {"type": "array", "items": TEXT}
DETAIL: Final = {"enum": list(DETAILS)}


@dataclass(frozen=True, kw_only=True)
class MetaToolRequest:
    """One call of a meta-tool: its arguments, viewer and caller, and the call to relay if there is one."""

    arguments: Mapping[str, Any]
    viewer: Viewer
    call: ToolCall
    caller: Caller = NOT_ASKED


@dataclass(frozen=True, kw_only=True)
class MenuText:
    """An answer about the catalog: its text, and the published names of the tools in it, in their order.

    `has_results` is false if a search had no relevant tool.
    """

    text: str
    tools: Sequence[str] = ()
    has_results: bool = True


Handler = Callable[[Gateway, MetaToolRequest], Awaitable[Result | MenuText]]
"""Answers a request whose arguments `MetaTool.check` accepts. A `MaitredError` becomes an error result."""


@dataclass(frozen=True, kw_only=True)
class MetaTool:
    """One meta-tool: its definition for clients, the keys that it accepts, and its handler.

    Its name, description and arguments cost tokens in every conversation.

    Attributes:
        name: Its name in the menu. No category tool has the same.
        description: What it does; all clients get the same bytes.
        answer: Its handler.
        properties: The JSON schemas of its arguments by name.
        required: The arguments that a call must have.
        synonyms: Groups of keys with one meaning, the name of the argument first.
        hidden_keys: Keys that it accepts and its schema does not show.
        any_keys: Whether its handler judges unknown keys; otherwise they are refused.
        reads_only: Whether it changes nothing, whatever its arguments are.
        open_world: Whether it reaches servers.
        with_categories: Whether a list of categories that hides these tools has it, too; none without it.
        main_properties: The arguments that such a list shows; all if empty.
        with_index: Whether its description ends with an index of the catalog.
        action: The word of the audit trail for a call of it; its name if there is none.
    """

    name: str
    description: str
    answer: Handler
    properties: Mapping[str, Any]
    required: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, ...], ...] = ()
    hidden_keys: tuple[str, ...] = ()
    any_keys: bool = False
    reads_only: bool = False
    open_world: bool = False
    with_categories: Callable[[Sequence[Tool]], bool] | None = None
    main_properties: tuple[str, ...] = ()
    with_index: bool = False
    action: str = ""

    def definition(self, index: str = "") -> dict[str, Any]:
        """The definition for `tools/list`; `index` is appended to the description.

        A client that defers tools must keep the meta-tools loaded: it finds all other tools through them.
        """
        required = {"required": list(self.required)} if self.required else {}
        hint = {"readOnlyHint": True} if self.reads_only else {"destructiveHint": True}
        return {
            "name": self.name,
            "description": self.description + (index if self.with_index else ""),
            "inputSchema": {"type": "object", "properties": dict(self.properties), **required},
            "annotations": {**hint, "openWorldHint": self.open_world},
            "_meta": {"anthropic/alwaysLoad": True},
        }

    def definition_with_categories(self) -> dict[str, Any]:
        """The definition for a list of categories, with the main arguments alone."""
        shown = {name: self.properties[name] for name in self.main_properties or self.properties}
        return replace(self, properties=shown).definition()

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that it does not know, and two different values for one argument.

        Raises:
            WrongArgumentError: The text names the argument, and the nearest one that it has.
        """
        if not self.any_keys:
            known = list(self.properties)
            check_keys(self.name, arguments, known, *self.synonyms, hidden=self.hidden_keys)


def text_result(text: str, *, error: bool = False) -> Result:
    """A tool result of one text, annotated by its length."""
    block = {"type": "text", "text": text, "annotations": annotate(len(text))}
    return {"content": [block], "isError": error}
