"""The files by which other tools know the project: citation, templates, hooks, the public workflow, the image."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from medtune.version import __version__
from tests.packages.installed import ROOT

MAKE = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
DOCKER = (ROOT / "Dockerfile").read_text("utf-8")


def tree(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_citation_is_of_this_version_and_licence() -> None:
    cited = tree("CITATION.cff")
    assert (cited["version"], cited["license"], cited["cff-version"]) == (__version__, "Apache-2.0", "1.2.0")
    assert {"title", "authors", "message"} <= cited.keys()


def test_the_public_workflow_runs_targets_that_exist_without_files_beside_the_clone() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    flow = tree(".github/workflows/ci.yml")
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    suites = set(flow["jobs"]["test"]["strategy"]["matrix"]["suite"])
    targets = {name for step in steps if (name := step.get("run", "").removeprefix("make ")) in MAKE}
    assert targets | suites <= MAKE
    assert {"setup", "check"} <= targets
    assert "MEDTUNE_REQUIRE_SHARED" not in text
    assert "shared" not in text
    assert flow["permissions"] == {"contents": "read"}
    assert not any("secrets." in str(step) for step in steps)


@pytest.mark.parametrize("name", ["fault", "wish"])
def test_a_template_asks_and_has_names_of_its_own(name: str) -> None:
    form = tree(f".github/ISSUE_TEMPLATE/{name}.yml")
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 1
    assert {"name", "description"} <= form.keys()


def test_hooks_are_the_tools_of_make_check() -> None:
    hooks = [hook for repo in tree(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    check = (ROOT / "Makefile").read_text("utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    for hook in hooks:
        assert hook["entry"].split()[0].removeprefix(".venv/bin/") in check


def test_the_image_copies_what_there_is_and_what_its_context_keeps() -> None:
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", DOCKER, re.MULTILINE) for word in line.split()]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)
    assert "USER medtune" in DOCKER


def test_the_picture_of_the_report_is_small() -> None:
    picture = ROOT / "docs" / "report.png"
    assert Path("docs/report.png").as_posix() in (ROOT / "README.md").read_text("utf-8")
    assert picture.stat().st_size < 150_000
    assert Image.open(picture).size[0] >= 1000
