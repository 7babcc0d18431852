"""The copied values are those that were recorded, and a run says what it skipped for want of a file."""

import json
import re
from pathlib import Path

import pytest

from tests.golden import files
from tests.golden.files import (
    COLLECTED,
    COPY,
    NOT_COPIED,
    PUBLISHED,
    REAL,
    REPOSITORY,
    golden_file,
    golden_files,
    missing,
    told_skips,
)


def _values(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


def test_the_copy_is_the_recorded_set_file_by_file() -> None:
    recorded = _values(files.shared_part("golden", files.ORIGINALS))
    for name in NOT_COPIED:
        del recorded[name]
    copied = _values(COPY)
    assert copied.keys() == recorded.keys()
    assert [name for name in recorded if copied[name] != recorded[name]] == []


def test_the_collected_inputs_are_those_that_failed_file_by_file() -> None:
    cases = files.shared_part("cases", files.ORIGINALS)
    copied = [path for path in COLLECTED.rglob("*") if path.is_file() and path.parent != COLLECTED]
    names = {str(path.relative_to(COLLECTED)) for path in copied}
    folders = [path for path in COLLECTED.iterdir() if path.is_dir()]
    assert len(folders) == 5
    wanted = [path for folder in folders for path in (cases / folder.name).rglob("*") if path.is_file()]
    assert names == {str(path.relative_to(cases)) for path in wanted}
    assert [name for name in names if (COLLECTED / name).read_bytes() != (cases / name).read_bytes()] == []


def test_what_may_not_be_copied_is_not_in_the_copy() -> None:
    assert len(_values(COPY)) > 40
    assert NOT_COPIED & _values(COPY).keys() == set()


def test_every_copied_file_stands_in_the_readme() -> None:
    said = (COPY / "README.md").read_text("utf-8")
    assert [name for name in _values(COPY) if f"`{name.removesuffix('.json')}`" not in said] == []


def test_the_package_cites_no_file_that_a_stranger_lacks() -> None:
    texts = [path.read_text("utf-8") for path in (REPOSITORY / "medtune").rglob("*.py")]
    cited = {name for text in texts for name in re.findall(r"[\w./-]*golden/[\w-]+\.json", text)}
    assert len(cited) > 10
    assert [name for name in sorted(cited) if not (REPOSITORY / name).is_file()] == []
    lacking = ("../shared", "our specs", "specs/", "DESIGN.md")
    assert [word for word in lacking if any(word in text for text in texts)] == []


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place beside which nothing lies, and where nothing is required."""
    monkeypatch.setenv("MEDTUNE_SHARED", str(tmp_path / "shared"))
    monkeypatch.delenv("MEDTUNE_REQUIRE_SHARED", raising=False)
    monkeypatch.delenv("MEDTUNE_GOLDEN", raising=False)
    return tmp_path


def test_a_bare_clone_reads_the_copy_and_skips_what_it_may_not_hold(bare: Path) -> None:
    assert golden_file("metrics/statistics.json").parent == COPY / "metrics"
    with pytest.raises(pytest.skip.Exception, match=r"needs recorded values: .*shared/golden/metrics"):
        golden_file(*NOT_COPIED)


def test_another_set_may_be_named_and_brings_its_own_files(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDTUNE_GOLDEN", str(bare))
    (bare / "metrics").mkdir()
    for name in ("metrics/mine.json", *NOT_COPIED):
        (bare / name).write_text(json.dumps({}), "utf-8")
    assert [str(path.relative_to(bare)) for path in golden_files("metrics")] == ["metrics/mine.json", *NOT_COPIED]
    with pytest.raises(pytest.skip.Exception, match="set MEDTUNE_GOLDEN"):
        golden_file("metrics/statistics.json")


def test_a_missing_file_fails_where_all_are_required(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDTUNE_REQUIRE_SHARED", "1")
    with pytest.raises(pytest.fail.Exception, match="MEDTUNE_REQUIRE_SHARED=1, but there is no"):
        missing(bare / "real", REAL)


def test_the_skips_for_want_of_files_are_counted_by_kind(bare: Path) -> None:
    reasons = ["Skipped: could not import 'deepspeed'"]
    for kind in (REAL, PUBLISHED, REAL):
        with pytest.raises(pytest.skip.Exception) as skipped:
            missing(bare, kind)
        reasons.append(f"Skipped: {skipped.value}")
    told = told_skips(reasons)
    assert told.startswith("Skipped for want of files that the repository does not hold: 2 need files of real patients")
    assert "1 need the papers' own tables and prompts" in told
    assert told_skips(reasons[:1]) == ""
