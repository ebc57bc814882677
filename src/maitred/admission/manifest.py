"""The manifest of a server as a value: its keys, their forms, its normal form and the hash of that.

This is the only declaration: the reader checks files with it, and the published JSON Schema is made from it.
So an editor and `maitred register` refuse the same keys. It says which values have a meaning; the policy and
the layers say which are allowed. An approval binds to the hash of the normal form.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, assert_never

from annotated_types import Ge, Gt, Le, Len
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, TypeAdapter, WithJsonSchema

from maitred.admission.image_names import parse_image
from maitred.config.settings import Limits
from maitred.config.taxonomy import MOST_TAGS, TAGS, check_tags
from maitred.model.servers import Cage, Mount, OAuth, ServerSpec, ShareChoice, StartChoice, Timeouts
from maitred.model.tools import canonical
from maitred.model.transports import (
    TransportKind,
    default_kind,
    manifest_kind,
    manifest_kinds,
    transport_kind,
)
from maitred.wording import one_of

MIB: Final = 2**20
VERSION: Final = 1
"""Raise it when the meaning or the default of a key changes, so that older approvals do not bind to it."""

# Characters that are invisible, or reorder visible ones; newline and tab may occur in a text.
_UNSEEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e01ef"
)
_PART = (
    r"(?:[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]*|\.[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]*|\.\.[^/\x00-\x1f\x7f]+)"
)
SHOWN: Final = rf"^[^{_UNSEEN}]*$"
NAME: Final = r"^[a-z0-9]+(?:[_-][a-z0-9]+)*$"
VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
HEADER: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
PROGRAM: Final = r"^[^\x00-\x1f\x7f;|&<>$`\"'*?(){}]+$"
PATH: Final = rf"^(?:/{_PART})+/?$"
_REST_OF_URL = r"://[^\x00-\x20\x7f\\/?#]+(?:[/?#][^\x00-\x20\x7f\\]*)?$"
ORIGIN: Final = r"^https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[1-9][0-9]{0,4})?$"
SIZE: Final = r"^[0-9]{1,15}(?:\.[0-9]{1,3})?[ ]?(?:[kKmMgG][iI]?[bB]?|[bB])?$"
EXEMPTION: Final = r"^[a-z0-9]+(?:[_-][a-z0-9]+)*$"

FORMS: Final[Mapping[str, tuple[str, str]]] = {
    SHOWN: ("holds a character that does not show", "write it without control and direction characters"),
    NAME: ("is no name for a server", "use a-z and 0-9, words joined by one `-` or `_`"),
    VARIABLE: ("is no name of a variable", "use letters, digits and `_`"),
    HEADER: ("is no name of an HTTP header", "use letters, digits and `-`"),
    PROGRAM: ("is no program", "give the program alone, without a shell; its arguments belong in `args`"),
    PATH: ("is no absolute path", "begin with `/` and leave out `.`, `..` and empty parts"),
    ORIGIN: ("is no origin", "write it like https://example.com, without a path and in lower case"),
    SIZE: ("is no size", "write bytes, or a number with k, m or g such as 512m"),
}
"""Per required form of a text: the fault's name, and how to correct it."""


