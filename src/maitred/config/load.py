"""Read a configuration file: `maitred.yaml`, or the `mcpServers` JSON of MCP clients.

It collects all faults of a file before it raises an error, each with its line. A `maitred.yaml` may have only
known keys. In a client's JSON it ignores that client's keys, since the file is not ours. Values stay text as
in the file, so that `1.10` reaches a server unchanged; pydantic makes the numbers.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, get_args

from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from maitred.config.access_section import access_conflicts, access_faults
from maitred.config.document import ConfigDocument, Keys, read_document, read_text
from maitred.config.hold_rules import hold_faults
from maitred.config.kubernetes_settings import KubernetesSettings, McpServerWatch, kubernetes_faults
from maitred.config.monitoring import MONITORING_FAULTS, MONITORING_PARTS
from maitred.config.paths import state_folder
from maitred.config.profile_entries import profile_faults, to_profile
from maitred.config.replica_settings import ReplicaSettings, replica_faults
from maitred.config.result_rules import result_faults
from maitred.config.sections import (
    AuthEntry,
    auth_faults,
    auth_of_client,
    browser_faults,
    catalog_faults,
    http_faults,
    mediation_faults,
    page_faults,
    registry_faults,
    saved_spec,
    secret_faults,
    shared_faults,
    upgrade_faults,
    webhook_faults,
    with_forwarding,
)
from maitred.config.settings import (
    SAVED,
    AccessSettings,
    Catalog,
    CategoryEntry,
    ExemptionEntry,
    GroupEntry,
    HeldCallSettings,
    HoldRule,
    Http,
    Jwt,
    Limits,
    MediationSettings,
    ProfileEntry,
    RegistrySettings,
    ResultDrop,
    ResultRule,
    Results,
    SavedEntry,
    Seconds,
    SecretSettings,
    Settings,
    SharedSettings,
    SignIn,
    TeamEntry,
    ToolEntry,
    UpgradeSettings,
)
from maitred.config.taxonomy import check_categories, check_tags, merge_categories
from maitred.errors import ConfigError
from maitred.model.browsers import BrowserOptions
from maitred.model.categories import ANY_TOOL, Category, ToolChoice
from maitred.model.pages import PageOptions
from maitred.model.profiles import Profile
from maitred.model.servers import EraChoice, ServerSpec, ShareChoice, StartChoice, Timeouts, default_share_max
from maitred.model.tools import ToolKey, content_hash
from maitred.model.transports import (
    TRANSPORTS,
    TransportKind,
    UnknownTransportError,
    default_kind,
    keys_that_do_not_fit,
    named_kind,
)
from maitred.wording import as_code, did_you_mean, one_of

_STRICT: Mapping[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """One server in `maitred.yaml`; either `command` or `url` is required, but for `browser` and `pages`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]]

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: Any = None
    browser: Any = None
    pages: Any = None
    transport: str = ""
    type: str = ""
    era: EraChoice = "auto"
    enabled: bool = True
    disabled: bool = False
    start: StartChoice | None = None
    share: ShareChoice = "auto"
    share_max: Annotated[int, Ge(1)] | None = None
    start_timeout_s: Seconds | None = None
    list_timeout_s: Seconds | None = None
    call_timeout_s: Seconds | None = None
    call_timeout_max_s: Seconds | None = None
    idle_stop_s: Seconds | None = None
    cache_s: Annotated[float, Ge(0)] = 0.0
    result_tools: bool = False
    visibility: Mapping[str, Any] = field(default_factory=dict)


_SECTIONS: Mapping[str, Any] = {
    f.name: f.default_factory for f in fields(Settings) if is_dataclass(f.default_factory)
}
_PARTS = (
    BrowserOptions, PageOptions, CategoryEntry, ToolEntry, ProfileEntry, SavedEntry, ExemptionEntry,
    *MONITORING_PARTS, HoldRule, McpServerWatch, Jwt, GroupEntry, SignIn, TeamEntry, ResultDrop, ResultRule,
)  # fmt: skip
_KINDS = (ServerEntry, *_PARTS, *_SECTIONS.values())
_INSIDE: Final = ("browser", "pages")
for _kind in _KINDS:
    _kind.__pydantic_config__ = _STRICT
