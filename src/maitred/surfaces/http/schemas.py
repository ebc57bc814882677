"""The requests and answers of the API, as its OpenAPI description shows them.

Only the body of a call is parsed by these models. Answers are values of the gateway, encoded directly: the
models describe them, and a test compares every answer with them.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from maitred.model.transports import TRANSPORTS

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Band = Literal["strong", "fair", "weak", "none"]
State = Literal["idle", "starting", "ready", "stopping", "failed", "suspended"]


class Error(BaseModel):
    """An error. It may have more facts, such as `server`, `reason` or `retry_in_s` (seconds)."""

    error: str = Field(description="A stable code.")
    message: str = Field(description="What is wrong, where, and what to do next.")
    nearest: list[str] = Field(default=[], description="Names that may have been meant.")
    faults: list[str] = Field(
        default=[], description="What is wrong with the request: a text for each fault."
    )


class CallBody(BaseModel):
    """A call of a tool."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"arguments": {"a": 2, "b": 40}}]}
    )

    arguments: dict[str, Any] = Field(default={}, description="The arguments, by the tool's input schema.")
    read_only: bool = Field(default=False, description="Refuse a tool that is not marked read-only.")


class CallResult(BaseModel):
    """A tool's result as its server wrote it. The result of a failed tool has `isError`."""

    content: list[dict[str, Any]] = Field(default=[], description="Text, images and other content blocks.")
    structuredContent: Any = None  # noqa: N815  # the protocol's name
    isError: bool = False  # noqa: N815


class SummaryResponse(BaseModel):
    """A tool in a list. A parameter that may be left out ends in `?`."""

    name: str = Field(description="The published name.")
    server: str
    category: str
    description: str
    parameters: dict[str, str] = Field(description="Parameters at the top level, with their types.")
    more_parameters: Count = Field(default=0, description="How many parameters did not fit.")
    returns: str = Field(
        default="", description="What it returns, in T2: by its output schema, else as answers looked so far."
    )
    avg_latency_ms: float | None = Field(default=None, description="Mean latency, if it was ever called.")
    calls: Count | None = Field(default=None, description="Calls in the last 30 days, in T0 only.")
    success_rate: Share | None = None


class HotListResponse(BaseModel):
    """T0: the tools that are used most."""

    tier: Literal["T0"]
    tools: list[SummaryResponse]
    left_out: Count = Field(description="How many did not fit the budget.")


class CategoryResponse(BaseModel):
    """A category with the tools in it and below it."""

    name: str
    title: str
    description: str
    parent: str = Field(description="The category above it; empty at the top.")
    tools: Count
    servers: Count
    popular: list[str] = Field(description="Two of its tools.")
    parts: dict[str, Count] = Field(
        description="The sub-categories of a large category, each with the number of its tools."
    )
    proposed_by: Literal["", "rules", "model", "overrides", "program"] = Field(
        description="What proposed it, if it is a group of tools that no operator made."
    )


class CategoriesResponse(BaseModel):
    """T1: the categories that hold tools."""

    tier: Literal["T1"]
    categories: list[CategoryResponse]
    left_out: Count
    tools: Count
    servers: Count


class Pagination(BaseModel):
    """The position of a page."""

    page: Annotated[int, Field(ge=1)]
    page_size: Annotated[int, Field(ge=1, le=50)]
    total_count: Count
    total_pages: Count


class ToolPageResponse(BaseModel):
    """T2: tools of a category, the most used first."""

    tier: Literal["T2"]
    path: str
    tools: list[SummaryResponse]
    categories: list[CategoryResponse] = Field(description="The categories below it, on the first page.")
    total: Count
    note: str
    pagination: Pagination


class ToolUsage(BaseModel):
    """How a tool was used in the last 30 days, up to now."""

    calls: Count
    success_rate: Share
    mean_ms: float
    p95_ms: float
    calls_7d: Count
    calls_30d: Count
    last_used: str = Field(description="When its last call ended, in UTC.")


class OriginalResponse(BaseModel):
    """How a server defines a tool that mediation changed, and what changed it."""

    name: str
    title: str
    description: str
    input_schema: Any = Field(description="`null` where the server gave none.")
    by: str = Field(description="`overrides`, `rules`, `llm` or `middleware`.")
    confidence: Share


class ReturnsResponse(BaseModel):
    """What a tool returns: in short, and as a JSON Schema."""

    type: str = Field(description="Such as `{name: str, lines: int[]}`; empty if it is not known.")
    schema_: Any = Field(alias="schema", description="`null` if it is not known.")
    by: Literal["schema", "answers", ""] = Field(
        description="`schema`: its server says so; `answers`: the answers so far looked like that."
    )


class CallExample(BaseModel):
    """Arguments that the input schema of the tool accepts."""

    arguments: dict[str, Any]
    from_: Literal["schema", "call"] = Field(
        alias="from",
        description="`call`: a real one, with masked secrets; only with `disclosure.real_examples`.",
    )


class ServerRun(BaseModel):
    """How the server of a tool runs."""

    transport: str
    image: str = Field(description="The image of its container; empty if it has none.")
    isolation: Literal["container", "jail", ""]
    network: Literal["none", "granted", "unlimited", "remote", "internal"] = Field(
        description="`unlimited`: a program without isolation; `remote`: a server at an address."
    )
    limits: dict[str, float] = Field(
        description="`call_timeout_s` and `longest_call_s`; of an isolated server also `memory_bytes`,"
        " `cpus`, `processes` and `output_bytes_per_s`."
    )


class GroupOfTool(BaseModel):
    """The group of a tool, and what proposed it."""

    name: str
    proposed_by: Literal["rules", "model", "overrides", "program"]


