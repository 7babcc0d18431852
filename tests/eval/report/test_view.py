"""`medtune view`: a page over all runs, and a server that answers this machine alone and knows only what is a run."""

import http.client
import shutil
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from medtune.eval.report.running import RunningRun, running_html
from medtune.eval.report.runs.overview import RunLine, runs_below
from medtune.trainer.commands.cli import main
from medtune.trainer.commands.view.server import RunsServer, serving
from tests.eval.report.folders import IMAGE, SCRIPT, change_json, write_run

GOING_ON = RunningRun("BUSI: first", "nano_pocket, split test", (), "accuracy", 10)


def going_on(root: Path, *, at: datetime, is_over: bool = False) -> Path:
    """Makes a run of one that has no results yet."""
    (root / "results.json").unlink()
    page = running_html(root, GOING_ON, left_s=125.0, is_over=is_over, at=at)
    (root / "report.html").write_text(page)
    return root


@pytest.fixture
def runs(prepared_tiny: Path, tmp_path: Path) -> Path:
    """A folder with a run in each state, one of which has a name and a recipe that could break a page."""
    now, root = datetime.now().astimezone(), tmp_path / "runs"
    for name in ("done/first", "done/second", "going", "ended", "silent", "broken", f"odd {IMAGE[:4]}'&"):
        write_run(root / name, prepared_tiny)
    (root / "done" / "first" / "report.html").write_text("<p>The report</p>")
    going_on(root / "going", at=now)
    going_on(root / "ended", at=now, is_over=True)
    going_on(root / "silent", at=now - timedelta(hours=2))
    (root / "broken" / "results.json").write_text("{")
    change_json(root / f"odd {IMAGE[:4]}'&" / "environment.json", "recipe", value=SCRIPT)
    return root


def line_of(root: Path, name: str) -> RunLine:
    return next(line for line in runs_below(root) if line.name == name)


def test_every_run_has_a_line_with_its_state_and_its_score(runs: Path) -> None:
    states = {line.name: line.state for line in runs_below(runs)}
    assert states == {
        "done/first": "finished",
        "done/second": "finished",
        "going": "running",
        "ended": "ended without results",
        "silent": "no sign of life",
        "broken": "cannot be read",
        f"odd {IMAGE[:4]}'&": "finished",
    }
    done, going = line_of(runs, "done/first"), line_of(runs, "going")
    assert done.score is not None
    assert done.gain is not None
    assert (done.data.split()[0], done.phase, done.has_report) == ("busi", "after training", True)
    assert done.curve is not None
    assert done.curve.title == "accuracy on validation, last 0.600"
    assert (going.phase, going.left) == ("step 4 of 10", "2:05")
    assert line_of(runs, "silent").left == ""
    assert "not valid JSON" in line_of(runs, "broken").phase


def test_the_page_names_every_run_escapes_them_and_links_their_reports(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(runs)]) == 0
    assert capsys.readouterr().out.strip() == f"7 runs: {runs / 'view.html'}"
    text = (runs / "view.html").read_text()
    assert 'href="done/first/report.html"' in text
    assert "<img" not in text
    assert text.count("<script>") == 1
    assert main(["view", str(runs / "nowhere")]) == 1


def test_links_out_of_the_folder_are_no_runs_and_no_reports(
    runs: Path, prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = write_run(tmp_path / "elsewhere", prepared_tiny)
    (runs / "linked").symlink_to(elsewhere)
    (tmp_path / "secret").write_text("secret")
    (runs / "done" / "second" / "report.html").symlink_to(tmp_path / "secret")
    assert "linked" not in {line.name for line in runs_below(runs)}
    assert not line_of(runs, "done/second").has_report
    assert main(["view", str(runs)]) == 0
    assert f"these runs are left out: {runs / 'linked'}; name the folder" in capsys.readouterr().out


@pytest.fixture
def server(runs: Path) -> Iterator[RunsServer]:
    with serving(runs, port=0) as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def asked(server: RunsServer, path: str, *, host: str | None = None, method: str = "GET") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    return connection.getresponse()


def test_the_server_answers_the_loopback_address_and_knows_runs_alone(server: RunsServer, tmp_path: Path) -> None:
    assert server.server_address[0] == "127.0.0.1"
    (tmp_path / "secret.html").write_text("secret")
    (server.root / "done" / "first" / "recipe.html").write_text("no report")
    assert asked(server, "/").status == 200
    report = asked(server, "/done/first/report.html")
    assert (report.status, report.read()) == (200, b"<p>The report</p>")
    assert "sandbox allow-scripts" in (report.getheader("Content-Security-Policy") or "")
    assert asked(server, "/", method="HEAD").read() == b""
    for path in (
        "/done/first/recipe.yaml", "/done/first/", "/done", "/done/first/recipe.html", "/../secret.html",
        "/done/first/../../../secret.html", "/%2e%2e/secret.html", "/done/first/..%2f..%2f..%2fsecret.html",
        f"/{quote(str(tmp_path / 'secret.html'))}", "//etc/passwd", "/done%2ffirst%2fresults.json", "/view.html",
    ):  # fmt: skip
        answer = asked(server, path)
        assert (answer.status, answer.read()) == (404, b"There is no such page."), path
    assert asked(server, "/", method="POST").status == 501


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "127.0.0.1:1", "localhost.example.org", "[::1]:80", " "])
def test_a_page_elsewhere_cannot_call_the_server_by_another_name(server: RunsServer, host: str) -> None:
    assert asked(server, "/", host=host).status == 403
    assert asked(server, "/", host=f"localhost:{server.server_port}").status == 200


def test_ticked_runs_are_compared_on_the_page_of_several(server: RunsServer) -> None:
    text = asked(server, "/compare?run=done/first&run=done/second").read().decode()
    assert "2 runs side by side" in text
    one = asked(server, "/compare?run=done/first&run=../../secret")
    assert (one.status, one.read()) == (409, b"Tick at least two runs that have ended.")


def test_a_taken_port_is_named(server: RunsServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(server.root), "--serve", "--port", str(server.server_port)]) == 1
    assert "name another with --port" in capsys.readouterr().err


def test_the_page_sorts_filters_and_compares_in_a_browser(browser: Browser, server: RunsServer) -> None:
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.address)
    assert page.locator("tr[data-run]:visible").count() == 7
    page.locator("#find").fill("finished first")
    assert page.locator("tr[data-run]:visible").count() == 1
    assert page.locator("#find-count").inner_text() == "1 of 7"
    page.reload()
    assert page.locator("tr[data-run]:visible").count() == 1
    page.locator("#find").fill("")
    page.get_by_role("button", name="score").click()
    assert page.locator("thead th[aria-sort]").get_attribute("aria-sort") == "descending"
    for name in ("done/first", "done/second"):
        page.locator(f'input[value="{name}"]').check()
    page.get_by_role("button", name="Compare the ticked runs").click()
    assert page.locator("h1").inner_text() == "2 runs side by side"
    assert complaints == []
    page.close()
    narrow = browser.new_page(viewport={"width": 390, "height": 800})
    narrow.goto(server.address)
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
    narrow.close()


def test_a_written_page_gives_the_command_that_compares(browser: Browser, runs: Path) -> None:
    shutil.rmtree(runs / "broken")
    assert main(["view", str(runs)]) == 0
    page = browser.new_page()
    page.goto((runs / "view.html").as_uri())
    page.locator('input[value="done/first"]').check()
    page.locator('input[value="done/second"]').check()
    said = page.locator("#chosen").inner_text()
    assert said.startswith("In that folder: medtune compare 'done/")
    page.close()
