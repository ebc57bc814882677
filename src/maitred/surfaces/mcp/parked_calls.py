"""Calls that wait for the answers of a client of the stateless era, which takes no requests of its server.

Such a client asks by calling. If a server of the handshake era asks a question during the call, the client's
request is answered `input_required`, and the call is parked: its server still works on it. The client makes
the same request again with the answers and the `requestState`, which finds the parked call. That is signed,
works once, and fits only the principal, the tool and the arguments that it was made for. A parked call that
its client does not continue in time is cancelled at its server. Where several gateways serve clients, the
state names the one that has the call, to which the others pass the answers on. If that one has ended, the
call has ended with it, and is not made again.
"""

import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from maitred.background import Background
from maitred.errors import CallerRefusedError, MaitredError, ReplicaGoneError
from maitred.model.tools import canonical
from maitred.replicas.forwarding import ReplicaRequest, Replicas
from maitred.surfaces.mcp.caller import Link, StatelessCaller

PREFIX: Final = "maitred-parked."
"""How our states begin; a state of a server that asks in this era itself goes through unchanged."""

MOST_PARKED: Final = 32
_KIND: Final = "parked call"
_OWNER_GONE: Final = (
    "the gateway that had this call has ended, and the call with it; it may have taken effect, so look before"
    " you make the request again without `requestState`"
)
_NEVER: Final = float("inf")
_NOT_AT_2026: Final = frozenset({"elicitationId", "task"})

Work = Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class ParkableRequest:
    """A request of a client, as far as a parked call is bound to it."""

    principal: str
    method: str
    name: str
    arguments: Mapping[str, Any]
    request_state: Any
    input_responses: Any

    @property
    def continues(self) -> bool:
        """Whether it continues a parked call."""
        return isinstance(self.request_state, str) and self.request_state.startswith(PREFIX)

    @property
    def binding(self) -> bytes:
        """A digest of what the state of a parked call is bound to."""
        parts = [self.principal, self.method, self.name, dict(self.arguments)]
        return sha256(canonical(parts)).digest()


class _Question:
    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self.request = {
            "method": method,
            "params": {key: value for key, value in params.items() if key not in _NOT_AT_2026},
        }
        self.answered = anyio.Event()
        self.answer: dict[str, Any] = {}
        self.until = _NEVER


