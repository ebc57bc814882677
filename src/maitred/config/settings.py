"""The settings, one frozen dataclass a section; `docs/configuration.md` lists every key with its default.

The classes double as the schema of the file: `load` hands them to pydantic, which checks types and ranges.
Defaults live here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MinLen

from maitred.model.access import Role
from maitred.model.categories import Category, MendingChoice, ToolChoice
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolKey

Seconds = Annotated[float, Gt(0)]
Mode = Literal["auto", "menu", "all", "categories"]
Family = Literal["gpt", "claude", "claude-4.7"]
SAVED = "chains"
"""The server whose tools are the saved chains."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long and how much; each time limit can be overridden for one server."""

    start_timeout_s: Seconds = 60.0
    list_timeout_s: Seconds = 30.0
    call_timeout_s: Seconds = 120.0
    idle_stop_s: Seconds = 300.0
    max_starting: Annotated[int, Ge(1)] = 4
    max_message_bytes: Annotated[int, Ge(65_536)] = 64 * 1024 * 1024
    max_tools: Annotated[int, Ge(1)] = 10_000
    max_pages: Annotated[int, Ge(1)] = 1_000


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """What an agent is shown. `auto` and `categories` show all tools that cost less than `break_even_tokens`.

    Budgets are in o200k tokens; `model_family` names models that make more tokens of the same text.
    """

    mode: Mode = "auto"
    model_family: Family = "gpt"
    break_even_tokens: Annotated[int, Ge(0)] = 4_000
    first_list_wait_s: Annotated[float, Ge(0)] = 10.0


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Where the catalog is kept; empty means a file of its own for each configuration file."""

    path: str = ""


@dataclass(frozen=True, kw_only=True)
class Search:
    """How tools are found. A key may be a reference such as `${OPENAI_API_KEY}`."""

    mode: Literal["hybrid", "lexical", "dense"] = "hybrid"
    embedder: Literal["bundled", "minilm", "openai", "none"] = "bundled"
    embedder_model: str = ""
    embedder_url: str = ""
    embedder_key: str = ""
    reranker: Literal["none", "openai", "anthropic"] = "none"
    reranker_model: str = ""
    reranker_url: str = ""
    reranker_key: str = ""
    rerank_timeout_s: Seconds = 0.2


@dataclass(frozen=True, kw_only=True)
class Results:
    """What `call_tool` may answer, in tokens; what is longer is cut, and kept whole for a while.

    `screening` says what becomes of answers in which something speaks to the model as if it were its user;
    with `mask_secrets`, what looks like a credential is replaced.
    """

    max_tokens: Annotated[int, Ge(1_000)] = 20_000
    keep_s: Seconds = 900.0
    keep_bytes: Annotated[int, Ge(0)] = 64 * 1024 * 1024
    screening: Literal["off", "warn", "redact", "block"] = "off"
    mask_secrets: bool = False


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What one chain may take, and in what it runs.

    `processes` is how many may run at once, saved ones besides; `jail` says whether their processes run in
    bubblewrap where that is installed.
    """

    max_calls: Annotated[int, Ge(1)] = 100
    max_in_flight: Annotated[int, Ge(1)] = 8
    cpu_s: Seconds = 10.0
    memory_bytes: Annotated[int, Ge(16_000_000)] = 64_000_000
    processes: Annotated[int, Ge(1)] = 4
    jail: bool = True


@dataclass(frozen=True, kw_only=True)
class CacheSettings:
    """How much memory the answers may take that servers' `cache_s` says to keep."""

    max_bytes: Annotated[int, Ge(0)] = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class MediationSettings:
    """How tools are made better before they are shown.

    What persons wrote holds in any case: `overrides`, a file counted from the configuration file, goes before
    `overrides_url`, whose content has the SHA-256 `overrides_checksum`. `auto_enhance` adds rules and, where
    a provider is chosen, a language model, whose answers are fresh for `cache_ttl` hours. With `proof`, what
    these two say is used only if search gets no worse by it.
    """

    auto_enhance: bool = False
    rules: bool = True
    mode: Literal["hybrid", "lazy", "eager"] = "hybrid"
    llm_provider: Literal["none", "anthropic", "openai", "local"] = "none"
    model: str = ""
    url: str = ""
    api_key: str = ""
    cache_ttl: Annotated[float, Gt(0)] = 168.0
    grouping_threshold: Annotated[int, Ge(1)] = 10
    overrides: str = ""
    overrides_url: str = ""
    overrides_checksum: str = ""
    proof: bool = True


@dataclass(frozen=True, kw_only=True)
class VisibilitySettings:
    """How the rules of servers about when a tool makes sense decide what clients list.

    `mode: all` lists every tool whatever its rule says; calls keep to the rules in either case. Changes
    within `debounce_ms` are told to clients as one.
    """

    mode: Literal["dynamic", "all"] = "dynamic"
    debounce_ms: Annotated[int, Ge(0)] = 100