class ToolDetail(BaseModel):
    """T3: everything about one tool."""

    tier: Literal["T3"]
    name: str
    server: str
    raw_name: str
    definition: dict[str, Any] = Field(description="As it is published.")
    returns: ReturnsResponse
    examples: list[CallExample] = Field(description="Examples of calls.")
    runs: ServerRun | None
    original: OriginalResponse | None = Field(
        description="The definition of its server, where mediation changed it."
    )
    category: str
    subcategory: str = Field(description="The part of the category; empty if none fits.")
    group: GroupOfTool | None = Field(description="The proposed group that it is in.")
    confidence: Share
    placed_by: str
    tags: list[str]
    use_cases: list[str]
    needs: list[str] = Field(description="Variables and files that its server's configuration refers to.")
    withheld: str = Field(description="Why it cannot be called now; empty if it can.")
    tokens: Count = Field(description="What its definition costs a model (o200k).")
    level: Literal["hot", "warm", "standard", "cold"]
    score: Share
    usage: ToolUsage | None


class FoundToolUsage(BaseModel):
    """How a search result was used in the last 30 days."""

    calls: Count
    success_rate: Share
    avg_latency_ms: float
    last_used: str


class FoundToolResponse(BaseModel):
    """A search result."""

    name: str
    server: str
    category: str
    line: str = Field(description="The tool in the level of `detail`.")
    band: Band = Field(description="How well it fits.")
    also: list[str] = Field(description="The same tool on other servers.")
    why_not: str = Field(description="Why the tool makes no sense in the present state, and what to do.")
    usage: FoundToolUsage | None = Field(
        description="Up to now with a limit of use, else as of the last computation of the tiers."
    )


class WithheldResponse(BaseModel):
    """Tools of a server that match, but may not be shown now."""

    server: str
    tools: Count
    reason: str


class SearchResult(BaseModel):
    """Search results, best first. With `band` weak or none, no tool is relevant."""

    band: Band
    bands: dict[str, Band] = Field(description="How well the best result serves each phrase.")
    corrections: dict[str, str] = Field(
        description="Words that were searched for instead of mistyped ones, by those."
    )
    results: list[FoundToolResponse]
    withheld: list[WithheldResponse]
    unread: dict[str, str] = Field(description="Servers whose tools are not known yet, and why.")
    note: str = Field(description="What search could not use, and what to do.")


def _name_transports(schema: dict[str, Any]) -> None:
    schema["enum"] = list(TRANSPORTS)


class ServerInstance(BaseModel):
    """A process of a server, or a session, that not all clients share."""

    owner: str = Field(description="Whose it is, for people.")
    principal: str
    folder: str = Field(description="The folder that its clients work in; empty if that is not known.")
    state: State
    since: str
    pid: int | None
    starts: Count
    restarts: Count
    ended: str
    error: str
    note: str = Field(description="What the operator should know about it.")


class Server(BaseModel):
    """A configured server."""

    name: str
    target: str = Field(description="Its command line or address.")
    transport: str = Field(json_schema_extra=_name_transports)
    enabled: bool
    tools: Count
    tokens: Count
    protocol_version: str
    version: str
    state: State
    since: str = Field(description="Since when it is in this state; empty if it was never used.")
    desired: Literal["on_demand", "always"] = Field(
        description="Whether the gateway keeps it running at all times."
    )
    cage: str = Field(description="`jail`, `container`, or empty without isolation.")
    share: Literal["all", "project", "client", "principal"] = Field(
        description="Which clients use one process of it, or one session."
    )
    share_reason: str = Field(description="Why it is shared so.")
    instances: list[ServerInstance] = Field(description="Its processes for single clients or projects.")
    restarts: Count = Field(description="How often the gateway restarted it after a fault recently.")
    ended: str = Field(
        description="The kind of its last fault: `exit`, `memory`, `killed`, `hang` or `lost`."
    )
    last_error: str = Field(description="The reason of its last fault.")
    synced_at: str
    error: str
    notes: list[str]
    withheld: str = Field(description="Why its tools are not shown now; empty if they are.")
    withheld_parts: Count = Field(description="Tools, prompts and templates withheld until approved.")


class ServerDetail(Server):
    """A configured server with its own description, and its present state."""

    title: str
    instructions: str
    failures: Count = Field(description="Failures in a row.")
    starts: Count
    in_flight: Count = Field(description="Calls that run now.")


class Servers(BaseModel):
    """All configured servers, in the order of the configuration."""

    servers: list[Server]


class UsageResponse(BaseModel):
    """Calls over a window of days; latencies in milliseconds."""

    calls: Count
    errors: Count
    success_rate: Share
    mean_ms: float
    p95_ms: float
    calls_7d: Count
    calls_30d: Count
    last_used: str


class SpendingResponse(BaseModel):
    """The tokens of one principal on one day (UTC)."""

    day: str
    principal: str
    lists: Count
    list_tokens: Count
    answers: Count
    answer_tokens: Count
    results: Count
    result_tokens: Count
    raw_tokens: Count
    calls: Count
    argument_tokens: Count
    cost_micros: Count
    spent: Count
    break_even: bool


class StatsResponse(BaseModel):
    """How tools were used, and what finding them cost."""

    days: int
    servers: Count
    tools: Count
    raw_tokens: Count
    calls: Count
    used: dict[str, UsageResponse]
    by_server: dict[str, UsageResponse]
    spending: list[SpendingResponse]
    tiers_at: str
    levels: dict[str, Count]


class LivenessResponse(BaseModel):
    """The process answers."""

    status: Literal["ok"]
    notices: list[str] = Field(
        default=[], description="What the gateway goes on without; left out if nothing."
    )


class ServerHealth(BaseModel):
    """A server that runs, or is started when it is needed."""

    status: Literal["ok"]
    server: str
    state: State
    desired: Literal["on_demand", "always"]
    since: str
