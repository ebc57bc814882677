"""What a client does with a server: its limits, what it hides, and which parts of the protocol it has.

The values are in `clients.yaml`. A client is known by the name that it gives itself, which is a claim and no
proof: what it is given may depend on it, what it may do never does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

_STRICT: Final[Mapping[str, Any]] = {"extra": "forbid"}
MOST_NAME: Final = 64
"""The longest name of a tool that the APIs of models take."""

ModelFamily = Literal["gpt", "claude", "claude-4.7"]
ClientEra = Literal["handshake", "stateless"]


@dataclass(frozen=True, kw_only=True)
class AnswerCap:
    """The longest text of an answer that a client passes on: tokens of a model family, or characters."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT
    tokens: int = 0
    family: ModelFamily = "gpt"
    characters: int = 0


@dataclass(frozen=True, kw_only=True)
class SizeHint:
    """The key in `_meta` of a tool by which a client takes longer texts, and the most characters of one."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT
    key: str
    most: int


@dataclass(frozen=True, kw_only=True)
class Deferral:
    """Which definitions of tools a client hides from the model until it searches, and what switches it off.

    `entry` are keys of our entry in its file, `tool` keys in `_meta` of our tools, and `person` says what a
    person can do.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT
    defers: Literal["none", "some", "all", "unknown"] = "unknown"
    entry: Mapping[str, Any] = field(default_factory=dict)
    tool: Mapping[str, Any] = field(default_factory=dict)
    person: str = ""


@dataclass(frozen=True, kw_only=True)
class ClientTraits:
    """What is known of a client; a value that is `None` is not known.

    `prefix` comes before the names of our tools, and `most_name` counts both. `instructions` is how many
    characters of them count.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT
    prefix: str = ""
    most_name: int = MOST_NAME
    answers: AnswerCap | None = None
    size_hint: SizeHint | None = None
    instructions: int | None = None
    deferral: Deferral = field(default_factory=Deferral)
    list_changes: bool | None = None
    elicitation: Sequence[Literal["form", "url"]] | None = None
    follows_cursors: bool = True
    eras: Sequence[ClientEra] = ()

    @property
    def most_own_name(self) -> int:
        """The longest name of a tool of ours."""
        return self.most_name - len(self.prefix)


UNKNOWN: Final = ClientTraits()
"""The traits of a client that is not known: it gets what every client takes."""


def read_traits(entry: Mapping[str, Any]) -> ClientTraits:
    """The traits in an entry of `clients.yaml`."""
    makers = {"answers": AnswerCap, "size_hint": SizeHint, "deferral": Deferral}
    return ClientTraits(
        **{key: makers[key](**value) if key in makers else value for key, value in entry.items()}
    )
