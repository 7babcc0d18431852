"""Fixtures that all tests share."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

# Before torch is imported: tiny models are slower on two threads than on one, and workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from medtune.benchmarks import find_source
from medtune.benchmarks.ctlesionvqa.sources import ct_phantom
from medtune.benchmarks.simulators import write_num_patients
from medtune.data.prepared.write import prepare
from tests.costs import Costs, dearest_files_first, pytest_addoption
from tests.examples import write_example
from tests.golden.files import PUBLISHED, REAL, shared_part, told_skips

__all__ = ["pytest_addoption"]

REPOSITORY = Path(__file__).resolve().parents[1]
_frozen_modules = [0]
"""How many modules were loaded whenever all that was there was called no garbage."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(records=bool(config.getoption("record_costs"))), "costs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    dearest_files_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage in what the collection imports, which stays: that would take 5 s."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Lets later collections pass over all that is there, once a test has imported a library.

    A collection takes 0.3 s where all libraries are loaded, and a run makes up to ten.
    """
    if len(sys.modules) > _frozen_modules[-1] + 50:
        gc.collect()
        gc.freeze()
        _frozen_modules.append(len(sys.modules))


@pytest.fixture(autouse=True, scope="module")
def linear_layers_are_torchs_own() -> Iterator[None]:
    """Puts torch's function back, for which DeepSpeed's ZeRO-3 leaves one that rounds otherwise in bfloat16.

    Source: deepspeed, runtime/zero/partition_parameters.py: "This will persist unless manually reset."
    """
    yield
    if torch := sys.modules.get("torch"):
        torch.nn.functional.linear = torch._C._nn.linear


@pytest.fixture(autouse=True, scope="session")
def own_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the tests' patient key apart from the user's; one key per session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    if told := told_skips(reasons):
        terminalreporter.section("not tested here")
        terminalreporter.write_line(told)


@pytest.fixture(scope="session")
def shared_real() -> Path:
    """Real files beside the checkout; never part of it."""
    return shared_part("real", REAL)


@pytest.fixture(scope="session")
def shared_published() -> Path:
    """The papers' own tables, and their prompts in prompts/, beside the checkout; never part of it."""
    return shared_part("published", PUBLISHED)


@pytest.fixture(scope="session")
def tiny_busi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small synthetic tree of BUSI, raw."""
    folder = tmp_path_factory.mktemp("tiny_busi")
    write_example("busi", folder)
    return folder


@pytest.fixture(scope="session")
def prepared_tiny(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthetic tree of BUSI, prepared: 24 patients; its test split has an odd number of questions."""
    out = tmp_path_factory.mktemp("prepared") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepared = prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=out)
    assert prepared.num_questions("test") % 2 == 1
    return out


@pytest.fixture(scope="session")
def prepared_ct(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine simulated CT scans, prepared so that the one of the test split has lesions."""
    root, out = tmp_path_factory.mktemp("ct"), tmp_path_factory.mktemp("prepared_ct") / "ct"
    write_num_patients(ct_phantom.SETTINGS_FILE, root, 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepare(find_source("ct_phantom"), benchmark="ctlesionvqa", root=root, out=out, seed=2)
    return out