_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)
"""What checks the values of a kind, made when a file first needs it: that takes milliseconds."""
_WHERE: Final = frozenset({"command", "url"})
_COMMAND_OR_URL: Final = (
    "needs either `command` (a program to start) or `url` (a server to reach), and not both"
)
_SECTION_FAULTS: Final[Mapping[type[Any], Sequence[Callable[[Any], Iterable[tuple[Any, str]]]]]] = {
    AccessSettings: (access_faults,),
    Catalog: (catalog_faults,),
    SharedSettings: (shared_faults,),
    MediationSettings: (mediation_faults,),
    Http: (http_faults,),
    UpgradeSettings: (upgrade_faults,),
    HeldCallSettings: (hold_faults, webhook_faults),
    KubernetesSettings: (kubernetes_faults,),
    RegistrySettings: (registry_faults,),
    ReplicaSettings: (replica_faults,),
    SecretSettings: (secret_faults,),
    **MONITORING_FAULTS,
}
"""What finds the faults of a section as a whole: pairs of a key, or of keys, below it and a text."""
_ALL_COMMANDS: Final[Mapping[Any, Sequence[str]]] = {True: ["*"], False: [], "true": ["*"], "false": []}
"""The short forms of `secrets.commands`, of which JSON has other ones than YAML."""
_MAPPINGS = ("servers", "categories", "tools", "chains", "profiles")
_PLAIN: Mapping[str, str] = {
    "string": "must be text",
    "tuple": "must be a list",
    "dict": "must be a mapping of names to values",
    "dataclass": "must be a mapping of keys to values",
    "float": "must be a number",
    "int": "must be a whole number",
    "bool": "must be true or false",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le:,g}",
}


