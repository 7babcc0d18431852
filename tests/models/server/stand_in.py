"""A stand-in for the servers of vLLM 0.33.0 and SGLang 0.5.23, which answers with a tiny model, and fails as asked.

It takes the arguments of both command lines and speaks the parts of both protocols that medtune uses, with the checks
of the real servers. Names and checks were read in the wheels' own sources: vllm/engine/arg_utils.py,
vllm/entrypoints/common/cli_args.py, vllm/entrypoints/scale_out/token_in_token_out, vllm/sampling_params.py,
sglang/srt/arg_groups/fields, sglang/srt/managers/io_struct.py and tokenizer_manager.py.

Run as a Python of an engine's environment (`STAND_IN -m vllm.entrypoints.cli.main serve FOLDER ...`) it serves FOLDER.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.models.server.tiny_model import TinyModel

VLLM_VERSION, SGLANG_VERSION = "0.33.0", "0.5.23"
CLAMPED = -9999.0
_SAMPLING = {
    "temperature", "max_tokens", "stop_token_ids", "ignore_eos", "logprobs", "logprob_token_ids", "prompt_logprobs",
}  # fmt: skip
"""The fields of vLLM's SamplingParams that are understood here; the real one refuses unknown fields as well."""


class RefusedError(Exception):
    """A request that the real server answers with an error status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class StandIn:
    """The two protocols over one tiny model.

    Attributes:
        bodies: The requests, as (path, body), in the order of their arrival.
        fault: What the server does wrong; "" for nothing.
        before: Called with the number of the request before it is answered.
    """

    def __init__(
        self, model: TinyModel, *, max_logprobs: int = 128, pictures: int = 16, scale_out: bool = True
    ) -> None:
        self.model = model
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.fault = ""
        self.before: Callable[[int], object] = lambda number: None
        self.address = ""
        self._max_logprobs, self._pictures, self._scale_out = max_logprobs, pictures, scale_out
        self._lock = threading.Lock()

    def get(self, path: str) -> dict[str, Any]:
        if path == "/version":
            return {"version": VLLM_VERSION}
        if path == "/server_info":
            return {"version": SGLANG_VERSION}
        if path == "/health":
            return {}
        raise RefusedError(404, "Not Found")

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append((path, body))
        self.before(len(self.bodies))
        with self._lock:
            if path == "/inference/v1/generate":
                return self._vllm(body)
            if path == "/generate":
                return self._sglang(body)
        raise RefusedError(404, "Not Found")

    def _rows(self, read: list[int], pixels: Any) -> Any:
        rows = self.model.logprobs(read, pixels)
        if self.fault == "other weights":
            import torch

            noise = torch.Generator().manual_seed(0)
            rows = (rows + torch.randn(rows.shape, generator=noise)).log_softmax(-1)
        return rows

    def _prepared(self, ids: list[int], urls: list[str]) -> tuple[list[int], Any]:
        if len(urls) > self._pictures:
            raise RefusedError(400, f"At most {self._pictures} image(s) may be provided in one prompt.")
        try:
            read, pixels = self.model.filled(ids, urls)
        except ValueError as error:
            raise RefusedError(400, str(error)) from error
        return ([read[0], *read] if self.fault == "template" else read), pixels

    def _greedy(self, read: list[int], pixels: Any, *, most: int, stop: set[int]) -> tuple[list[int], str]:
        reply: list[int] = []
        while len(reply) < most:
            reply.append(int(self._rows([*read, *reply], pixels)[-1].argmax()))
            if reply[-1] in stop:
                return reply, "stop"
        return reply, "length"

    def _vllm(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self._scale_out:
            raise RefusedError(403, "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out")
        asked = body["sampling_params"]
        if unknown := asked.keys() - _SAMPLING:
            raise RefusedError(400, f"Unexpected sampling parameters {sorted(unknown)}")
        ids = asked.get("logprob_token_ids")
        if ids is not None and (len(ids) > 128 or asked.get("logprobs") != len(ids)):
            raise RefusedError(400, "logprobs must equal len(logprob_token_ids)")
        if (asked.get("logprobs") or 0) > self._max_logprobs:
            raise RefusedError(400, "which is greater than max allowed")
        if asked["max_tokens"] < 1:
            raise RefusedError(400, "max_tokens must be at least 1")
        read, pixels = self._prepared(body["token_ids"], [part["url"] for part in body.get("content_parts") or ()])
        stop = set(asked.get("stop_token_ids") or ())
        if not asked.get("ignore_eos") and self.model.eos is not None:
            stop.add(self.model.eos)
        reply, why = self._greedy(read, pixels, most=asked["max_tokens"], stop=stop)
        first = self._rows(read, pixels)
        choice = {"index": 0, "finish_reason": why, "token_ids": reply, "logprobs": None, "stop_reason": None}
        if ids is not None:
            kept = list(dict.fromkeys([reply[0], *ids]))[: 1 if self.fault == "dropped rows" else None]
            top = [{"token_id": id_, "logprob": self._shown(first[-1, id_]), "rank": None} for id_ in kept]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        rows: list[Any] | None = None
        if asked.get("prompt_logprobs") is not None:
            rows = [None, *(
                {str(id_): {"logprob": self._shown(first[at, id_]), "rank": 1, "decoded_token": None}}
                for at, id_ in enumerate(read[1:])
            )]  # fmt: skip
            rows = rows[5:] if self.fault == "dropped rows" else rows
        return {
            "request_id": "generate-tokens-1", "model": "tiny", "choices": [choice], "prompt_logprobs": rows,
            "prompt_token_ids": read if body.get("return_token_ids") and self.fault != "silent" else None,
            "output_mode": "tokens",
        }  # fmt: skip

    def _sglang(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = body["sampling_params"]
        if asked.get("max_new_tokens", 128) < 0:
            raise RefusedError(400, "max_new_tokens must be at least 0")
        read, pixels = self._prepared(body["input_ids"], body.get("image_data") or [])
        stop = {*asked.get("stop_token_ids", ()), *({self.model.eos} if self.model.eos is not None else ())}
        reply, why = self._greedy(read, pixels, most=asked.get("max_new_tokens", 128), stop=stop)
        about: dict[str, Any] = {"id": "1", "finish_reason": {"type": why}, "prompt_tokens": len(read)}
        if body.get("return_logprob"):
            start = body.get("logprob_start_len", -1)
            rows = self._rows(read, pixels)
            told: list[Any] = [[None, read[start], None]]
            told += [[self._shown(rows[at - 1, read[at]]), read[at], None] for at in range(start + 1, len(read))]
            about["input_token_logprobs"] = told[:-1] if self.fault == "dropped rows" else told
        shown = {"prompt_token_ids": read} if body.get("return_prompt_token_ids") and self.fault != "silent" else {}
        return {"text": "", "output_ids": reply, "meta_info": about, **shown}

    def _shown(self, value: Any) -> float:
        return CLAMPED if self.fault == "clamped" else float(value)


@contextmanager
def serving(stand_in: StandIn | None, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """Serves on a port; without a stand-in only /health answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(lambda: stand_in.get(self.path) if stand_in else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._say(lambda: stand_in.post(self.path, body) if stand_in else {})

        def _say(self, found: Callable[[], dict[str, Any]]) -> None:
            try:
                status, said = 200, found()
            except RefusedError as error:
                status, said = error.status, {"error": {"message": str(error), "code": error.status}}
            except ConnectionError:
                self.close_connection = True
                self.connection.close()
                return
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Prints no log."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    if stand_in is not None:
        stand_in.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Returns the arguments of one of the two command lines; the real ones refuse unknown arguments too."""
    module, rest = arguments[1], arguments[2:]
    assert arguments[0] == "-m"
    parser = argparse.ArgumentParser(module, allow_abbrev=False)
    for name in ("--host", "--served-model-name", "--dtype"):
        parser.add_argument(name)
    parser.add_argument("--port", type=int)
    if module == "vllm.entrypoints.cli.main":
        assert rest.pop(0) == "serve"
        parser.add_argument("model")
        parser.add_argument("--seed", type=int)
        parser.add_argument("--enable-scale-out", action="store_true")
        parser.add_argument("--generation-config")
        parser.add_argument("--max-logprobs", type=int, default=20)
        parser.add_argument("--limit-mm-per-prompt", type=json.loads, default={})
        parser.add_argument("--max-model-len", type=int)
    else:
        assert module == "sglang.launch_server"
        parser.add_argument("--model-path", dest="model", required=True)
        parser.add_argument("--random-seed", type=int)
        parser.add_argument("--context-length", type=int)
    return parser.parse_args(rest)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    fault = os.environ.get("STAND_IN", "")
    # The real servers have processes of their own below the first.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(f"started with child {child.pid}", flush=True)
    if fault == "broken":
        print("ValueError: the checkpoint is broken", flush=True)
        child.kill()
        return 3
    time.sleep({"slow": 1.0, "never": 600.0}.get(fault, 0.0))
    stand_in = None
    if fault not in ("slow", "light"):
        from tests.models.server.tiny_model import TinyModel

        is_vllm = hasattr(options, "enable_scale_out")
        stand_in = StandIn(
            TinyModel(Path(options.model), dtype=options.dtype),
            max_logprobs=getattr(options, "max_logprobs", 128),
            pictures=getattr(options, "limit_mm_per_prompt", {}).get("image", 16),
            scale_out=not is_vllm or options.enable_scale_out,
        )
        stand_in.fault = fault
    with serving(stand_in, options.port):
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
