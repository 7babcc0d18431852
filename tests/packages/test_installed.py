"""What is declared is imported and what is imported is declared; the page of licences is that of the versions."""

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packages.installed import ROOT, Package, bill_of_materials, main, packages, pinned, weaknesses

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DECLARED = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
EXTRAS = {canonicalize_name(Requirement(PROJECT["optional-dependencies"][name][0]).name): name
          for name in ("bertscore", "bitsandbytes", "deepspeed")}  # fmt: skip
BY_NAME_ONLY = {"num2words", "protobuf", "torchvision"}
"""What transformers and timm ask for by name, or only when they need it."""
THROUGH = {"lightning-utilities", "markupsafe", "pydantic-core", "tokenizers"}
"""Parts of lightning, jinja2, pydantic and transformers, which pin the version that fits them."""


def _imported() -> set[str]:
    known, found = packages_distributions(), set[str]()
    for path in (ROOT / "medtune").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = (
                [each.name for each in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            tops = {name.partition(".")[0] for name in names} - {"", "medtune"} - sys.stdlib_module_names
            found |= {canonicalize_name(known[top][0]) for top in tops if top in known}
    return found


def test_what_is_declared_is_used_and_what_is_used_is_declared() -> None:
    imported = _imported()
    assert imported - DECLARED - EXTRAS.keys() == THROUGH
    assert DECLARED - imported - BY_NAME_ONLY == set()
    assert not BY_NAME_ONLY & imported


def test_messages_name_packages_that_pip_finds() -> None:
    texts = {path: path.read_text("utf-8") for path in (ROOT / "medtune").rglob("*.py")}
    asked = [
        (path, word) for path, text in texts.items() for word in re.findall(r"pip install '?([\w.\[\]>=-]+)", text)
    ]
    assert len(asked) > 4
    for path, word in asked:
        name = canonicalize_name(Requirement(word).name)
        assert name != "medtune", f"{path}: medtune is on no index"
        if name in EXTRAS:
            assert word == PROJECT["optional-dependencies"][EXTRAS[name]][0], path


def test_the_page_of_licences_is_that_of_the_pinned_versions() -> None:
    text = (ROOT / "docs" / "licences.md").read_text("utf-8")
    tables = text.partition("## Licences of medtune's own")[0]
    rows = dict(re.findall(r"^\| ([\w.-]+) \| ([\d][^ ]*) \|", tables, re.MULTILINE))
    versions = pinned()
    assert {name: version for name, version in rows.items() if versions.get(name) != version} == {}
    assert DECLARED | EXTRAS.keys() <= rows.keys()
    known = {package.name: package for package in packages()}
    assert [name for name in DECLARED if known[name].version != versions[name]] == []


def test_the_bill_of_materials_says_who_needs_whom() -> None:
    own = Package("own", "1.0", "MIT", True, "medtune", ("part",))
    part = Package("part", "2.0", "a licence of its own", False, "medtune", ())
    bill = bill_of_materials([own, part], "0.1")
    assert [each["purl"] for each in bill["components"]] == ["pkg:pypi/own@1.0", "pkg:pypi/part@2.0"]
    assert bill["components"][0]["licenses"] == [{"expression": "MIT"}]
    assert bill["components"][1]["licenses"] == [{"license": {"name": "a licence of its own"}}]
    assert bill["dependencies"] == [
        {"ref": "pkg:pypi/medtune@0.1", "dependsOn": ["pkg:pypi/own@1.0"]},
        {"ref": "pkg:pypi/own@1.0", "dependsOn": ["pkg:pypi/part@2.0"]},
        {"ref": "pkg:pypi/part@2.0", "dependsOn": []},
    ]
    assert bill == bill_of_materials([own, part], "0.1")


OSV = {
    "id": "PYSEC-1", "summary": "reads too far",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "Some.Reader"}, "ranges": [
        {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "2.0"}]}]}],
}  # fmt: skip


@pytest.mark.parametrize(("version", "is_weak"), [("1.1", True), ("1.2", False), ("1.9", False), ("2.0.1", True)])
def test_a_version_in_an_advisory_is_named(version: str, is_weak: bool, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(OSV))
    (tmp_path / "old.json").write_text(json.dumps({**OSV, "withdrawn": "2026-01-01"}))
    (tmp_path / "two.yaml").write_text("id: PYSEC-2\naffected:\n- package: {ecosystem: npm, name: some-reader}\n")
    found = list(weaknesses({"some-reader": version}, tmp_path))
    assert found == ([f"some-reader {version}: PYSEC-1: reads too far"] if is_weak else [])


def test_an_audit_ends_with_one_where_it_finds_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["packages", "audit", str(tmp_path)])
    assert main() == 0
    listed = {"package": {"ecosystem": "PyPI", "name": "numpy"}, "versions": [pinned()["numpy"]]}
    (tmp_path / "numpy.json").write_text(
        json.dumps({"id": "X-1", "details": "wrong sums\nand more", "affected": [listed]})
    )
    assert main() == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("X-1: wrong sums")
