"""A real HTTP server on loopback that speaks the protocols of OpenAI and Anthropic, well or badly.

It answers `POST /v1/chat/completions`, `/v1/embeddings` and `/v1/messages` as `behaviour` says, which may be
changed between two requests:

- `good`: chats answer with `reply`, or what it makes of the request; embeddings count letters, and come in
  reverse order as is allowed
- `refusing`: HTTP 200 with a refusal instead of an answer
- `cut`: as `good`, but the answer ended at the limit of tokens
- `uncounted`: as `good`, but without counts of tokens, as some local servers answer
- `limited`: HTTP 429, as when there were too many questions
- `slow`: never answers; `hung_up` is set when the client gives up
- `garbage`: HTTP 200 with a page of HTML
- `empty`: HTTP 200 with JSON of another shape
- `failing`: HTTP 500 whose body quotes the credentials it was sent, as careless proxies do
- `short`: one embedding too few; `ragged`: embeddings of unequal lengths; `nan`: ones that are no numbers
"""

import json
import socket
import string
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Json = Mapping[str, Any]
Vendor = Literal["openai", "anthropic"]
LETTERS = string.ascii_lowercase + "."
_LONGEST_WAIT_S = 20


@dataclass(frozen=True)
class Request:
    """What the endpoint saw."""

    path: str
    headers: Mapping[str, str]
    body: Json

    @property
    def credentials(self) -> str:
        return self.headers.get("authorization", "") or self.headers.get("x-api-key", "")


@dataclass
class OpenAiServer:
    """A running server; `origin` has no path, `url` is what OpenAI's clients call the base URL.

    `tokens` are those of a question and of an answer, as chats count them.
    """

    origin: str
    behaviour: str = "good"
    reply: str | Callable[[Request], str] = "[1]"
    tokens: tuple[int, int] = (1, 1)
    requests: list[Request] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def answer(self, request: Request) -> tuple[int, bytes, str]:
        """The status, body and content type for a request."""
        if self.behaviour == "garbage":
            return 200, b"<html>It works!</html>", "text/html"
        if self.behaviour == "empty":
            return 200, b'{"object": "list"}', "application/json"
        if self.behaviour in {"failing", "limited"}:
            error = {"error": {"message": f"upstream refused {request.credentials}", "type": "server_error"}}
            status = 500 if self.behaviour == "failing" else 429
            return status, json.dumps(error).encode(), "application/json"
        return 200, json.dumps(self._good(request)).encode(), "application/json"

    def _good(self, request: Request) -> Json:
        model = request.body["model"]
        if request.path == "/v1/embeddings":
            return {"object": "list", "model": model, "data": self._embeddings(request.body["input"])}
        reply = self.reply if isinstance(self.reply, str) else self.reply(request)
        return (self._anthropic if request.path == "/v1/messages" else self._openai)(model, reply)

    def _anthropic(self, model: str, reply: str) -> Json:
        content = [] if self.behaviour == "refusing" else [{"type": "text", "text": reply}]
        reason = {"refusing": "refusal", "cut": "max_tokens"}.get(self.behaviour, "end_turn")
        usage = {"input_tokens": self.tokens[0], "output_tokens": self.tokens[1]}
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content,
            "stop_reason": reason, "stop_sequence": None,
            **({} if self.behaviour == "uncounted" else {"usage": usage}),
        }  # fmt: skip

    def _openai(self, model: str, reply: str) -> Json:
        refused = self.behaviour == "refusing"
        text = {"content": None, "refusal": "I cannot help."} if refused else {"content": reply}
        reason = "length" if self.behaviour == "cut" else "stop"
        choice = {"index": 0, "message": {"role": "assistant", **text}, "finish_reason": reason}
        usage = {
            "prompt_tokens": self.tokens[0],
            "completion_tokens": self.tokens[1],
            "total_tokens": sum(self.tokens),
        }
        return {
            "id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice],
            **({} if self.behaviour == "uncounted" else {"usage": usage}),
        }  # fmt: skip

    def _embeddings(self, texts: Sequence[str]) -> Sequence[Json]:
        rows: list[list[float]] = [letters(text) for text in texts]
        if self.behaviour == "short":
            rows.pop()
        if self.behaviour == "ragged":
            rows[0].pop()
        if self.behaviour == "nan":
            rows[0][0] = float("nan")
        items = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
        return items[::-1]


def letters(text: str) -> list[float]:
    """How often each letter stands in a text: texts of the same letters lie near each other."""
    return [float(text.lower().count(letter)) for letter in LETTERS]


@contextmanager
def openai_server(behaviour: str = "good", *, reply: str = "[1]") -> Iterator[OpenAiServer]:
    """Serve on a free port until the block is left."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as listener:
        owner = OpenAiServer(f"http://127.0.0.1:{listener.server_port}", behaviour, reply)
        listener.owner = owner  # type: ignore[attr-defined]  # the handler finds it there
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield owner
        finally:
            listener.shutdown()
            thread.join()


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        owner: OpenAiServer = self.server.owner  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body)
        owner.requests.append(request)
        owner.asked.set()
        if owner.behaviour == "slow":
            self._wait(owner)
            return
        status, answer, kind = owner.answer(request)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _wait(self, owner: OpenAiServer) -> None:
        """Until the client closes its end."""
        self.close_connection = True
        self.connection.settimeout(_LONGEST_WAIT_S)
        try:
            left = self.connection.recv(1) == b""
        except ConnectionError:
            left = True
        except TimeoutError:
            left = False
        if left:
            owner.hung_up.set()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's signature
        """Tests say what went wrong."""