def catalog_path(settings: Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the catalog's file: as configured, or else a file for each configuration in the state folder.

    With `catalog.url` no file has this path, but the key, claims and other own files are beside it.
    """
    if settings.catalog.path:
        return settings.source.parent / Path(settings.catalog.path).expanduser()
    return state_file(settings.source, ".db", environ)


def state_file(source: Path, suffix: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of our own file for one configuration file, in the user's state folder."""
    source = source.absolute()
    name = "-".join(part for part in source.with_suffix("").parts[-2:] if part != os.sep)
    digest = content_hash(os.fsencode(source))[:8]
    return state_folder(environ) / f"{name}-{digest}{suffix}"


def load(path: Path) -> Settings:
    """Read and check a configuration file.

    Raises:
        ConfigError: The file is missing, is not YAML or JSON, or has faults; the error lists all of them.
    """
    return parse(path, read_text(path))


def parse(path: Path, text: str) -> Settings:
    """Check the text of a configuration file; `path` is for messages and separates JSON from YAML."""
    document = read_document(path, text)
    check = _SettingsReader(document)
    entries = dict(check.servers())
    categories = {} if document.is_foreign else dict(check.categories())
    choices = {} if document.is_foreign else dict(check.choices())
    raw_servers = document.tree.get(document.servers_key)
    chains = {} if document.is_foreign else dict(check.chains(entries))
    servers = raw_servers if isinstance(raw_servers, dict) else {}
    check.places(categories, choices, {**servers, SAVED: None} if chains else servers)
    profiles = {} if document.is_foreign else dict(check.profiles(categories))
    sections = {name: check.section(name) for name in _SECTIONS}
    check.fit(sections, profiles)
    check.strangers()
    if check.faults:
        raise ConfigError(str(path), [f"line {line}: {fault}" for line, fault in sorted(check.faults)])
    specs = {name: to_spec(name, entry, sections["limits"]) for name, entry in entries.items()}
    specs = with_forwarding(specs, sections["http"])
    if chains:
        specs[SAVED] = saved_spec(path, chains, Timeouts(call_s=sections["limits"].call_timeout_s))
    return Settings(
        source=path,
        servers=specs,
        categories=categories,
        tools=choices,
        chains=chains,
        profiles=profiles,
        **sections,
    )


class _SettingsReader:
    """Checks the values of a document, section by section, and collects every fault with its line."""

    def __init__(self, document: ConfigDocument) -> None:
        self._document = document
        self.faults = list(document.faults)

    def _entries(self, keys: Keys, raw: Any, what: str) -> Iterable[tuple[str, Any]]:
        """Return the entries of a mapping, which may be missing."""
        if isinstance(raw, dict | None):
            return (raw or {}).items()
        self._add(keys, f"must be a mapping of {what}")
        return ()

    def categories(self) -> Iterator[tuple[str, Category]]:
        key = "categories"
        for name, raw in self._entries([key], self._document.tree.get(key), "names to categories"):
            entry = self.value(CategoryEntry, [key, name], raw)
            if entry is not None:
                yield name, Category(name=name, **vars(entry))

    def choices(self) -> Iterator[tuple[ToolKey, ToolChoice]]:
        key = "tools"
        for server, tools in self._entries([key], self._document.tree.get(key), "servers to tools"):
            for name, raw in self._entries([key, server], tools, "tools to what is chosen for them"):
                entry = self.value(ToolEntry, [key, server, name], raw)
                if entry is not None:
                    yield ToolKey(server=server, name=name), ToolChoice(**vars(entry))

    def chains(self, servers: Mapping[str, Any]) -> Iterator[tuple[str, SavedEntry]]:
        entries = self._entries([SAVED], self._document.tree.get(SAVED), "names to saved chains")
        for name, raw in entries:
            entry = self.value(SavedEntry, [SAVED, name], raw)
            if entry is not None:
                yield name, entry
        if entries and SAVED in servers:
            self._add(["servers", SAVED], "is the server of the saved chains; give this one another name")

    def profiles(self, own: Mapping[str, Category]) -> Iterator[tuple[str, Profile]]:
        key, categories = "profiles", merge_categories(own)
        for name, raw in self._entries([key], self._document.tree.get(key), "names to profiles"):
            entry = self.value(ProfileEntry, [key, name], raw)
            if entry is not None:
                for keys, fault in profile_faults(name, entry, categories):
                    self._add([key, name, *keys], fault)
                yield name, to_profile(entry)

    def places(
        self,
        own: Mapping[str, Category],
        choices: Mapping[ToolKey, ToolChoice],
        servers: Mapping[str, Any],
    ) -> None:
        """Check the tree of categories, and that choices name existing servers, categories and tags."""
        all_categories = merge_categories(own)
        faults = check_categories(all_categories)
        for name in own:
            for prefix in (f"{name}: ", f"{name!r}: "):
                for fault in [fault for fault in faults if fault.startswith(prefix)]:
                    self._add(["categories", name], fault.removeprefix(prefix))
        raw_categories = self._document.tree.get("categories")
        names = [
            *(category.name for category in all_categories),
            *(raw_categories if isinstance(raw_categories, dict) else ()),
        ]
        for key, choice in choices.items():
            at = ["tools", key.server, key.name]
            if key.server not in servers:
                hint = did_you_mean(key.server, servers, lead="; ")
                self._add(at[:2], f"there is no server of this name{hint}")
            if key.name == ANY_TOOL and not choice.enabled:
                hint = f"name each tool, or switch off the server by `servers.{key.server}.enabled: false`"
                self._add([*at, "enabled"], f"cannot be for all tools; {hint}")
            if choice.category and choice.category not in names:
                hint = did_you_mean(choice.category, names, otherwise=f"there are {', '.join(names)}")
                self._add([*at, "category"], f"{choice.category!r} is no category; {hint}")
            for fault in check_tags(choice.tags):
                self._add([*at, "tags"], fault)

    def servers(self) -> Iterator[tuple[str, ServerEntry]]:
        key = self._document.servers_key
        is_foreign = self._document.is_foreign
        for name, raw in self._entries([key], self._document.tree.get(key), "server names to servers"):
            item = _from_client(raw) if is_foreign else raw
            entry = self.value(ServerEntry, [key, name], {} if item is None else item)
            readable = entry or _readable_keys(item)
            needs_place = entry is not None and _kind_of(entry) is not None and not _is_inside(entry)
            if entry is not None and needs_place and not (entry.command or entry.url):
                self._add([key, name], _COMMAND_OR_URL)
            for at, fault in _entry_faults(name, readable):
                self._add([key, name, *at], fault)
            for at, fault in () if is_foreign else _key_faults(readable):
                self._add([key, name, *at], fault)
            auth = self._auth([key, name, "auth"], readable)
            browser = self._browser([key, name, "browser"], readable)
            pages = self._pages([key, name], readable)
            if entry is not None:
                yield name, replace(entry, auth=auth, browser=browser, pages=pages)

    def _browser(self, keys: Keys, entry: ServerEntry) -> BrowserOptions | None:
        """Return what is decided about a server that drives a browser; `None` for any other server."""
        if not _is_inside(entry, "browser"):
            return None
        options: BrowserOptions | None = self.value(BrowserOptions, keys, entry.browser)
        for key, fault in () if options is None else browser_faults(options):
            self._add([*keys, key], fault)
        return options

    def _pages(self, keys: Keys, entry: ServerEntry) -> PageOptions | None:
        """Return which web pages may offer tools to a server; `None` for any other server."""
        if not _is_inside(entry, "pages"):
            return None
        if entry.share not in ("auto", "all"):
            self._add([*keys, "share"], "does not fit the transport pages: all clients see the same pages")
        raw = entry.pages
        if isinstance(raw, dict) and isinstance(raw.get("dial_in"), bool):  # of JSON, which would be 0 or 1
            raw = {**raw, "dial_in": None}
            self._add([*keys, "pages", "dial_in"], "must be a whole number")
        options: PageOptions | None = self.value(PageOptions, [*keys, "pages"], raw)
        for key, fault in () if options is None else page_faults(options):
            self._add([*keys, "pages", key], fault)
        return options

    def _auth(self, keys: Keys, entry: ServerEntry) -> AuthEntry | None:
        """Return the checked login of a server; `auth: oauth` is the short form without choices."""
        if entry.auth is None:
            return None
        if isinstance(entry.auth, str) and entry.auth != "oauth":
            self._add(
                keys, "must be `oauth`, or a mapping of its keys; other credentials belong in `headers`"
            )
            return None
        auth: AuthEntry | None = self.value(AuthEntry, keys, {} if entry.auth == "oauth" else entry.auth)
        if auth is not None:
            for key, fault in auth_faults(auth, kind=_kind_of(entry), entry=entry):
                self._add([*keys, key] if key else keys, fault)
        return auth

    def value(self, kind: type[Any], keys: Keys, raw: Any) -> Any:
        """Return the checked value; a section or a key without value counts as missing."""
        values = {k: v for k, v in raw.items() if v is not None} if isinstance(raw, dict) else raw
        try:
            return _adapter(kind).validate_python({} if values is None else values)
        except ValidationError as error:
            for keys_below, fault in _explain(error, kind):
                self._add([*keys, *keys_below], fault)
            return None

    def section(self, name: str) -> Any:
        """Return the checked section of this name, with its short forms written out."""
        raw = self._document.tree.get(name)
        if name == "visibility" and isinstance(raw, str):
            raw = {"mode": raw}
        if name == "secrets" and isinstance(raw, dict) and isinstance(raw.get("commands"), str | bool):
            commands = raw["commands"]
            raw = {**raw, "commands": _ALL_COMMANDS.get(commands, commands)}
        section = self.value(_SECTIONS[name], [name], raw)
        if isinstance(section, Results):
            for keys, fault in result_faults(section, self._server_names()):
                self._add([name, *keys], fault)
        for find_faults in _SECTION_FAULTS.get(type(section), ()):
            for key, fault in find_faults(section):
                self._add([name, *([key] if isinstance(key, str) else key)], fault)
        return section

    def fit(self, sections: Mapping[str, Any], profiles: Mapping[str, Profile]) -> None:
        if sections["access"] is not None and sections["http"] is not None:
            for keys, fault in access_conflicts(sections["access"], sections["http"], profiles):
                self._add(keys, fault)

    def _server_names(self) -> Iterable[str]:
        """Return the names of the servers, as far as they can be read."""
        raw = self._document.tree.get(self._document.servers_key)
        return raw if isinstance(raw, dict) else ()

    def strangers(self) -> None:
        tree, key = self._document.tree, self._document.servers_key
        if self._document.is_foreign:
            if key == "mcpServers" and "servers" in tree:
                self._add(["servers"], "is not allowed beside `mcpServers`; keep one of the two")
            return
        for stranger in tree.keys() - {*_MAPPINGS, *_SECTIONS}:
            self._add([stranger], _unknown_key(stranger, [*_MAPPINGS, *_SECTIONS]))

    def _add(self, keys: Keys, message: str) -> None:
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)[1:]
        self.faults.append((self._document.line(keys), f"{where}: {message}"))


