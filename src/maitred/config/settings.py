"""The settings, one frozen dataclass a section; `docs/configuration.md` lists every key with its default.

The classes are also the schema of the file: `load` gives them to pydantic, which checks types and ranges.
Defaults are only here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from maitred.config.kubernetes_settings import KubernetesSettings
from maitred.config.monitoring_settings import Telemetry, UsageSettings
from maitred.config.replica_settings import ReplicaSettings
from maitred.model.access import Role
from maitred.model.categories import Category, GroupPolicy, MendingChoice, ToolChoice
from maitred.model.profiles import Profile
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolKey
from maitred.model.usage import Score

Seconds = Annotated[float, Gt(0), Le(31_536_000)]
Mode = Literal["auto", "menu", "all", "categories"]
Family = Literal["gpt", "claude", "claude-4.7"]
SAVED = "chains"
"""The server whose tools are the saved chains."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of time and size; one server can have other time limits."""

    start_timeout_s: Seconds = 60.0
    list_timeout_s: Seconds = 30.0
    call_timeout_s: Seconds = 120.0
    call_timeout_max_s: Seconds = 3_600.0
    idle_stop_s: Seconds = 300.0
    parked_call_s: Seconds = 300.0
    max_starting: Annotated[int, Ge(1)] = 4
    max_message_bytes: Annotated[int, Ge(65_536)] = 64 * 1024 * 1024
    max_tools: Annotated[int, Ge(1)] = 10_000
    max_pages: Annotated[int, Ge(1)] = 1_000


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """What an agent sees. `auto` and `categories` show all tools that cost less than `break_even_tokens`.

    Budgets are in o200k tokens; `model_family` names models that need more tokens for the same text. With
    `real_examples`, the details of a tool show the arguments of one real call, with masked secrets, to every
    caller who may see the tool. `score` is the formula by which use makes a tool hot. `groups` says which
    tools get into the groups that rules or a language model propose.
    """

    mode: Mode = "auto"
    model_family: Family = "gpt"
    break_even_tokens: Annotated[int, Ge(0)] = 4_000
    first_list_wait_s: Annotated[float, Ge(0), Le(3_600)] = 10.0
    real_examples: bool = False
    score: Score = "smoothed"
    groups: GroupPolicy = "unplaced"


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Where the catalog is: the SQLite file `path`, or the PostgreSQL database at `url`.

    If both are empty, each configuration file has an SQLite file of its own. `url` may have references. Of
    PostgreSQL alone: `connections` of each process for reading and writing, and `grace_s`, for how long
    access tokens that were valid a moment ago stay so while the database cannot be reached.
    """

    path: str = ""
    url: str = ""
    connections: Annotated[int, Ge(2), Le(200)] = 10
    grace_s: Annotated[float, Ge(0), Le(3_600)] = 60.0


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Where several gateways share what lasts only a while: a Valkey or Redis server at `url`.

    Without `url` it is the PostgreSQL database of the catalog, or with SQLite the memory of the process.
    `url` may have references. All keys begin with `prefix`.
    """

    url: str = ""
    prefix: Annotated[str, MinLen(1), MaxLen(64)] = "maitred"


@dataclass(frozen=True, kw_only=True)
class Search:
    """How search finds tools. A key may be a reference such as `${OPENAI_API_KEY}`."""

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
class ResultDrop:
    """The parts of an answer that a rule leaves out.

    `sections` are patterns of headings, `fields` are paths of JSON values. `text` are regular expressions:
    the gateway removes what they match, and a line of which nothing is left.
    """

    sections: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    text: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ResultRule:
    """How the gateway makes answers of some tools shorter for agents; `None` leaves it to the next rule.

    `tools` are patterns of `server/tool`. `budget` is in tokens. With `changes_only` an agent gets what
    changed since its last such answer. `fold` are regular expressions: of what is indented below a line that
    one matches, the agent gets the names alone. `ids` matches what a server numbers again with each answer.
    """

    tools: Annotated[tuple[Annotated[str, MinLen(1)], ...], MinLen(1)]
    budget: Annotated[int, Ge(100)] | None = None
    drop: ResultDrop | None = None
    changes_only: bool | None = None
    fold: tuple[str, ...] | None = None
    ids: str | None = None