def _bytes(value: Any) -> Any:
    """A number of bytes from `512m`; units are powers of 1,024 as in Docker."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(SIZE[1:-1], text):
        raise ValueError("; ".join(FORMS[SIZE]))
    digits = text.rstrip(" kKmMgGiIbB")
    unit = text[len(digits) :].strip().lower()[:1]
    return int(float(digits) * {"k": 2**10, "m": 2**20, "g": 2**30}.get(unit, 1))


def fits() -> Mapping[str, tuple[str, ...]]:
    """The keys that do not fit every transport, each with the transports that it fits."""
    kinds = manifest_kinds()
    keys = (one.name for one in fields(Manifest) if any(one.name in kind.keys for kind in kinds))
    return {key: tuple(kind.name for kind in kinds if key in kind.keys) for key in keys}


def _transport(value: str) -> str:
    """The name of a transport that a manifest may ask for."""
    if manifest_kind(value) is None:
        raise ValueError(
            f"must be {one_of([kind.name for kind in manifest_kinds()], repr)}; choose one of them"
        )
    return value


def _url_pattern(schemes: Iterable[str]) -> str:
    """The form of a URL with one of these schemes, in letters of either case."""
    either_case = (
        "".join(f"[{c.upper()}{c}]" if c.isalpha() else re.escape(c) for c in one) for one in schemes
    )
    return f"^(?:{'|'.join(either_case)}){_REST_OF_URL}"


def _schemes() -> Sequence[str]:
    """The schemes that some transport of a manifest has."""
    return list(dict.fromkeys(scheme for kind in manifest_kinds() for scheme in kind.url_schemes))


def _url(value: str) -> str:
    """A URL that some transport takes; whether it is the manifest's, the layer `schema` judges."""
    if not re.fullmatch(_url_pattern(_schemes())[1:-1], value):
        raise ValueError("is no URL; begin with https:// and a host, without blanks or backslashes")
    return value


def _tag(value: str) -> str:
    if faults := check_tags([value]):
        raise ValueError(faults[0])
    return value


_SIZE_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": SIZE}]}
_TEXT_SCHEMA = {"type": ["string", "number", "boolean"], "maxLength": 4096, "pattern": SHOWN}
_ALL_TAGS = [f"{dimension}:{tag}" for dimension, tags in TAGS.items() for tag in tags]

Text = Annotated[str, StringConstraints(max_length=4096, pattern=SHOWN), WithJsonSchema(_TEXT_SCHEMA)]
Words = Annotated[str, StringConstraints(max_length=2000, pattern=SHOWN)]
AbsolutePath = Annotated[str, StringConstraints(max_length=1024, pattern=PATH)]
Size = Annotated[int, BeforeValidator(_bytes), WithJsonSchema(_SIZE_SCHEMA)]
Seconds = Annotated[float, Gt(0), Le(86_400), Field(allow_inf_nan=False)]
Tag = Annotated[str, AfterValidator(_tag), WithJsonSchema({"enum": _ALL_TAGS})]
Variable = Annotated[str, StringConstraints(max_length=128, pattern=VARIABLE)]
Header = Annotated[str, StringConstraints(max_length=128, pattern=HEADER)]