def _from_client(raw: Any) -> Any:
    """Return the keys of a client's server that mean something here; null counts as missing."""
    if not isinstance(raw, dict):
        return raw
    entry = {key: value for key, value in raw.items() if key in ServerEntry.__dataclass_fields__}
    if url := raw.get("serverUrl") or raw.get("httpUrl"):
        entry["url"] = url
    if "auth" in entry:
        entry["auth"] = auth_of_client(entry["auth"])
    for key in ("env", "headers"):
        if isinstance(values := entry.get(key), dict):
            entry[key] = {k: v for k, v in values.items() if v is not None}
    return entry


def _explain(error: ValidationError, kind: type[Any]) -> Iterator[tuple[Keys, str]]:
    for fault in error.errors(include_url=False, include_input=False):
        if fault["type"] == "unexpected_keyword_argument":
            message = _unknown_key(
                str(fault["loc"][-1]), _kind_within(kind, fault["loc"]).__dataclass_fields__
            )
        else:
            plain = _PLAIN.get(fault["type"].removesuffix("_type").removesuffix("_parsing"))
            message = plain.format_map(fault.get("ctx", {})) if plain else fault["msg"]
        yield fault["loc"], message


def _kind_within(kind: type[Any], keys: Keys) -> type[Any]:
    """Return the class of the mapping that has the last of these keys."""
    for key in keys[:-1]:
        field_of = kind.__dataclass_fields__.get(key)
        kind = (_dataclass_in(field_of.type) if field_of else None) or kind
    return kind


