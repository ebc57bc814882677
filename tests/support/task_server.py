"""A server that runs some of its tools as tasks, in the forms of both eras; as a program, over stdio.

`--era stateless` or `--era handshake` refuses the other era. In the handshake era it announces each change
of a task. `Tasks` can be put into any server of the SDK.
"""

import argparse
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
IMMEDIATE = "io.modelcontextprotocol/model-immediate-response"
POLL_MS = 50
TTL_MS = 600_000
ENDED = {"completed", "failed", "cancelled"}


class NoTaskError(Exception):
    """A tool asks, but the call of it is no task, so nobody looks for the question."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(kw_only=True, eq=False)
class Job:
    """A task of this server."""

    id: str
    ttl_ms: int
    announce: Callable[["Job"], Awaitable[None]]
    status: str = "working"
    message: str = "Begun"
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    result: Json | None = None
    error: Json | None = None
    questions: Json = field(default_factory=dict)
    answers: Json = field(default_factory=dict)
    news: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def says(self, message: str, status: str = "working") -> None:
        self.message, self.status, self.updated = message, status, now()
        self.news.set()
        self.news = anyio.Event()
        await self.announce(self)

    async def ask(self, **questions: Json) -> Json:
        """Ask the client, and wait until all questions have an answer."""
        if not self.id:
            raise NoTaskError
        self.questions = dict(questions)
        await self.says("Waiting for input", "input_required")
        while not questions.keys() <= self.answers.keys():
            await self.news.wait()
        await self.says("Going on")
        return {key: self.answers[key] for key in questions}

    def answer(self, responses: Mapping[str, Any]) -> None:
        for key in responses.keys() & self.questions.keys():
            self.answers[key] = responses[key]
            del self.questions[key]
        self.news.set()
        self.news = anyio.Event()

    def stateless(self) -> Json:
        more: Json = {"ttlMs": self.ttl_ms, "pollIntervalMs": POLL_MS}
        if self.status == "input_required":
            more["inputRequests"] = dict(self.questions)
        if self.status == "completed":
            more["result"] = self.result
        if self.status == "failed":
            more["error"] = self.error
        return self._base() | more

    def handshake(self) -> Json:
        failed = self.status == "completed" and (self.result or {}).get("isError")
        status = {"status": "failed"} if failed else {}
        return self._base() | {"ttl": self.ttl_ms, "pollInterval": POLL_MS} | status

    def _base(self) -> Json:
        return {
            "taskId": self.id,
            "status": self.status,
            "statusMessage": self.message,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
        }


Work = Callable[[Job, Json], Awaitable[Json]]


@dataclass(frozen=True, kw_only=True)
class TaskTool:
    """A tool that can be a task. With `required`, it can be nothing else."""

    work: Work
    required: bool = False
    asks_first: Json | None = None


def text(said: str, *, error: bool = False) -> Json:
    return {"content": [{"type": "text", "text": said}], "isError": error}


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: Json


class Tasks:
    """Runs tools as tasks; `lifespan` is the lifespan of the server, `register` adds the methods to it."""

    def __init__(self, tools: Mapping[str, TaskTool]) -> None:
        self.tools = tools
        self.jobs: dict[str, Job] = {}
        self._group: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    def register(self, server: Server[Any]) -> None:
        server.extensions[EXTENSION] = {}
        base = server.create_initialization_options

        def options(*args: Any, **keywords: Any) -> Any:
            made = base(*args, **keywords)
            made.capabilities.tasks = types.ServerTasksCapability(
                list=types.TasksListCapability(),
                cancel=types.TasksCancelCapability(),
                requests=types.ServerTasksRequestsCapability(
                    tools=types.TasksToolsCapability(call=types.TasksCallCapability())
                ),
            )
            return made

        server.create_initialization_options = options  # type: ignore[method-assign]
        server.add_request_handler("tasks/get", _TaskParams, self._get)
        server.add_request_handler("tasks/result", _TaskParams, self._result)
        server.add_request_handler("tasks/cancel", _TaskParams, self._cancel)
        server.add_request_handler("tasks/update", _UpdateParams, self._update)
        server.middleware.append(self._middleware)

    def listed(self) -> list[types.Tool]:
        return [
            types.Tool(
                name=name,
                description=f"Runs {name.replace('_', ' ')}, perhaps as a task.",
                input_schema={"type": "object"},
                execution=types.ToolExecution(task_support="required" if tool.required else "optional"),
            )
            for name, tool in self.tools.items()
        ]

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        tool = self.tools.get(params.get("name", "")) if ctx.method == "tools/call" else None
        if tool is None or ctx.request_id is None:
            return await call_next(ctx)
        arguments: Json = params.get("arguments") or {}
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self._call_stateless(ctx, tool, arguments)
        task = params.get("task")
        if task is None:
            if tool.required:
                raise MCPError(METHOD_NOT_FOUND, "This tool must be called as a task")
            return await self._run_now(tool, arguments)
        ttl = task.get("ttl") or TTL_MS

        async def announce(job: Job) -> None:
            await ctx.session._connection.outbound.notify("notifications/tasks/status", job.handshake())

        job = self._start(tool, arguments, min(ttl, TTL_MS), announce)
        return {"task": job.handshake(), "_meta": {IMMEDIATE: f"{params['name']} runs."}}

    async def _call_stateless(self, ctx: Context, tool: TaskTool, arguments: Json) -> Json:
        params = ctx.params or {}
        declared = _declares(params)
        if tool.required and not declared:
            needed: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool runs as a task only", needed)
        if tool.asks_first and not (responses := params.get("inputResponses")):
            return {"resultType": "input_required", "inputRequests": tool.asks_first, "requestState": "first"}
        if tool.asks_first:
            arguments = {**arguments, "responses": responses}
        if not declared:
            return {"resultType": "complete", **await self._run_now(tool, arguments)}
        job = self._start(tool, arguments, TTL_MS, _silently)
        state = {key: value for key, value in job.stateless().items() if key != "result"}
        return {"resultType": "task", **state}

    async def _run_now(self, tool: TaskTool, arguments: Json) -> Json:
        job = Job(id="", ttl_ms=0, announce=_silently)
        try:
            return await tool.work(job, arguments)
        except NoTaskError:
            return text("This tool asks, which it can do as a task only.", error=True)

    def _start(
        self, tool: TaskTool, arguments: Json, ttl_ms: int, announce: Callable[[Job], Awaitable[None]]
    ) -> Job:
        assert self._group is not None
        job = Job(id=f"task-{len(self.jobs) + 1:04}", ttl_ms=ttl_ms, announce=announce)
        self.jobs[job.id] = job
        self._group.start_soon(self._work, job, tool, arguments)
        return job

    async def _work(self, job: Job, tool: TaskTool, arguments: Json) -> None:
        with job.scope:
            try:
                job.result = await tool.work(job, arguments)
            except MCPError as error:
                job.error = {"code": error.error.code, "message": error.error.message}
                await job.says("It failed", "failed")
                return
            await job.says("Done", "completed")

    def _job(self, task_id: str) -> Job:
        if task_id not in self.jobs:
            raise MCPError(INVALID_PARAMS, "Failed to retrieve task: Task not found")
        return self.jobs[task_id]

    async def _get(self, ctx: Context, params: _TaskParams) -> Json:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return self._job(params.task_id).handshake()
        _check(ctx)
        return {**self._job(params.task_id).stateless(), "resultType": "complete"}

    async def _result(self, ctx: Context, params: _TaskParams) -> Json:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        job = self._job(params.task_id)
        while job.status not in ENDED:
            if job.status == "input_required" and job.questions:
                await self._ask_now(ctx, job)
            else:
                await job.news.wait()
        if job.status == "cancelled":
            raise MCPError(INTERNAL_ERROR, "The task was cancelled")
        if job.error:
            raise MCPError(job.error["code"], job.error["message"])
        return {**(job.result or {}), "_meta": {RELATED: {"taskId": job.id}}}

    async def _ask_now(self, ctx: Context, job: Job) -> None:
        """Ask the client that waits for the result, as a server of the handshake era does."""
        for key, question in dict(job.questions).items():
            params = {**question["params"], "_meta": {RELATED: {"taskId": job.id}}}
            try:
                answer = await ctx.session._request_outbound.send_raw_request(question["method"], params)
            except MCPError as error:
                job.error = {"code": error.error.code, "message": error.error.message}
                job.scope.cancel()
                await job.says("The client did not answer", "failed")
                return
            job.answer({key: answer})

    async def _cancel(self, ctx: Context, params: _TaskParams) -> Json:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if modern:
            _check(ctx)
        job = self._job(params.task_id)
        if job.status in ENDED:
            if modern:
                return {"resultType": "complete"}
            raise MCPError(INVALID_PARAMS, f"Cannot cancel task: already in terminal status '{job.status}'")
        job.scope.cancel()
        await job.says("The task was cancelled by request.", "cancelled")
        return {"resultType": "complete"} if modern else job.handshake()

    async def _update(self, ctx: Context, params: _UpdateParams) -> Json:
        _check(ctx)
        self._job(params.task_id).answer(params.input_responses)
        return {"resultType": "complete"}


async def _silently(_: Job) -> None: ...


def _declares(params: Mapping[str, Any]) -> bool:
    capabilities = (params.get("_meta") or {}).get(CLIENT_CAPABILITIES_META_KEY) or {}
    return EXTENSION in (capabilities.get("extensions") or {})


def _check(ctx: Context) -> None:
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    if not _declares(ctx.params or {}):
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The tasks extension is needed")


# --- tools ------------------------------------------------------------------------------------------------


def question(message: str, name: str, kind: str) -> Json:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


async def slow_compute(job: Job, arguments: Json) -> Json:
    seconds = arguments.get("seconds", 0)
    for step in range(int(seconds)):
        await anyio.sleep(1)
        await job.says(f"{step + 1} of {seconds} s")
    return text(f"Computed {arguments.get('label', '')}")


async def failing_job(_: Job, __: Json) -> Json:
    await anyio.sleep(0.1)
    return text("The job failed, as it always does.", error=True)


async def protocol_error_job(_: Job, __: Json) -> Json:
    raise MCPError(INTERNAL_ERROR, "The job broke")


async def confirm_delete(job: Job, arguments: Json) -> Json:
    answers = await job.ask(confirm=question(f"Delete {arguments.get('filename')}?", "confirm", "boolean"))
    return text(f"Deleted: {json.dumps(answers['confirm'], sort_keys=True)}")


async def multi_input(job: Job, _: Json) -> Json:
    answers = await job.ask(
        name=question("What is your name?", "name", "string"), sure=question("Sure?", "confirm", "boolean")
    )
    return text(json.dumps(answers, sort_keys=True))


async def greet_later(job: Job, arguments: Json) -> Json:
    await job.says("Thinking")
    return text(json.dumps(arguments.get("responses"), sort_keys=True))


TOOLS: Mapping[str, TaskTool] = {
    "slow_compute": TaskTool(work=slow_compute),
    "failing_job": TaskTool(work=failing_job, required=True),
    "protocol_error_job": TaskTool(work=protocol_error_job),
    "confirm_delete": TaskTool(work=confirm_delete),
    "multi_input": TaskTool(work=multi_input),
    "test_tool_with_task": TaskTool(
        work=greet_later,
        required=True,
        asks_first={"user_name": question("What is your name?", "name", "string")},
    ),
}


def make_server(tasks: Tasks, era: str = "") -> Server[Any]:
    """A server with these tools, and `greet`, which is never a task."""

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        greet = types.Tool(name="greet", description="Greets a person.", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[greet, *tasks.listed()])

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        name = (params.arguments or {}).get("name", "nobody")
        return types.CallToolResult(content=[types.TextContent(text=f"Hello, {name}!")])

    async def only(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "initialize" and era == "stateless":
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "No handshake here", {"supported": ["2026-07-28"]})
        if ctx.method == "server/discover" and era == "handshake":
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        return await call_next(ctx)

    server: Server[Any] = Server(
        "tasks", version="1", lifespan=tasks.lifespan, on_list_tools=list_tools, on_call_tool=call_tool
    )
    tasks.register(server)
    server.middleware.insert(0, only)
    return server


async def serve(era: str) -> None:
    server = make_server(Tasks(TOOLS), era)
    options = server.create_initialization_options(NotificationOptions())
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--era", choices=["handshake", "stateless"], default="")
    anyio.run(serve, parser.parse_args().era)


if __name__ == "__main__":
    main()