@dataclass(frozen=True, kw_only=True)
class FilesystemGrant:
    """A folder or file of this machine that the server may use; `at` is its path for the server."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    path: AbsolutePath
    mode: Literal["read", "write"] = "read"
    at: AbsolutePath = ""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Time limits of the server in seconds; a missing one is that of the operator's `limits`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    start_s: Seconds | None = None
    list_s: Seconds | None = None
    call_s: Seconds | None = None
    longest_call_s: Seconds | None = None
    idle_stop_s: Seconds | None = None


def _key(text: str, **more: Any) -> Any:
    """The description of a key for the JSON Schema."""
    return Field(description=text, **more)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A server as its author describes it; references such as `${TOKEN}` are not resolved.

    `visibility` and `overrides` stay as written. They mean the same as `servers.<name>.visibility` and as one
    server's part of a file of overrides.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    name: Annotated[
        str, StringConstraints(max_length=40, pattern=NAME), _key("What the server is called here.")
    ]
    transport: Annotated[
        str, AfterValidator(_transport), _key("Taken from `command`, `url` or `image` if it is left out.")
    ]
    title: Annotated[Words, Len(0, 100), _key("What people read as its name.")] = ""
    description: Annotated[Words, _key("What it is for.")] = ""
    command: Annotated[
        str, StringConstraints(max_length=1024, pattern=PROGRAM), _key("The program to start.")
    ] = ""
    args: Annotated[tuple[Text, ...], Len(0, 200), _key("Its arguments.")] = ()
    cwd: Annotated[AbsolutePath, _key("The folder to start it in.")] = ""
    env: Annotated[
        Mapping[Variable, Text], Len(0, 100), _key("Its environment; credentials by reference only.")
    ] = field(default_factory=dict)
    url: Annotated[
        str, StringConstraints(max_length=2048), AfterValidator(_url), _key("Where a running server is.")
    ] = ""
    headers: Annotated[
        Mapping[Header, Text], Len(0, 50), _key("Sent with each request; credentials by reference only.")
    ] = field(default_factory=dict)
    auth: Annotated[Literal["", "oauth"], _key("`oauth` where a person logs in with `maitred login`.")] = ""
    image: Annotated[
        str,
        StringConstraints(max_length=512, pattern=SHOWN),
        _key("The container image, best with its digest."),
    ] = ""
    network: Annotated[
        str,
        StringConstraints(max_length=64, pattern=EXEMPTION),
        _key("`none`, or the name of an exemption that the operator's policy grants."),
    ] = "none"
    memory: Annotated[Size, _key("At most so much memory, such as 512m.")] = 512 * MIB
    cpu: Annotated[
        float, Gt(0), Le(1_000_000), Field(allow_inf_nan=False), _key("At most so many cores, such as 0.5.")
    ] = 1.0
    cpu_shares: Annotated[
        int,
        Ge(0),
        Le(1_000_000),
        _key("Its weight against others when cores are scarce; 1024 is usual."),
    ] = 0
    pids: Annotated[int, Gt(0), Le(10_000_000), _key("At most so many processes and threads.")] = 128
    output: Annotated[Size, _key("At most so many bytes of output a second.")] = 8 * MIB
    filesystem: Annotated[
        tuple[FilesystemGrant, ...], Len(0, 32), _key("What it may use of this machine's files.")
    ] = ()
    timeouts: Annotated[Patience, _key("How long it may take.")] = field(default_factory=Patience)
    start: Annotated[
        StartChoice, _key("`always` keeps it running; otherwise it is started when it is needed.")
    ] = "on_demand"
    share: Annotated[
        ShareChoice,
        _key("Which clients use one process of it; `auto` goes by what is known of it (docs/sharing.md)."),
    ] = "auto"
    category: Annotated[
        str,
        StringConstraints(max_length=64, pattern=SHOWN),
        _key("Where its tools belong, if they do not say."),
    ] = ""
    tags: Annotated[tuple[Tag, ...], Len(0, MOST_TAGS), _key("Tags of its tools, as `dimension:tag`.")] = ()
    visibility: Annotated[Mapping[str, Any], _key("Facts, and rules that tell which tools show when.")] = (
        field(default_factory=dict)
    )
    overrides: Annotated[Mapping[str, Any], _key("Better names and descriptions for its tools.")] = field(
        default_factory=dict
    )
    allowed_origins: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=256, pattern=ORIGIN)], ...],
        Len(0, 50),
        _key("Origins that the links in its results may lead to."),
    ] = ()
    result_tools: Annotated[bool, _key("Whether its results may bring further tools.")] = False

    @property
    def nano_cpus(self) -> int:
        """The hard limit on processor time, in billionths of a core."""
        return round(self.cpu * 1e9)

    @cached_property
    def normal(self) -> Mapping[str, Any]:
        """The one form that all spellings of the same manifest share: a manifest without defaults."""
        values = asdict(self) | {
            "transport": self.transport,
            "timeouts": _without_none(asdict(self.timeouts)),
        }
        values["image"] = _normal_image(self.image)
        grants = [_grant(grant) for grant in self.filesystem]
        values["filesystem"] = sorted(grants, key=canonical)
        values |= {key: sorted(set(values[key])) for key in ("tags", "allowed_origins")}
        values |= {"args": list(self.args), "cwd": self.cwd.rstrip("/")}
        defaults = {declared_field.name: declared_field.default for declared_field in fields(self)}
        own_values = {k: v for k, v in values.items() if v not in ("", [], {}, None) and v != defaults[k]}
        return {"name": self.name, "transport": self.transport, **own_values}

    @cached_property
    def hash(self) -> str:
        """What an approval binds to: the SHA-256 of the normal form, in 64 hexadecimal digits."""
        return hashlib.sha256(canonical({"manifest": VERSION, **self.normal})).hexdigest()


def _without_none(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _grant(grant: FilesystemGrant) -> Mapping[str, Any]:
    path = grant.path.rstrip("/")
    at = (grant.at or path).rstrip("/")
    return (
        {"path": path}
        | ({"mode": "write"} if grant.mode == "write" else {})
        | ({"at": at} if at != path else {})
    )


def _normal_image(image: str) -> str:
    try:
        return str(parse_image(image)) if image else ""
    except ValueError:  # the layer that checks images reports its fault
        return image


ADAPTER: Final = TypeAdapter(Manifest)


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a manifest, for editors and for the authors of servers."""
    schema = ADAPTER.json_schema()
    kinds, fit = manifest_kinds(), fits()
    schema["required"] = ["name"]
    schema["properties"]["transport"]["enum"] = [kind.name for kind in kinds]
    schema["properties"]["url"]["pattern"] = _url_pattern(_schemes())
    for own in schema["properties"].values():
        if own.get("default") == "":
            del own["default"]
        if "patternProperties" in own:
            own["additionalProperties"] = False
    ways = []
    for kind in kinds:
        unfit = {key: False for key, names in fit.items() if kind.name not in names}
        only: dict[str, Any] = {"transport": {"const": kind.name}, **unfit}
        if len(kind.url_schemes) < len(_schemes()) and kind.key == "url":
            only["url"] = {"pattern": _url_pattern(kind.url_schemes)}
        ways.append({"required": [kind.key, *_needed_name(kind)], "properties": only})
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A server for maitred"}
    return {**schema, **head, "oneOf": ways}


