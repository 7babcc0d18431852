"""A stand-in of the Hugging Face hub on this machine, which answers with the real status codes and headers."""

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = "nobody/tiny-vlm"
FIRST, SECOND = "a" * 40, "b" * 40
"""Commits of the repository."""


def write_cache(
    cache: Path, revisions: Mapping[str, Path], *, refs: Mapping[str, str], where: str = REPOSITORY
) -> None:
    """Writes a repository with the given commits (commit -> folder with its files) and branches (name -> commit)."""
    root = cache / f"models--{where.replace('/', '--')}"
    for commit, folder in revisions.items():
        shutil.copytree(folder, root / "snapshots" / commit)
    for name, commit in refs.items():
        (root / "refs" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "refs" / name).write_text(commit)


@dataclass
class Hub:
    """What the stand-in holds and how it refuses."""

    repository: str  # Hub id of its only repository.
    commit: str  # The commit of the branch main.
    folder: Path  # The folder with the repository's files.
    # Status and X-Error-Code for requests whose path contains a text.
    refusals: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    # The metadata of the card, and whether the repository is gated.
    card: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # The paths that were asked for.

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers and body for a path."""
        self.asked.append(path)
        for text, (status, code) in self.refusals.items():
            if text in path:
                return status, {} if code is None else {"X-Error-Code": code, "X-Error-Message": code}, b""
        if path == "/":
            return 200, {}, b""
        api, _, at = path.partition(f"/{self.repository}")
        if not at and api == path:
            return 401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Invalid username or password."}, b""
        if "/tree/" in at:
            return 200, {"Content-Type": "application/json"}, json.dumps(self._tree()).encode()
        if "/resolve/" in at:
            return self._file(at.partition("/resolve/")[2].partition("/")[2])
        said = {"id": self.repository, "sha": self.commit, "siblings": [], **self.card}
        return 200, {"Content-Type": "application/json"}, json.dumps(said).encode()

    def _tree(self) -> list[dict[str, object]]:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return [
            {
                "type": "file",
                "oid": _etag(path),
                "size": path.stat().st_size,
                "path": str(path.relative_to(self.folder)),
            }
            for path in files
        ]

    def _file(self, name: str) -> tuple[int, dict[str, str], bytes]:
        path = self.folder / name
        if not path.is_file():
            return 404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}, b""
        return 200, {"X-Repo-Commit": self.commit, "ETag": f'"{_etag(path)}"'}, path.read_bytes()


def _etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    """Serves the stand-in while the context lasts and yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(body=True)

        def do_HEAD(self) -> None:
            self._send(body=False)

        def _send(self, *, body: bool) -> None:
            status, headers, content = hub.answer(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Keeps the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
