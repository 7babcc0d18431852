"""Tests uploads to the hub, against a server on this machine that speaks the hub's protocol as far as they need it."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from medtune.models.weights import hub as module
from medtune.models.weights.hub import PROOF, PushError, check_public, check_repo, push


class Receiver(BaseHTTPRequestHandler):
    """Takes a new repository and the files of a commit."""

    taken: dict[str, object]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/repos/create":
            self.taken["create"] = json.loads(body)
            self._answer({"url": f"http://{self.headers['Host']}/ann/model", "name": "ann/model"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            how = {"uploadMode": "regular", "shouldIgnore": False}
            self._answer({"files": [{"path": file["path"], **how} for file in files]})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            self.taken["message"] = lines[0]["value"]["summary"]
            self.taken["files"] = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in lines[1:]
            }
            where = f"http://{self.headers['Host']}/ann/model/commit/1"
            self._answer({"commitUrl": where, "commitOid": "1", "success": True})
        else:
            self.send_error(404)

    def do_GET(self) -> None:
        self._answer({"id": "ann/model", "sha": "0", "siblings": []})

    def _answer(self, said: object) -> None:
        told = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    Receiver.taken = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(module, "HfApi", lambda: HfApi(endpoint=address, token="hf_test"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    yield Receiver.taken
    server.shutdown()
    server.server_close()


@pytest.fixture
def proven(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / PROOF).write_text(json.dumps({"samples": 2}))
    (folder / "README.md").write_text("# A model\n\nbase model: Qwen/Qwen2.5-VL-7B-Instruct\n")
    return folder


def test_a_proven_folder_is_uploaded_as_it_is(hub: dict[str, object], proven: Path) -> None:
    assert push(proven, "ann/model", private=True, message="a tuned model").endswith("/ann/model")
    created = hub["create"]
    assert isinstance(created, dict)
    assert (created["name"], created["organization"], created["visibility"]) == ("model", "ann", "private")
    assert hub["message"] == "a tuned model"
    assert hub["files"] == {path.name: path.read_bytes() for path in proven.iterdir()}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", '{"path": "/home/ann/data"}', "names '/home/ann/data'"),
        ("README.md", "root: /mnt/hospital/scans", "names '/mnt/hospital/scans'"),
        ("questions.csv", "patient", r"no export has such a file"),
        ("README.md", "by annabel", "names 'annabel'"),
    ],
)
def test_what_says_something_of_this_machine_is_refused(
    name: str, text: str, message: str, proven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "annabel")
    check_public(proven)
    (proven / name).write_text(text)
    with pytest.raises(PushError, match=message):
        check_public(proven)


def test_an_export_without_proof_is_refused(proven: Path) -> None:
    (proven / PROOF).unlink()
    with pytest.raises(PushError, match="only a proven export is uploaded"):
        push(proven, "ann/model", private=False, message="")


def test_what_is_missing_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "get_token", lambda: None)
    with pytest.raises(PushError, match="run `hf auth login`, or set HF_TOKEN"):
        check_repo("ann/model")
    with pytest.raises(PushError, match="ann/b/c"):
        check_repo("ann/b/c")


def test_a_hub_that_is_not_there_leaves_the_export(proven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HfApi", lambda: HfApi(endpoint="http://127.0.0.1:9", token="hf_test"))
    with pytest.raises(PushError, match=r"the hub was not reached.*the export stays in"):
        push(proven, "ann/model", private=False, message="")
    assert (proven / PROOF).is_file()


def test_a_refusal_of_the_hub_is_told(proven: Path, hub: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: BaseHTTPRequestHandler) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(403)

    monkeypatch.setattr(Receiver, "do_POST", refuse)
    monkeypatch.setattr(Receiver, "do_GET", lambda self: self.send_error(404))
    with pytest.raises(PushError, match=r"the hub refused ann/model: .*Is the token allowed to write"):
        push(proven, "ann/model", private=False, message="")