@dataclass(frozen=True, kw_only=True)
class Results:
    """Limits of the answers of `call_tool`, in tokens; a longer answer is cut, and stored whole for a while.

    `rules` are for single tools; the first rule that says something counts. After them come the rules of a
    preset: for servers that maitred recognises (`auto`), for none, or those of the named preset for every
    server. `screening` decides about answers that speak to the model as if they were its user. With
    `mask_secrets`, the gateway replaces text that looks like a credential.
    """

    max_tokens: Annotated[int, Ge(1_000)] = 20_000
    rules: tuple[ResultRule, ...] = ()
    preset: str = "auto"
    keep_s: Seconds = 900.0
    keep_bytes: Annotated[int, Ge(0)] = 64 * 1024 * 1024
    screening: Literal["off", "warn", "redact", "block"] = "off"
    mask_secrets: bool = False


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Limits of one chain, and its isolation.

    `processes` is how many may run at once, and as many saved ones besides; `jail` says whether their
    processes run in bubblewrap if that is installed.
    """

    max_calls: Annotated[int, Ge(1)] = 100
    max_in_flight: Annotated[int, Ge(1)] = 8
    cpu_s: Seconds = 10.0
    memory_bytes: Annotated[int, Ge(16_000_000)] = 64_000_000
    processes: Annotated[int, Ge(1)] = 4
    jail: bool = True


@dataclass(frozen=True, kw_only=True)
class CacheSettings:
    """The memory for cached answers, as servers' `cache_s` asks for."""

    max_bytes: Annotated[int, Ge(0)] = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class MediationSettings:
    """How mediation improves tools before agents see them.

    Texts of persons always count: `overrides`, a file relative to the configuration file, goes before
    `overrides_url`, whose content has the SHA-256 `overrides_checksum`. `auto_enhance` adds rules and, with a
    provider, a language model, whose answers are fresh for `cache_ttl` hours. With `proof`, the gateway uses
    the results of rules and model only if search gets no worse.
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
    """How servers' rules of visibility decide what clients list.

    `mode: all` lists every tool whatever its rule says; the rules decide about calls in either case. Clients
    get one notification for changes within `debounce_ms`.
    """

    mode: Literal["dynamic", "all"] = "dynamic"
    debounce_ms: Annotated[int, Ge(0), Le(60_000)] = 100


@dataclass(frozen=True, kw_only=True)
class ExemptionEntry:
    """What `network: NAME` in a manifest may ask for; see `maitred.admission.checks.base.Exemption`."""

    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Which servers get in, and the effect of a change in what a server publishes.

    `scan` is the effect of findings in texts of servers in this file, `scan_registered` the same for servers
    from a manifest. `pinning` is the effect of any change of a server in this file; a change that gives it
    more power is always withheld. The gateway watches `folder` for manifests. The rest needs no approval, as
    in `maitred.admission.checks.base.Policy`.
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
    """The isolation of servers from a manifest.

    `jail` is for programs: `auto` and `bwrap` start none without bubblewrap, `none` starts them without
    isolation. `engine` is the address of Docker or Podman; if empty, maitred finds it. `pull` says when to
    fetch images, and `scan` is the effect of known faults in an image if Trivy is installed. `disk` is how
    many bytes a server may write into its own temporary files, which are in memory.
    """

    jail: Literal["auto", "bwrap", "none"] = "auto"
    engine: str = ""
    pull: Literal["missing", "never", "always"] = "missing"
    scan: Literal["off", "warn", "block"] = "off"
    disk: Annotated[int, Ge(1_048_576)] = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """The supervision of servers; times in seconds.

    The gateway checks a running server every `check_every_s`. It restarts a server that fails `failures`
    checks in a row, each within `check_timeout_s`. It suspends a server after `restarts` restarts within
    `window_s`, until an operator resumes it; 0 restarts is no limit.
    """

    check_every_s: Annotated[float, Ge(0), Le(86_400)] = 30.0
    check_timeout_s: Seconds = 10.0
    failures: Annotated[int, Ge(1)] = 3
    restarts: Annotated[int, Ge(0)] = 5
    window_s: Seconds = 300.0


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The background gateway that clients on stdio share; `idle_timeout` in seconds."""

    enabled: bool = True
    idle_timeout: Seconds = 300.0


