"""A local OpenAI-compatible server for tests, which answers, streams, stalls, breaks off or refuses as a test wants."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-0123456789-never-to-be-seen"
SERVED_MODEL = "test-model-2026-11-01"


@dataclass(frozen=True)
class Said:
    """A response of the server."""

    body: object = None  # The body of the response, as JSON or as raw text.
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    silence_s: float = 0.0  # Seconds that the server waits before it responds.
    hold: Callable[[], object] = lambda: None  # Function that is called before the server responds.
    pieces: tuple[object, ...] | None = None  # Server-sent events instead of `body`.


def completion(text: str | None, *, finish: str = "stop", refusal: str | None = None, tokens: int = 100) -> Said:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    usage = {"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2}
    return Said({"id": "c", "object": "chat.completion", "created": 1, "model": SERVED_MODEL, "choices": [choice],
                 "usage": usage})  # fmt: skip


def streamed(*words: str, finish: str | None = "stop") -> Said:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": SERVED_MODEL}
    pieces: list[object] = [
        {**base, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in words
    ]
    if finish:
        pieces.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        pieces.append({**base, "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    return Said(pieces=(*pieces, *(["[DONE]"] if finish else [])))


def failure(status: int, *, message: str = "no", code: str | None = None, **headers: str) -> Said:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Said({"error": {"message": message, "code": code, "type": "t"}}, status, named)


class ChatServer:
    """A server whose response to a request is what `reply` returns for the request's body.

    Attributes:
        bodies: Bodies of the requests, in the order of their arrival.
        keys: Authorization headers of the requests.
        most_at_once: Largest number of requests that were open at the same time.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.times_s: list[float] = []
        self.most_at_once = 0
        self.reply: Callable[[dict[str, Any]], Said] = lambda body: completion("yes")
        self._open = 0
        self._lock = threading.Lock()
        self.base_url = ""

    def script(self, *replies: Said) -> None:
        """Returns a function that gives these replies in turn and then repeats the last one."""
        left = list(replies)
        self.reply = lambda body: left.pop(0) if len(left) > 1 else left[0]

    def take(self, body: dict[str, Any], key: str | None) -> Said:
        with self._lock:
            self.bodies.append(body)
            self.keys.append(key)
            self.times_s.append(time.monotonic())
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
            said = self.reply(body)
        time.sleep(said.silence_s)
        said.hold()
        with self._lock:
            self._open -= 1
        return said


def asked_text(body: Mapping[str, Any]) -> str:
    """Returns the text of a request."""
    content = body["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


@contextmanager
def serving() -> Iterator[ChatServer]:
    chat = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = chat.take(body, self.headers.get("Authorization"))
            try:
                self._send(said)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _send(self, said: Said) -> None:
            text = said.body if isinstance(said.body, str) else json.dumps(said.body)
            kind = "application/json"
            if said.pieces is not None:
                events = [piece if isinstance(piece, str) else json.dumps(piece) for piece in said.pieces]
                text, kind = "".join(f"data: {event}\n\n" for event in events), "text/event-stream"
            content = text.encode()
            self.send_response(said.status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Prints no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    chat.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
