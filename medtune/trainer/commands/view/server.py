"""Serves the page over all runs, their reports and comparisons on the loopback address, and nothing else."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from medtune.eval.report.runs.overview import REPORT, RunLine, overview_html, runs_below
from medtune.eval.report.write import write_runs
from medtune.trainer.commands.compare import paired_runs

LOOPBACK = "127.0.0.1"
_HTTP_PORT = 80
_OWN = "frame-ancestors 'none'"
_CLOSED = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    f"{_OWN}"
)
"""The policy of a report, whose folder may be a stranger's: it has an origin of its own, and reaches nothing."""


class RunsServer(ThreadingHTTPServer):
    """The server of one folder of runs."""

    daemon_threads = True

    def __init__(self, root: Path, *, port: int) -> None:
        self.root = root
        super().__init__((LOOPBACK, port), _Visit)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"

    @property
    def hosts(self) -> frozenset[str]:
        """The names by which a browser on this machine calls it; a page elsewhere that points here has another."""
        names = (LOOPBACK, "localhost")
        return frozenset(names if self.server_port == _HTTP_PORT else (f"{name}:{self.server_port}" for name in names))


@contextmanager
def serving(root: Path, *, port: int) -> Iterator[RunsServer]:
    """Opens the server, and closes its socket at the end."""
    try:
        server = RunsServer(root, port=port)
    except (OSError, OverflowError) as error:
        raise ValueError(f"{LOOPBACK}:{port} cannot be served ({error}); name another with --port, or 0") from error
    try:
        yield server
    finally:
        server.server_close()


class _Visit(BaseHTTPRequestHandler):
    server: RunsServer
    server_version = "medtune"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, *_: object) -> None:
        """Says nothing: the terminal has the address, and visits are the user's own."""

    def _answer(self, *, with_body: bool) -> None:
        if self.headers.get("Host", "") not in self.server.hosts:
            return self._send(HTTPStatus.FORBIDDEN, f"Open {self.server.address}", with_body=with_body)
        try:
            found = self._page()
        except (OSError, ValueError) as error:
            return self._send(HTTPStatus.CONFLICT, str(error), with_body=with_body)
        if found is None:
            return self._send(HTTPStatus.NOT_FOUND, "There is no such page.", with_body=with_body)
        page, policy = found
        return self._send(HTTPStatus.OK, page, policy, kind="text/html", with_body=with_body)

    def _page(self) -> tuple[str, str] | None:
        """Returns the page that is asked for and its policy; only what `runs_below` finds has a name here."""
        asked = urlsplit(self.path)
        path = unquote(asked.path).removeprefix("/")
        runs = {line.name: line for line in runs_below(self.server.root)}
        if not path:
            return overview_html(self.server.root, list(runs.values()), is_served=True), _OWN
        if path == "compare":
            names = parse_qs(asked.query).get("run", ())
            return _compared([runs[name] for name in names if name in runs]), _OWN
        reports = {f"{name}/{REPORT}": line.folder / REPORT for name, line in runs.items() if line.has_report}
        return (reports[path].read_text("utf-8"), _CLOSED) if path in reports else None

    def _send(
        self, status: HTTPStatus, text: str, policy: str = _OWN, *, kind: str = "text/plain", with_body: bool
    ) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def _compared(lines: list[RunLine]) -> str:
    finished = [line.folder for line in lines if line.state == "finished"]
    if len(finished) < 2:
        raise ValueError("Tick at least two runs that have ended.")
    with tempfile.TemporaryDirectory(prefix="medtune-") as out:
        return write_runs(finished, Path(out), partial(paired_runs, questions=None)).read_text("utf-8")