@dataclass(frozen=True, kw_only=True)
class AuditDestination:
    """Where lines of the audit trail are sent as they are written; see `maitred.audit.stream`.

    `url` is that of a collector (`otlp`), of a receiver of JSON (`webhook`), or `tls://`, `tcp://`, `udp://`
    or `unix://` for `syslog`. `headers` and `key`, which signs messages of a webhook, may have references.
    `ca_file` has the certificates by which a `tls://` receiver is trusted. `start` says whether lines that
    are already there when the destination is new are sent, too. At most `batch` lines go at once.
    """

    kind: Literal["otlp", "syslog", "webhook"]
    url: Annotated[str, MinLen(1)]
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    ca_file: str = ""
    facility: Annotated[int, Ge(0), Le(23)] = 13
    start: Literal["new", "all"] = "new"
    batch: Annotated[int, Ge(1), Le(1_000)] = 200


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The audit trail. Lines older than `keep_days` are dropped; 0 keeps them for ever.

    `arguments` says what it stores of the arguments of calls: a hash, all of them with masked secrets, or
    nothing. `answers` says of which answers it stores the text that an agent read, with masked secrets: of
    none, of those of the menu, or of all. Texts go after `answers_days`, or when they take more space than
    `answers_mib` mebibytes. `stream` has the destinations to which the gateway sends lines, by name.
    """

    enabled: bool = True
    arguments: Literal["hash", "full", "none"] = "hash"
    keep_days: Annotated[int, Ge(0)] = 90
    answers: Literal["none", "menu", "all"] = "none"
    answers_days: Annotated[int, Ge(1)] = 7
    answers_mib: Annotated[int, Ge(1)] = 64
    stream: Mapping[str, AuditDestination] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HoldRule:
    """A rule about calls that wait for a person: those for which the CEL expression `when` is true, or fails.

    `by` is who decides: the person at the client that calls, or an operator, who may always decide. `session`
    is what a person may allow beside one call: nothing, the same call again in this session, or also any call
    of the tool in it. `because` is for the person.
    """

    when: Annotated[str, MinLen(1)]
    by: Literal["caller", "operator"] = "caller"
    session: Literal["never", "same", "any"] = "same"
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class HeldCallSettings:
    """Which calls wait for a person, and for how long; then they are refused.

    `webhook` is an address that gets a message about each call that waits in the inbox. The message is signed
    with `webhook_key`, which may be a reference.
    """

    rules: tuple[HoldRule, ...] = ()
    wait_s: Annotated[float, Gt(0), Le(86_400)] = 300.0
    webhook: str = ""
    webhook_key: str = ""


@dataclass(frozen=True, kw_only=True)
class UseCases:
    """The language model that writes use cases of tools on request; see `maitred categories`."""

    provider: Literal["none", "openai", "anthropic"] = "none"
    model: str = ""
    url: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class CategoryEntry:
    """A category in the file; empty fields keep the values of a built-in category."""

    title: str = ""
    description: str = ""
    parent: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ToolEntry:
    """A person's choices for a tool; they go before everything that maitred computes."""

    enabled: bool = True
    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    pinned: bool = False
    cache_s: Annotated[float, Ge(0)] | None = None
    mending: MendingChoice = ""


Names = Annotated[tuple[Annotated[str, MinLen(1)], ...], MinLen(1)]


@dataclass(frozen=True, kw_only=True)
class ProfileEntry:
    """A selection of tools for a client or a project; see `maitred.model.profiles.Profile`."""

    servers: Names | None = None
    categories: Names | None = None
    tools: Names | None = None
    tags: Names | None = None
    exclude: tuple[str, ...] = ()
    read_only: bool = False
    mode: Mode | None = None


@dataclass(frozen=True, kw_only=True)
class SavedEntry:
    """A saved chain: its file, relative to the configuration's folder, and the hash of the reviewed file."""

    file: Annotated[str, MinLen(1)]
    hash: str = ""


@dataclass(frozen=True, kw_only=True)
class GroupEntry:
    """What the members of one group may do: a role, on a part of the catalog that is as for a token.

    A member has the name of the group in `access.groups_claim`, or `value` in `claim` if that is set.
    """

    role: Role
    servers: Names | None = None
    categories: Names | None = None
    read_only: bool = False
    profile: str = ""
    claim: str = ""
    value: str = ""


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """The OpenID provider by which people sign in to the pages; `url` is where their browsers reach these.

    `client_secret` may be a reference; a public client has none. A session ends after `session_s`, or with
    the ID token if that is 0.
    """

    issuer: Annotated[str, MinLen(1)]
    client_id: Annotated[str, MinLen(1)]
    url: Annotated[str, MinLen(1)]
    client_secret: str = ""
    scopes: tuple[str, ...] = ("openid", "profile")
    name: str = ""
    session_s: Annotated[float, Ge(0), Le(43_200)] = 28_800.0