@dataclass(frozen=True, kw_only=True)
class ExemptionEntry:
    """What `network: NAME` in a manifest may ask for; see `maitred.admission.checks.base.Exemption`."""

    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Who gets in, and what a change of what a server publishes leads to.

    `scan` says what findings in the texts of servers of this file lead to, `scan_registered` the same for
    those that came by a manifest; `pinning` what any change of a server of this file leads to (one that gives
    it more power is always withheld). `folder` is watched for manifests. The rest is what needs nobody's
    approval, as `maitred.admission.checks.base.Policy` has it.
    """

    scan: Literal["off", "warn", "block"] = "warn"
    scan_registered: Literal["off", "warn", "block"] = "block"
    pinning: Literal["warn", "quarantine"] = "warn"
    folder: str = ""
    images: tuple[str, ...] = ()
    trusted_images: tuple[str, ...] = ()
    trusted_digests: tuple[str, ...] = ()
    trusted_commands: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ("/run/secrets",)
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    exemptions: Mapping[str, ExemptionEntry] = field(default_factory=dict)
    max_memory: Annotated[int, Ge(1)] = 2 * 1024**3
    max_cpus: Annotated[float, Gt(0)] = 4.0
    max_cpu_shares: Annotated[int, Ge(1)] = 4095
    max_pids: Annotated[int, Ge(1)] = 512
    max_output: Annotated[int, Ge(1)] = 64 * 1024**2


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """In what servers run that came by a manifest.

    `jail` is for programs: `auto` and `bwrap` start none without bubblewrap, `none` starts them as they are.
    `engine` is the address of Docker or Podman, found by itself if it is empty; `pull` says when images are
    fetched, and `scan` what known faults in an image lead to where Trivy is installed. `disk` is how many
    bytes a server may write into its own temporary files, which are kept in memory.
    """

    jail: Literal["auto", "bwrap", "none"] = "auto"
    engine: str = ""
    pull: Literal["missing", "never", "always"] = "missing"
    scan: Literal["off", "warn", "block"] = "off"
    disk: Annotated[int, Ge(1_048_576)] = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """How servers are kept well; times in seconds.

    A server that runs is asked every `check_every_s` whether it answers; one that fails to do so `failures`
    times in a row, each time within `check_timeout_s`, is started again. One that had to be started again
    `restarts` times within `window_s` is suspended until somebody resumes it; 0 restarts is no limit.
    """

    check_every_s: Annotated[float, Ge(0)] = 30.0
    check_timeout_s: Seconds = 10.0
    failures: Annotated[int, Ge(1)] = 3
    restarts: Annotated[int, Ge(0)] = 5
    window_s: Seconds = 300.0


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The gateway in the background that clients on stdio share; `idle_timeout` in seconds."""

    enabled: bool = True
    idle_timeout: Seconds = 300.0


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What is written down of who did what. Lines older than `keep_days` are dropped; 0 keeps them for ever.

    `arguments` says what is kept of those of calls: a hash, all of them with secrets masked, or nothing.
    """

    enabled: bool = True
    arguments: Literal["hash", "full", "none"] = "hash"
    keep_days: Annotated[int, Ge(0)] = 90


@dataclass(frozen=True, kw_only=True)
class UseCases:
    """The language model that writes use cases of tools when it is asked to; see `maitred categories`."""

    provider: Literal["none", "openai", "anthropic"] = "none"
    model: str = ""
    url: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class CategoryEntry:
    """A category as it stands in the file; what is empty stays as it is in the ten that are there."""

    title: str = ""
    description: str = ""
    parent: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ToolEntry:
    """What a person chose for a tool; it goes before everything that is worked out."""

    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    pinned: bool = False
    cache_s: Annotated[float, Ge(0)] | None = None
    mending: MendingChoice = ""


@dataclass(frozen=True, kw_only=True)
class SavedEntry:
    """A saved chain: its file, counted from the configuration's folder, and its hash when it was reviewed."""

    file: Annotated[str, MinLen(1)]
    hash: str = ""


@dataclass(frozen=True, kw_only=True)
class RateLimitSettings:
    """How much each principal may call; 0 is no limit, and a `burst` of 0 the calls of ten seconds."""

    calls_per_minute: Annotated[float, Ge(0)] = 0.0
    burst: Annotated[int, Ge(0)] = 0
    calls_at_once: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True, kw_only=True)
class Jwt:
    """The authorization server whose access tokens are taken, and what their claims mean here.

    See `maitred.access.jwt.JwtPolicy` and `ClaimMapping`.
    """

    issuer: Annotated[str, MinLen(1)]
    audience: Annotated[tuple[Annotated[str, MinLen(1)], ...], MinLen(1)]
    jwks_url: Annotated[str, MinLen(1)]
    role_claim: str = "roles"
    roles: Mapping[str, Role] = field(default_factory=dict)
    default_role: Role | None = None
    servers_claim: str = ""
    categories_claim: str = ""
    read_only_scope: str = ""


@dataclass(frozen=True, kw_only=True)
class Http:
    """How `serve --transport http` listens. Any address but loopback needs a token, or tokens of `jwt`.

    `anonymous` is what somebody without a token may do on loopback while there is no `token`.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Ge(0), Le(65_535)] = 8420
    token: str = ""
    anonymous: Literal["none", "viewer", "agent", "operator", "admin"] = "operator"
    jwt: Jwt | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything the operator may choose; `source` is the file it came from."""

    source: Path
    servers: Mapping[str, ServerSpec] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    disclosure: Disclosure = field(default_factory=Disclosure)
    catalog: Catalog = field(default_factory=Catalog)
    search: Search = field(default_factory=Search)
    results: Results = field(default_factory=Results)
    chain: Chain = field(default_factory=Chain)
    cache: CacheSettings = field(default_factory=CacheSettings)
    use_cases: UseCases = field(default_factory=UseCases)
    mediation: MediationSettings = field(default_factory=MediationSettings)
    visibility: VisibilitySettings = field(default_factory=VisibilitySettings)
    admission: Admission = field(default_factory=Admission)
    audit: Audit = field(default_factory=Audit)
    isolation: Isolation = field(default_factory=Isolation)
    supervision: Supervision = field(default_factory=Supervision)
    daemon: Daemon = field(default_factory=Daemon)
    categories: Mapping[str, Category] = field(default_factory=dict)
    tools: Mapping[ToolKey, ToolChoice] = field(default_factory=dict)
    chains: Mapping[str, SavedEntry] = field(default_factory=dict)
    access: RateLimitSettings = field(default_factory=RateLimitSettings)
    http: Http = field(default_factory=Http)