def _dataclass_in(hint: Any) -> type[Any] | None:
    """Return the dataclass in a type such as `tuple[ResultRule, ...]`, if there is one."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next((found for part in get_args(hint) if (found := _dataclass_in(part))), None)


def _unknown_key(key: str, known_keys: Iterable[str]) -> str:
    hint = did_you_mean(
        key, known_keys, quoted=as_code, otherwise="`maitred docs configuration` lists them all"
    )
    return f"is not a known key; {hint}"


def entry_faults(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return the faults of one server that is not in a file yet; empty if there are none."""
    check = _SettingsReader(ConfigDocument(tree={"servers": {name: entry}}, root=None))
    list(check.servers())
    return [fault for _, fault in check.faults]


def _readable_keys(raw: Any) -> ServerEntry:
    """A server that has faults, without its faulty keys, so that its other keys can be checked too.

    If a key that says where the server is has a fault, the other such key is left out with it, and `auth`:
    nothing could be said of how they go together.
    """
    given = {k: v for k, v in raw.items() if v is not None} if isinstance(raw, dict) else {}
    try:
        _adapter(ServerEntry).validate_python(given)
    except ValidationError as error:
        faulty = {fault["loc"][0] for fault in error.errors(include_url=False)}
        faulty |= _WHERE if faulty & _WHERE else set()
        given = {key: value for key, value in given.items() if key not in faulty}
    if not _WHERE & given.keys():
        given.pop("auth", None)
    entry: ServerEntry = _adapter(ServerEntry).validate_python(given)
    return entry


def _entry_faults(name: str, entry: ServerEntry) -> Iterator[tuple[Keys, str]]:
    """What is wrong with a server, as far as it is known where it is."""
    if not name.strip():
        yield [], "a server needs a name"
    if entry.command and entry.url:
        yield [], _COMMAND_OR_URL
    yield from _transport_faults(entry)
    for variable in entry.env:
        if not variable or "=" in variable:
            yield ["env", variable], "is not a name that an environment variable can have"


def _key_faults(entry: ServerEntry) -> Iterator[tuple[Keys, str]]:
    """The keys that are for servers of other transports; `auth` has its own faults."""
    kind = _kind_of(entry)
    is_clear = _is_inside(entry) or bool(entry.command) != bool(entry.url)
    if kind is None or not is_clear or not (_is_inside(entry) or getattr(entry, kind.key)):
        return  # the fault of its transport, or of where it is, says which keys are wrong
    for key, fitting in keys_that_do_not_fit(entry, kind.name, server_kinds()):
        if key != "auth":
            yield [key], f"does not fit the transport {kind.name}; it is for {one_of(fitting)}: leave it out"
    if kind.keeps and entry.start == "on_demand":
        yield ["start"], f"is always `always` for the transport {kind.name}: leave it out"


