"""Runs chains for the gateway: a program, or a list of calls, with one answer.

Every call inside takes the same steps as a call from outside, with the same checks, counts and limits. The
first program starts the engine, which ends with the gateway. A list of calls needs no engine.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import anyio
import structlog
from anyio import from_thread, to_thread

from maitred.audit.answers import text_of, tokens_of
from maitred.audit.service import AuditService, RequestContext, known_id, origin_marks
from maitred.backends.base import NOT_ASKED, Caller, Progress
from maitred.background import Background
from maitred.calls.answer import Answer, text_block
from maitred.calls.pipeline import Call, Proceed
from maitred.calls.results import ResultStore
from maitred.calls.screening import AnswerScreen
from maitred.chains.account import Account, ChainRun
from maitred.chains.answer import MAX_OUTPUT_SIZE, ChainAnswer, Keep, answer, check_answer
from maitred.chains.base import ChainFault, ChainLimits, ChainProgram
from maitred.chains.caller import ChainCaller
from maitred.chains.forms import DirectCalls, read_form, strip_fence
from maitred.chains.lazy_engine import LazyEngine, Open
from maitred.chains.runner import ChainRunner, ChainTarget
from maitred.chains.saved_backend import read_saved
from maitred.chains.saved_chain import SavedChain
from maitred.chains.stubs import ModuleIndex
from maitred.disclosure.budget import estimate
from maitred.disclosure.chain_guide import GUIDE_TOKENS, chain_guide
from maitred.errors import ToolWithheldError
from maitred.gateway.authorization import Authorization, ScopedCatalog
from maitred.gateway.dry_run import DryRun
from maitred.gateway.held_calls import HeldCallService
from maitred.gateway.lookup import ToolLookup
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.tools import ToolCall
from maitred.wording import count_of

log = structlog.get_logger(__name__)

DEFAULT_MS: Final = 30_000
LONGEST_MS: Final = 60_000
_LARGE_BYTES = 50_000
_NO_ANSWER: Final = ChainAnswer(ok=False, result=None, summary="")
_NO_NAME: Final = re.compile(r"\W")


@dataclass(frozen=True, kw_only=True)
class RunningChain:
    """The chain that makes a call. A saved chain inside it shares its limits."""

    account: Account
    saved: bool

    @property
    def id(self) -> str:
        """The id by which the audit trail knows the chain."""
        return self.account.id

    def paused(self) -> AbstractContextManager[object]:
        """Let no time of the chain pass until the context is left."""
        return self.account.pauses.paused()


class Chains:
    """Runs chains for a gateway, while it is `serving`. `proceed` passes a call through all steps."""

    def __init__(
        self,
        context: GatewayState,
        access: Authorization,
        lookup: ToolLookup,
        proceed: Proceed,
        holder: HeldCallService,
        *,
        results: ResultStore,
        auditing: AuditService,
        screen: AnswerScreen,
        open_sandbox: Open,
    ) -> None:
        self._context = context
        self._access = access
        self._lookup = lookup
        self._proceed = proceed
        self._results = results
        self._auditing = auditing
        self._screen = screen
        self._dry = DryRun(context, lookup, holder, named=self._named, limits=self._limits)
        self._engine = LazyEngine(open_sandbox)
        self._inner = LazyEngine(open_sandbox)  # a chain may wait for a saved one, and must not starve it

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Run chains until the context is left, which ends all chains and their processes."""
        async with Background() as background:
            background.start(self._engine.keep)
            background.start(self._inner.keep)
            yield

    async def cage(self, viewer: Viewer) -> str:
        """Why chains run outside of bubblewrap; empty if they run inside. Makes the engine.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._auditing.require(viewer, "watch")
        return await self._engine.why_not_caged()

    def modules(self, viewer: Viewer) -> ModuleIndex:
        """The modules that a viewer's program may import, one for each server whose tools may be shown."""
        return self._modules_in(self._access.portion(viewer))

    def _modules_in(self, there: ScopedCatalog) -> ModuleIndex:
        context = there.context
        return there.menu.kept("modules", lambda: ModuleIndex(context.snapshot, context.visible_tools()))

    def guide(self, viewer: Viewer) -> str:
        """How to write a chain, for agents, with the modules that there are now."""
        settings = self._context.settings.chain
        return chain_guide(
            self.modules(viewer).servers,
            calls=settings.max_calls,
            in_flight=settings.max_in_flight,
            cpu_s=settings.cpu_s,
            budget_tokens=self._context.budget(GUIDE_TOKENS),
        )

    async def run(
        self,
        code: str,
        *,
        viewer: Viewer,
        timeout_ms: int = DEFAULT_MS,
        max_output_size: int = MAX_OUTPUT_SIZE,
        dry_run: bool = False,
        keep: bool = True,
        caller: Caller = NOT_ASKED,
        request_id: str = "",
    ) -> ChainAnswer:
        """Run a program, or calls in a short form; with `dry_run` say what is wrong, and call nothing.

        The answer has every fault of a chain. The gateway stores a result that is too long for the principal,
        unless no caller could read it later.

        Raises:
            NotAllowedError: The viewer may call nothing.
        """
        about = RequestContext(viewer=viewer, request_id=known_id(request_id))
        ended = await self._run(
            code,
            about,
            timeout_ms=timeout_ms,
            max_output_size=max_output_size,
            dry_run=dry_run,
            keep=keep,
            caller=caller,
        )
        self._note(ended)
        return ended.answer

    async def answer(
        self,
        code: str,
        *,
        viewer: Viewer,
        timeout_ms: int,
        max_output_size: int,
        dry_run: bool,
        caller: Caller,
        request_id: str,
    ) -> dict[str, Any]:
        """Run a chain for an agent: the answer as the result of `tools/call`, which the audit trail counts.

        Raises:
            NotAllowedError: The viewer may call nothing.
        """
        about = RequestContext(viewer=viewer, request_id=known_id(request_id))
        ended = await self._run(
            code,
            about,
            timeout_ms=timeout_ms,
            max_output_size=max_output_size,
            dry_run=dry_run,
            keep=True,
            caller=caller,
        )
        result: dict[str, Any] | None = None
        try:
            result = await self.result(ended.answer, viewer, about.request_id)
        finally:
            self._note(ended, result)
        return result

    async def _run(
        self,
        code: str,
        about: RequestContext,
        *,
        timeout_ms: int,
        max_output_size: int,
        dry_run: bool,
        keep: bool,
        caller: Caller,
    ) -> "_EndedChain":
        viewer = about.viewer
        self._access.check(viewer, "call")
        size = max(max_output_size, 0)
        tell = partial(check_answer, code=code, estimate=estimate, max_output_size=size, asked=dry_run)
        wait_s = min(max(timeout_ms, 1), LONGEST_MS) / 1_000
        failing = self._failing(viewer)
        read = partial(self._read, self.modules(viewer), code, failing, types=dry_run)
        program = await to_thread.run_sync(read)
        ended = _EndedChain(about=about, code=code, is_check=dry_run)
        if isinstance(program, ChainFault):
            return replace(ended, answer=tell([program]), fault=program.kind)
        if dry_run:
            faults = await self._looked_at(program, wait_s, viewer)
            notes = () if faults else await self._dry.held_lines(program, viewer)
            return replace(ended, answer=tell(faults, notes=notes), fault=faults[0].kind if faults else "")
        run = await self._runner(about, caller).run(program, timeout_s=wait_s, progress=_progress(caller))
        ended = replace(ended, run=run)
        try:
            store = partial(self._results.keep, viewer.principal) if keep else _kept_nowhere
            return replace(ended, answer=await _told(run, code, store, size))
        except BaseException:
            self._note(ended)
            raise

    async def result(self, made: ChainAnswer, viewer: Viewer, request_id: str) -> dict[str, Any]:
        """An answer as the result of `tools/call`, marked as data of the servers that were called."""
        by_name = self._context.snapshot.by_name
        servers = sorted({by_name[one.tool].server for one in made.calls if one.tool in by_name})
        to_person = viewer.surface == "cli"
        result = await self._screen.screened(made.to_result(), ", ".join(servers), to_person=to_person)
        return Answer(wire=result).with_meta(origin_marks(request_id, {"servers": servers})).wire

    async def _looked_at(
        self, program: ChainProgram | DirectCalls, most_s: float, viewer: Viewer
    ) -> Sequence[ChainFault]:
        with anyio.move_on_after(most_s):
            if isinstance(program, DirectCalls):
                return await self._dry.of_calls(program, viewer)
            return await self._dry.of_program(program, await self._engine.check(program), viewer)
        return [ChainFault(kind="timeout", message=f"The check took longer than {most_s:g} s.")]

    def _failing(self, viewer: Viewer) -> Mapping[str, str]:
        """Why servers have no tools, by the names of their modules."""
        there = self._access.portion(viewer).context.servers()
        why = {one.name: one.error or self._context.why_not_known(one.name) for one in there if not one.tools}
        return {_NO_NAME.sub("_", name): told for name, told in why.items() if told}

    def _read(
        self, index: ModuleIndex, code: str, failing: Mapping[str, str], *, types: bool
    ) -> ChainProgram | DirectCalls | ChainFault:
        """The chain in a text. Its size is checked first."""
        most = self._limits().source_bytes
        if len(code) > most or len(code.encode("utf-8", "surrogatepass")) > most:
            return ChainFault(kind="size", message=f"The program is longer than {most:,} bytes.")
        code = strip_fence(code)
        modules = index.used(code, types=types)
        written = ChainProgram(code=code, modules=modules, known=index.names, failing=failing)
        return read_form(code, modules) or written

    async def run_saved(self, call: Call) -> dict[str, Any]:
        """Run the saved chain that a call names. A read-only chain may only call tools that only read.

        A caller from outside gets an answer like that of any chain. A calling chain gets the plain value,
        and shares its limits.

        Raises:
            ToolWithheldError: Its file differs from the reviewed one.
            ArgumentsError: The arguments do not fit its parameters.
        """
        name, viewer, within = call.tool.key.name, call.viewer, call.chain
        spec = self._context.spec(call.tool.server)
        async with self._context.pool.connection(spec.name):  # so that the list is looked at again
            try:
                chain = await to_thread.run_sync(read_saved, spec, name)
            except ToolWithheldError:
                self._context.keeper.tools_changed(spec.name)
                raise
            index = self._modules_in(self._access.whole)
            modules = await to_thread.run_sync(partial(index.used, chain.code, types=False))
            imported = {module.name: [one.name for one in module.functions] for module in modules}
            known = {**self.modules(viewer).names, **imported}  # a suggestion names nothing else
            program = chain.program(call.arguments, modules, known=known)
            about = RequestContext(viewer=viewer, request_id=call.entry.request_id)
            runner = self._runner(about, call.caller, saved=chain)
            run = await runner.run(
                program,
                timeout_s=min(spec.timeouts.call_s, LONGEST_MS / 1_000),
                progress=_progress(call.caller),
                within=within.account if isinstance(within, RunningChain) else None,
            )
        if within:
            return _value(run)
        self._note(_EndedChain(about=about, code=chain.code, run=run, saved=name))
        keep = partial(self._results.keep, viewer.principal)
        return (await _told(run, chain.code, keep, MAX_OUTPUT_SIZE)).to_result()

    def _limits(self) -> ChainLimits:
        settings = self._context.settings.chain
        return ChainLimits(
            cpu_s=settings.cpu_s,
            memory_bytes=settings.memory_bytes,
            calls=settings.max_calls,
            in_flight=settings.max_in_flight,
        )

    def _note(self, ended: "_EndedChain", result: Mapping[str, Any] | None = None) -> None:
        """Record a chain, with the result that an agent reads; a check only if an agent asked for it."""
        run, about = ended.run, ended.about
        tokens = tokens_of(result) if result is not None else 0
        text = text_of(result) if result is not None and self._auditing.keeps_tool_answers else ""
        if run is None:
            if result is not None or not ended.is_check:
                outcome = ended.fault or "ok"
                detail = "checked only" if ended.is_check else ""
                self._auditing.chain(
                    about, ended.code, outcome=outcome, detail=detail, tokens=tokens, text=text
                )
            return
        fault = run.outcome.fault
        log.info(
            "chain ended",
            chain=run.chain_id,
            saved=ended.saved,
            principal=about.viewer.principal,
            calls=len(run.calls),
            ms=round(run.ms),
            fault=fault.kind if fault else "",
        )
        self._auditing.chain(
            replace(about, chain_id=run.chain_id),
            ended.code,
            outcome=fault.kind if fault else "ok",
            detail=count_of(len(run.calls), "call"),
            ms=run.ms,
            name=ended.saved,
            tokens=tokens,
            text=text,
        )

    def _runner(self, about: RequestContext, client: Caller, saved: SavedChain | None = None) -> ChainRunner:
        viewer = about.viewer
        caller = ChainCaller(client)
        reads = saved is not None and saved.read_only

        async def find(name: str) -> ChainTarget:
            async with self._auditing.entry(about, "call", name):  # the entry records a refusal, too
                tool = await self._lookup.callable_tool(self._named(name, viewer), viewer)
                if reads and not tool.read_only:
                    raise ToolWithheldError(
                        tool.name, "a chain that is saved as read-only cannot call what may write"
                    )

            async def call(arguments: Mapping[str, Any], account: Account) -> dict[str, Any]:
                request = ToolCall(name=tool.name, arguments=arguments, request_id=about.request_id)
                chain = RunningChain(account=account, saved=saved is not None)
                made = Call(request=request, viewer=viewer, caller=caller, chain=chain)
                return (await self._proceed(made)).wire

            nested = self._context.is_composed(tool.server)
            return ChainTarget(
                name=tool.name, call=call, nested=nested, parameters=partial(self._lookup.parameters, tool)
            )

        engine = self._inner if saved else self._engine
        return ChainRunner(engine, find, limits=self._limits(), estimate=estimate)

    def _named(self, name: str, viewer: Viewer) -> str:
        """The published name of a tool that may be written as `server.tool`."""
        module, dot, function = name.partition(".")
        if not dot or name in self._context.snapshot.by_name:
            return name
        tool = self.modules(viewer).tool(module, function)
        return tool.name if tool else name