@dataclass(frozen=True, kw_only=True)
class TeamEntry:
    """A team with limits that its members share, beside those of each; 0 is no limit.

    Members are `principals`, and those of `groups`: groups of persons, or entries of `access.groups`.
    """

    groups: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    calls_per_minute: Annotated[float, Ge(0)] = 0.0
    burst: Annotated[int, Ge(0)] = 0
    calls_at_once: Annotated[int, Ge(0)] = 0
    tokens_per_day: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """How much each principal and each team may call, and what groups of people may do.

    0 is no limit, and a `burst` of 0 means the calls of ten seconds. `groups_claim` are the paths of claims
    that list the groups of a person. `sign_in` is how people enter the pages without a token.
    """

    calls_per_minute: Annotated[float, Ge(0)] = 0.0
    burst: Annotated[int, Ge(0)] = 0
    calls_at_once: Annotated[int, Ge(0)] = 0
    groups_claim: tuple[str, ...] = ("groups",)
    groups: Mapping[str, GroupEntry] = field(default_factory=dict)
    sign_in: SignIn | None = None
    teams: Mapping[str, TeamEntry] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Jwt:
    """The authorization server whose access tokens are accepted, and what their claims mean here.

    See `maitred.access.jwt.JwtPolicy` and `maitred.access.claims.ClaimMapping`. `forward_to` has the hosts of
    servers to which the callers' own tokens may be sent; see `auth.forward` of a server.
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
    forward_to: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Http:
    """How `serve --transport http` listens. Any address but loopback needs a token, or tokens of `jwt`.

    `anonymous` is the role of a caller without a token on loopback while there is no `token`. A session is
    that of a client of the handshake era; it ends after `session_idle_timeout_s` without an open request.
    `public_url` is the address at which browsers reach the gateway, without a path. A gateway that has to end
    takes requests for `unready_s` more, while it says that it is not ready, and ends within `drain_s`.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Ge(0), Le(65_535)] = 8420
    token: str = ""
    anonymous: Literal["none", "viewer", "agent", "operator", "admin"] = "operator"
    jwt: Jwt | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    public_url: str = ""
    session_idle_timeout_s: Seconds = 300.0
    max_sessions: Annotated[int, Ge(1)] = 2_000
    unready_s: Annotated[float, Ge(0), Le(600)] = 0.0
    drain_s: Annotated[float, Ge(0), Le(3_600)] = 5.0


@dataclass(frozen=True, kw_only=True)
class RegistrySettings:
    """The registry in which `maitred find` looks for servers; nothing is fetched unless a person asks for it.

    `url` is the address of a registry that speaks the MCP registry's API. `copy` is the file of the kept
    copy, relative to the configuration file; if empty, it is in the state folder. A copy that is older than
    `max_age_h` hours is fetched again when it is searched; 0 fetches it only when asked to.
    """

    url: str = ""
    copy: str = ""
    max_age_h: Annotated[float, Ge(0), Le(8_760)] = 24.0


@dataclass(frozen=True, kw_only=True)
class SecretSettings:
    """Which programs `${command:...}` may run: names or whole paths as in the reference; `*` is any."""

    commands: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UpgradeSettings:
    """Where `maitred upgrade --check` asks for newer versions; without `url` it asks nowhere."""

    url: str = ""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All choices of the operator; `source` is their file."""

    source: Path
    servers: Mapping[str, ServerSpec] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    disclosure: Disclosure = field(default_factory=Disclosure)
    catalog: Catalog = field(default_factory=Catalog)
    shared: SharedSettings = field(default_factory=SharedSettings)
    search: Search = field(default_factory=Search)
    results: Results = field(default_factory=Results)
    chain: Chain = field(default_factory=Chain)
    cache: CacheSettings = field(default_factory=CacheSettings)
    held_calls: HeldCallSettings = field(default_factory=HeldCallSettings)
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
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    access: AccessSettings = field(default_factory=AccessSettings)
    http: Http = field(default_factory=Http)
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    replica: ReplicaSettings = field(default_factory=ReplicaSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    secrets: SecretSettings = field(default_factory=SecretSettings)
    upgrade: UpgradeSettings = field(default_factory=UpgradeSettings)
    telemetry: Telemetry = field(default_factory=Telemetry)
    usage: UsageSettings = field(default_factory=UsageSettings)