class _Parked:
    """A call in a task of its own: its client waits for news of it, or has yet to come back."""

    def __init__(self, request: ParkableRequest, caller: StatelessCaller, owner: str) -> None:
        self.id = f"{owner}-{secrets.token_hex(8)}" if owner else secrets.token_hex(8)
        self.principal = request.principal
        self.caller = caller
        self.round = 0
        self.scope = anyio.CancelScope()
        self.questions: dict[str, _Question] = {}
        self.is_over = False
        self.result: dict[str, Any] | None = None
        self.error: Exception | None = None
        self.taken = anyio.Event()
        self._asked = 0
        self._news = anyio.Event()

    @property
    def is_parked(self) -> bool:
        """Whether no request of the client waits for it."""
        return self.caller.link is None

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client; returns its answer."""
        self._asked += 1
        key, question = f"question-{self._asked}", _Question(method, params)
        self.questions[key] = question
        self._news.set()
        try:
            await question.answered.wait()
        finally:
            self.questions.pop(key, None)
        return question.answer

    def take(self, responses: Mapping[str, Any]) -> None:
        """Hand answers to the questions that are still open."""
        for key, answer in responses.items():
            if isinstance(answer, Mapping) and (question := self.questions.pop(key, None)):
                question.answer = dict(answer)
                question.answered.set()

    async def news(self) -> None:
        """Wait until the call is over or asks; if the client cancels its request, cancel the call."""
        try:
            while not self.is_over and not self.questions:
                self._news = anyio.Event()
                await self._news.wait()
        except BaseException:
            self.scope.cancel()
            self.taken.set()
            raise

    async def run(self, work: Work) -> None:
        """Make the call; its outcome is kept until the client takes it, or comes too late."""
        try:
            with self.scope:
                self.result = await work()
        except Exception as error:  # noqa: BLE001  # the client's request gets every error of its call
            self.error = error
        finally:
            self.is_over = True
            self._news.set()
        with anyio.CancelScope(deadline=self.scope.deadline):
            await self.taken.wait()


class ParkedCalls:
    """The calls of a surface that are parked, or may be; `park_s` is how long one waits for its client."""

    def __init__(
        self,
        park_s: Callable[[], float],
        *,
        replicas: Replicas | None = None,
        sign: Callable[[str, bytes], str] | None = None,
    ) -> None:
        self._park_s = park_s
        self._secret = secrets.token_bytes(32)
        self._replicas = replicas
        self._sign = sign or self._sign_alone
        if replicas is not None:
            with suppress(ValueError):  # a gateway has one surface for clients over HTTP, which was first
                replicas.register(_KIND, self._answer_replica)
        self._calls: dict[str, _Parked] = {}
        self._background = Background()

    @property
    def count(self) -> int:
        """How many calls wait for their clients to come back."""
        return sum(one.is_parked for one in self._calls.values())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Keep parked calls until the context is left, which cancels them."""
        async with self._background:
            yield

    async def answer(self, request: ParkableRequest, caller: StatelessCaller, work: Work) -> dict[str, Any]:
        """The answer of `work`, or the question that its server asks meanwhile, or what came of that.

        Raises:
            MCPError: The request continues no parked call.
            Exception: What `work` raises.
        """
        if request.continues:
            return await self._continued(request, caller)
        if not self._background.is_open:
            return await work()
        parked = _Parked(request, caller, self._owner())
        self._calls[parked.id] = parked

        async def ask(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            held = sum(one.is_parked and one.principal == parked.principal for one in self._calls.values())
            if held >= MOST_PARKED:
                why = f"{held} calls of {parked.principal!r} wait for answers already"
                raise CallerRefusedError(INTERNAL_ERROR, why)
            return await parked.ask(method, params)

        caller.park = ask
        self._background.start(self._run, parked, work)
        return await self._outcome(parked, request)

    async def _run(self, parked: _Parked, work: Work) -> None:
        try:
            await parked.run(work)
        finally:
            self._calls.pop(parked.id, None)

    def _checked(self, request: ParkableRequest) -> tuple[str, str]:
        """The id of the call that a request continues, and the number of its round.

        Raises:
            MCPError: The state was not made for this request.
        """
        call_id, _, rest = request.request_state.removeprefix(PREFIX).partition(".")
        number, _, signature = rest.partition(".")
        expected = self._signature(call_id, number, request)
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            raise MCPError(
                INVALID_PARAMS,
                "this `requestState` is not one that the gateway made for this principal, this tool and these"
                " arguments, or the gateway was started again since; make the request without it",
            )
        return call_id, number

    async def _continued(self, request: ParkableRequest, caller: StatelessCaller) -> dict[str, Any]:
        call_id, number = self._checked(request)
        owner = call_id.rpartition("-")[0]
        if owner != self._owner() and self._replicas is not None:
            return await self._continue_at(self._replicas, owner, request)
        return await self._go_on(call_id, number, request, caller.link)

    async def _go_on(
        self, call_id: str, number: str, request: ParkableRequest, link: Link | None
    ) -> dict[str, Any]:
        parked = self._calls.get(call_id)
        if parked is None or not parked.is_parked or str(parked.round) != number:
            raise self._late()
        parked.scope.deadline = _NEVER
        parked.caller.link = link
        responses = request.input_responses
        parked.take(responses if isinstance(responses, Mapping) else {})
        return await self._outcome(parked, request)

    # --- several gateways ---------------------------------------------------------------------------------

    def _owner(self) -> str:
        """The name of this gateway among several; empty if it is alone."""
        return self._replicas.id if self._replicas is not None and self._replicas.is_member else ""

    async def _continue_at(self, replicas: Replicas, owner: str, request: ParkableRequest) -> dict[str, Any]:
        """Pass the answers on to the gateway that has the call.

        Raises:
            MCPError: It has ended, or it answered with that error.
        """
        try:
            answer = await replicas.forward(owner, _KIND, asdict(request))
        except ReplicaGoneError as error:
            raise MCPError(INVALID_PARAMS, f"{_OWNER_GONE} ({error.reason})") from error
        except MaitredError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error
        if (failed := answer.get("error")) is not None:
            raise MCPError(failed["code"], failed["message"], failed["data"])
        result: dict[str, Any] = answer["result"]
        return result

    async def _answer_replica(self, asked: ReplicaRequest) -> dict[str, Any]:
        """Go on with a call for another gateway, to which its client sent the answers."""
        request = ParkableRequest(**asked.body)
        try:
            call_id, number = self._checked(request)
            return {"result": await self._go_on(call_id, number, request, _FarLink())}
        except MCPError as error:
            return {"error": {"code": error.code, "message": error.message, "data": error.error.data}}

    def _late(self) -> MCPError:
        return MCPError(
            INVALID_PARAMS,
            "this `requestState` was used already, or its time is up (limits.parked_call_s is"
            f" {self._park_s():g} s) and the call was cancelled; make the request without it",
        )

    async def _outcome(self, parked: _Parked, request: ParkableRequest) -> dict[str, Any]:
        """Wait for the end of a call or for its next question."""
        await parked.news()
        if parked.is_over:
            parked.taken.set()
            if parked.error is not None:
                raise parked.error
            if parked.result is None:
                raise self._late()
            return parked.result
        parked.caller.link = None
        parked.round += 1
        until = anyio.current_time() + self._park_s()
        for question in parked.questions.values():  # a client that repeats its request gets no more time
            question.until = min(question.until, until)
        parked.scope.deadline = min(question.until for question in parked.questions.values())
        number = str(parked.round)
        return {
            "resultType": "input_required",
            "inputRequests": {key: one.request for key, one in parked.questions.items()},
            "requestState": f"{PREFIX}{parked.id}.{number}.{self._signature(parked.id, number, request)}",
        }

    def _signature(self, call_id: str, number: str, request: ParkableRequest) -> str:
        signed = b"\0".join([call_id.encode(), number.encode(), request.binding])
        return self._sign("parked call", signed)

    def _sign_alone(self, _: str, data: bytes) -> str:
        return hmac.new(self._secret, data, sha256).hexdigest()


class _FarLink:
    """The way back to a client that is at another gateway, which does not hear of progress meanwhile."""

    can_send_request = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refused: this era has no requests to clients."""
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Dropped."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Dropped."""
