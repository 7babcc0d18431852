"""The Python examples of README.md and docs/python.md are executed as they stand, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.transformers_vlm.generic.checkpoints import write_checkpoint

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/python.md")


def program(page: str) -> str:
    """Returns all Python listings of a page, one after another."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL))


@pytest.fixture
def desk(tmp_path: Path, prepared_tiny: Path) -> Path:
    """A folder with what the examples name: a prepared folder, and a checkpoint in the place of a hub id."""
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "busi").symlink_to(prepared_tiny)
    checkpoint = tmp_path / "ORGANISATION" / "MODEL"
    checkpoint.mkdir(parents=True)
    write_checkpoint("lfm2_vl", checkpoint)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(
    page: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    exec(compile(program(page), page, "exec"), {"__name__": "__main__"})
    assert re.search(
        r"accuracy \d\.\d{3} \(95 % interval 0\.\d{3} to [01]\.\d{3}, 9 questions\)", capsys.readouterr().out
    )
    assert "<!doctype html>" in (desk / "report.html").read_text("utf-8")


def test_the_readme_needs_five_lines_for_a_score_with_an_interval() -> None:
    first = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
    assert len(first.splitlines()) <= 5
    assert "result.score" in first.splitlines()[-1]


@pytest.mark.soak
def test_mypy_sees_the_types_of_the_readme(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    more = """
reveal_type(result.score.ci95)
reveal_type(data.test[0].answer)
reveal_type(medtune.compare(result, tuned).p)
medtune.laod("x")
medtune.score([1], ["a"])
medtune.evaluate(3, data.test)
"""
    script.write_text(program("README.md") + more, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", str(script)]
    environment = {"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = done.stdout.replace("builtins.", "")
    assert re.search(r'Revealed type is ".*medtune\.data\.types\.Interval\] \| None"', said), said
    assert 'Revealed type is "str"' in said
    assert 'Revealed type is "float"' in said
    # transformers' own functions are in part untyped; everything else that is said is about the last three lines.
    errors = [line for line in said.splitlines() if ": error:" in line and "[no-untyped-call]" not in line]
    assert len(errors) == 3, said
    assert 'Module has no attribute "laod"' in errors[0]
    assert 'incompatible type "int"; expected "str"' in errors[1]
    assert 'Argument 1 to "evaluate" has incompatible type "int"' in errors[2]
