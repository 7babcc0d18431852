"""What pip installs is held against its hashes, which every pinned version has."""

import json
import re
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.packages import archives
from tests.packages.archives import differences, installed, listed
from tests.packages.installed import ROOT, pinned

HASHES = (ROOT / "hashes.txt").read_text("utf-8")


def _report(**archives: str) -> dict[str, object]:
    made = [{"download_info": {"url": f"https://index.invalid/a/{name}.whl#sha256=x",
                               "archive_info": {"hashes": {"sha256": digest}}}}
            for name, digest in archives.items()]  # fmt: skip
    return {"install": [*made, {"download_info": {"url": "file:///src", "dir_info": {"editable": True}}}]}


def test_another_content_and_a_file_that_is_not_listed_are_named() -> None:
    found, known = installed(_report(a="1", b="2", c="")), {"a.whl": "1", "b.whl": "3", "c.whl": "4"}
    assert found == {"a.whl": "1", "b.whl": "2", "c.whl": ""}
    wrong = ["b.whl: another content than in the list", "c.whl: another content than in the list"]
    assert differences(found, known, is_listed=True) == wrong
    assert differences(installed(_report(d="1")), known, is_listed=True) == ["d.whl: not in the list"]
    assert differences(installed(_report(d="1")), known, is_listed=False) == []


def test_the_command_ends_with_one_where_an_archive_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, digest in (("right", "1"), ("wrong", "2")):
        (tmp_path / f"{name}.json").write_text(json.dumps(_report(a=digest)))
    hashes, right, wrong = (str(tmp_path / name) for name in ("hashes.txt", "right.json", "wrong.json"))
    for words, status in ((["write", hashes, right], 0), (["check", hashes, right], 0), (["check", hashes, wrong], 1)):
        monkeypatch.setattr(sys, "argv", ["archives", *words])
        assert archives.main() == status
    assert "a.whl: another content than in the list" in capsys.readouterr().err


def test_every_pinned_version_has_a_hash_and_no_other_has() -> None:
    known = listed(HASHES)
    versions: dict[str, set[str]] = {}
    for name, digest in known.items():
        assert re.fullmatch("[0-9a-f]{64}", digest)
        package, version = name.removesuffix(".tar.gz").split("-")[:2]
        versions.setdefault(canonicalize_name(package), set()).add(version)
    assert versions == {name: {version} for name, version in pinned().items()}
    for python in ("cp311", "cp312", "cp313"):
        assert sum(f"-{python}-{python}" in name for name in known) > 20