def _transport_faults(entry: ServerEntry) -> Iterator[tuple[Keys, str]]:
    """What is wrong with the transport of a server, and with its URL by that transport."""
    name, kinds = entry.transport or entry.type, server_kinds()
    at = ["transport" if entry.transport else "type"]
    by_key = {key: [kind.name for kind in kinds if kind.key == key] for key in ("command", "url")}
    kind = _kind_of(entry)
    if kind is None:
        yield at, f"{name!r} is not a transport; use {one_of([kind.name for kind in kinds])}"
    elif (
        name
        and not _is_inside(entry)
        and bool(entry.command) != bool(entry.url)
        and not getattr(entry, kind.key)
    ):
        command, url = one_of(by_key["command"]), one_of(by_key["url"])
        yield at, f"{name} does not fit; a server with `command` is {command}, one with `url` is {url}"
    fitting = [kind] if kind and name and kind.key == "url" else [one for one in kinds if one.key == "url"]
    if entry.url and kind and not any(one.takes(entry.url) for one in fitting):
        schemes = dict.fromkeys(f"{scheme}://" for one in fitting for scheme in one.url_schemes)
        yield ["url"], f"must start with {one_of(list(schemes))}"


def server_kinds() -> Sequence[TransportKind]:
    """The transports that a server of a configuration file may have: those whose key is a key of it."""
    return [kind for kind in TRANSPORTS.values() if kind.key in ServerEntry.__dataclass_fields__]


def _kind_of(entry: ServerEntry) -> TransportKind | None:
    """The transport of a server, by its name or alias, else by the key that says where it is."""
    name, kinds = entry.transport or entry.type, server_kinds()
    if name:
        return named_kind(kinds, name)
    for key in _INSIDE:
        if getattr(entry, key) is not None and not (entry.command or entry.url):
            return default_kind(kinds, key)
    return default_kind(kinds, "url" if entry.url else "command", entry.url)


def _is_inside(entry: ServerEntry, *keys: str) -> bool:
    """Whether a server is one of the gateway's own, so that it needs no key that says where it is."""
    kind = _kind_of(entry)
    return kind is not None and kind.key in (keys or _INSIDE)


def to_spec(name: str, entry: ServerEntry, limits: Limits) -> ServerSpec:
    """Turn a checked entry into a specification, its missing time limits taken from `limits`.

    Raises:
        UnknownTransportError: Its transport is not in the table.
    """
    kind = _kind_of(entry)
    if kind is None:
        raise UnknownTransportError(entry.transport or entry.type)
    timeouts = Timeouts(
        start_s=entry.start_timeout_s or limits.start_timeout_s,
        list_s=entry.list_timeout_s or limits.list_timeout_s,
        call_s=entry.call_timeout_s or limits.call_timeout_s,
        longest_call_s=entry.call_timeout_max_s or limits.call_timeout_max_s,
        idle_stop_s=entry.idle_stop_s or limits.idle_stop_s,
    )
    auth = entry.auth.to_model() if entry.auth else None
    return ServerSpec(
        name=name, transport=kind.name, command=entry.command, args=entry.args, env=dict(entry.env),
        cwd=entry.cwd, url=entry.url, headers=dict(entry.headers), auth=auth, browser=entry.browser,
        pages=entry.pages, era=entry.era, enabled=entry.enabled and not entry.disabled,
        start=entry.start or ("always" if kind.keeps else "on_demand"), share=entry.share,
        share_max=entry.share_max or default_share_max(auth), cache_s=entry.cache_s,
        result_tools=entry.result_tools, visibility=entry.visibility, timeouts=timeouts,
    )  # fmt: skip


def with_http(settings: Settings, **changes: Any) -> Settings:
    """Return the settings with changes in the `http` section; `None` means unchanged."""
    set_values = {key: value for key, value in changes.items() if value is not None}
    return replace(settings, http=replace(settings.http, **set_values))