def _needed_name(kind: TransportKind) -> Sequence[str]:
    """`transport`, where another kind is meant if a manifest with the same keys leaves it out."""
    urls = [f"{scheme}://" for scheme in kind.url_schemes] or [""]
    is_default = all(default_kind(manifest_kinds(), kind.key, url) == kind for url in urls)
    return () if is_default else ("transport",)


def to_spec(manifest: Manifest, limits: Limits, *, exempted: tuple[str, ...] = ()) -> ServerSpec:
    """The specification of a server for the backends; `exempted` as in `ServerSpec`."""
    own = manifest.timeouts
    return ServerSpec(
        name=manifest.name,
        transport=manifest.transport,
        command=manifest.command,
        args=manifest.args,
        env=dict(manifest.env),
        cwd=manifest.cwd,
        url=manifest.url,
        headers=dict(manifest.headers),
        auth=OAuth() if manifest.auth else None,
        image=manifest.image,
        visibility=manifest.visibility,
        result_tools=manifest.result_tools,
        overrides=manifest.overrides,
        allowed_origins=manifest.allowed_origins,
        registered=True,
        exempted=exempted,
        cage=_cage(manifest),
        start=manifest.start,
        share=manifest.share,
        timeouts=Timeouts(
            start_s=own.start_s or limits.start_timeout_s,
            list_s=own.list_s or limits.list_timeout_s,
            call_s=own.call_s or limits.call_timeout_s,
            longest_call_s=own.longest_call_s or limits.call_timeout_max_s,
            idle_stop_s=own.idle_stop_s or limits.idle_stop_s,
        ),
    )


def _cage(manifest: Manifest) -> Cage | None:
    """What a server's processes may use; `None` where they are on another machine.

    A network that is no exemption never gets this far.
    """
    match transport_kind(manifest.transport).reach:
        case "network" | "internal":
            return None
        case "program" | "image":
            pass
        case unknown:
            assert_never(unknown)
    return Cage(
        memory=manifest.memory,
        nano_cpus=manifest.nano_cpus,
        cpu_shares=manifest.cpu_shares,
        pids=manifest.pids,
        output=manifest.output,
        network=manifest.network != "none",
        mounts=tuple(
            Mount(path=grant.path, at=grant.at or grant.path, writable=grant.mode == "write")
            for grant in manifest.filesystem
        ),
    )
