"""Says at the end of a run of the tests which of them cost most, in CPU seconds of their own and of their children.

It informs and never fails. `--record-costs` keeps the seconds of each file in costs.json, by which the files are begun
dearest first: then no worker is left alone with a long one.
"""

import json
import os
import resource
from collections import defaultdict
from collections.abc import Generator
from multiprocessing import forkserver
from pathlib import Path

import pytest

COSTS = Path(__file__).with_name("costs.json")
BUDGETS_S = {"plain": 960, "slow": 1440}
"""CPU seconds: 8 minutes for `make test` and 12 for `make test-slow`, on two cores."""
SHOWN = 20
NAME = "cpu_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-costs", action="store_true", help="write the CPU seconds of each file to costs.json")


def cpu_seconds() -> float:
    """Returns the CPU seconds so far of this process, of its children that have ended, and of what it had forked."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both) + _forked_seconds()


def _forked_seconds() -> float:
    """Returns the CPU seconds of the ended children of the fork server, which are no children of this process."""
    server = vars(forkserver)["_forkserver"]._forkserver_pid
    try:
        facts = Path(f"/proc/{server}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    # Source: proc_pid_stat(5), fields 16 and 17: the waited-for children of the process.
    return sum(int(ticks) for ticks in facts[13:15]) / os.sysconf("SC_CLK_TCK")


def cost_of(report: pytest.TestReport) -> float:
    """Returns the CPU seconds of a test, from what is reported of its end."""
    found = dict(report.user_properties).get(NAME, 0.0)
    assert isinstance(found, float)
    return found


class Costs:
    """Measures every test and keeps what the workers tell; one for each process of pytest."""

    def __init__(self, *, records: bool) -> None:
        self._records = records
        self._began_s = 0.0
        self._costs_s: dict[str, float] = {}
        self._suites: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._began_s = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((NAME, max(cpu_seconds() - self._began_s, 0.0)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._costs_s[report.nodeid] = cost_of(report)
            marks = [mark for mark in ("soak", "slow") if mark in report.keywords]
            self._suites[report.nodeid] = marks[0] if marks else "plain"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._costs_s:
            return
        write = terminalreporter.write_line
        terminalreporter.section("CPU seconds, with those of child processes")
        for name in sorted(self._costs_s, key=lambda each: -self._costs_s[each])[:SHOWN]:
            write(f"{self._costs_s[name]:7.1f}  {self._suites[name]:5}  {name}")
        suites = sorted(set(self._suites.values()))
        write("".join(f"{suite:>8}" for suite in suites) + "  folder")
        for folder, sums in sorted(self._by_folder().items(), key=lambda each: -sum(each[1].values())):
            write("".join(f"{sums[suite]:8.0f}" for suite in suites) + f"  {folder}")
        for suite in suites:
            spent = sum(seconds for name, seconds in self._costs_s.items() if self._suites[name] == suite)
            budget = f" of {BUDGETS_S[suite]} in its budget" if suite in BUDGETS_S else ""
            write(f"{suite}: {spent:.0f} CPU s{budget}, {sum(each == suite for each in self._suites.values())} tests")
        if self._records:
            self._record()

    def _by_folder(self) -> dict[str, dict[str, float]]:
        folders: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for name, seconds in self._costs_s.items():
            folder = "/".join(name.partition("::")[0].split("/")[:2])
            folders[folder][self._suites[name]] += seconds
        return folders

    def _record(self) -> None:
        files: dict[str, float] = defaultdict(float)
        for name, seconds in self._costs_s.items():
            files[name.partition("::")[0]] += seconds
        known = json.loads(COSTS.read_text("ascii")) if COSTS.exists() else {}
        known.update({name: round(seconds) for name, seconds in files.items()})
        kept = {name: cost for name, cost in sorted(known.items()) if cost and (COSTS.parents[1] / name).exists()}
        COSTS.write_text(json.dumps(kept, indent=0) + "\n", "ascii")


def dearest_files_first(items: list[pytest.Item]) -> None:
    """Sorts the tests by the recorded cost of their files; the order within a file stays."""
    costs = json.loads(COSTS.read_text("ascii")) if COSTS.exists() else {}
    items.sort(key=lambda item: -costs.get(item.nodeid.partition("::")[0], 0))