@dataclass(frozen=True, kw_only=True)
class _EndedChain:
    """A chain that ended, and its answer. `run` is `None` if it did not begin, since it has a fault."""

    about: RequestContext
    code: str
    answer: ChainAnswer = _NO_ANSWER
    run: ChainRun | None = None
    fault: str = ""
    saved: str = ""
    is_check: bool = False


async def _told(run: ChainRun, code: str, keep: Keep, size: int) -> ChainAnswer:
    """The answer. For a large result, a thread makes it."""
    tell = partial(answer, run, code, estimate=estimate, max_output_size=size)
    if max(run.outcome.bytes, sum(receipt.bytes for receipt in run.calls)) < _LARGE_BYTES:
        return tell(keep=keep)
    return await to_thread.run_sync(partial(tell, keep=lambda whole: from_thread.run_sync(keep, whole)))


def _value(run: ChainRun) -> dict[str, Any]:
    """The value of a saved chain for the calling chain, or the reason why there is none."""
    fault = run.outcome.fault
    if fault is None:
        return {"content": [], "structuredContent": run.outcome.value}
    where = f"line {fault.line}: " if fault.line else ""
    return {"content": [text_block(f"{where}{fault.message}")], "isError": True}


def _progress(caller: Caller) -> Progress | None:
    return caller.progress if caller.wants_progress else None


def _kept_nowhere(_: dict[str, Any]) -> str:
    return ""
