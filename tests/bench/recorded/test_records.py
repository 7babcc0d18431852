"""Every bench has a record that is younger than what it measures, give or take; the pages say what the records say."""

import subprocess
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from bench.__main__ import main, names
from bench.recorded.code import ROOT, changed, code_of, measured_files
from bench.recorded.pages import FIRST_PAGE, PAGE, page, speed_table, with_table
from bench.recorded.records import DAYS, ELSEWHERE, Record, has_history, last_change, records

RECORDS = list(records())


def test_every_bench_has_a_record_or_is_named_as_one_that_has_none() -> None:
    assert sorted({record.name for record in RECORDS}) == names()
    assert all(name in PAGE.read_text("utf-8") for name in names())


@pytest.mark.skipif(not has_history(), reason="needs a clone with its whole history")
def test_no_record_is_much_older_than_what_it_measured() -> None:
    old = {record.file.name: record.lag() for record in RECORDS if record.name not in ELSEWHERE and record.lag() > DAYS}
    assert old == {}, "measure again: python -m bench NAME --record docs/bench, then python -m bench records"


def test_pages_say_what_the_records_say() -> None:
    assert PAGE.read_text("utf-8") == page(RECORDS), "python -m bench records"
    text = FIRST_PAGE.read_text("utf-8")
    assert text == with_table(text, RECORDS), "python -m bench records"


def test_the_table_names_the_worst_case_beside_the_best() -> None:
    rows = [line for line in speed_table(RECORDS) if line.startswith("| ")][1:]
    assert rows[0].startswith("| 1 |")
    peers = next(record for record in RECORDS if record.name == "peers")
    dear = {title: ratio for title, ratio in peers.ratios.items() if ", 1 questions" not in title}
    with pytest.raises(ValueError, match="nothing was measured with one question"):
        speed_table([replace(peers, ratios=dear)])
    assert all(f"{ratio:.1f}" in rows[0] for title, ratio in peers.ratios.items() if ", 1 questions" in title)


def test_a_changed_file_is_found_and_so_is_one_that_came_or_went(tmp_path: Path) -> None:
    for file, text in {
        "bench/quick.py": "from bench.measuring.rows import made\nimport medtune.one.two\nMEASURES = ('three.txt',)\n",
        "bench/measuring/rows.py": "from medtune.one import four\n",
        "medtune/one/two.py": "import medtune.one.five\n",
        "medtune/one/four.py": "",
        "medtune/one/five.py": "",
        "three.txt": "3",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    code = code_of("quick", root=tmp_path)
    # What a module of medtune imports is not named by the bench.
    assert list(code) == [
        "bench/measuring/rows.py", "bench/quick.py", "medtune/one/four.py", "medtune/one/two.py", "three.txt",
    ]  # fmt: skip
    assert changed(code, "quick", root=tmp_path) == []
    (tmp_path / "medtune/one/two.py").write_text("changed")
    (tmp_path / "bench/quick.py").write_text("import medtune.one.five, medtune.one.two\n")
    assert changed(code, "quick", root=tmp_path) == [
        "bench/measuring/rows.py", "bench/quick.py", "medtune/one/five.py", "medtune/one/four.py",
        "medtune/one/two.py", "three.txt",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"there is no bench/slow\.py"):
        measured_files("slow", tmp_path)


def test_what_benches_measure_is_found() -> None:
    assert "medtune/models/target_logprobs.py" in measured_files("target_logprobs")
    assert {"constraints.txt", "medtune/trainer/launch/imports.py"} <= set(measured_files("startup"))
    assert "bench/rewards/step.py" in measured_files("rewards")


@pytest.mark.skipif(not has_history(), reason="needs a clone with its whole history")
def test_a_record_lags_by_the_days_to_the_last_change() -> None:
    day = last_change(["bench/target_logprobs.py"])
    assert day <= date.fromisoformat(last_line("git", "log", "-1", "--format=%cs"))
    files = measured_files("target_logprobs")
    record = replace(RECORDS[0], name="target_logprobs", code={}, day=last_change(files) - timedelta(days=20))
    assert record.lag() == 20
    assert replace(record, code=code_of("target_logprobs")).lag() == 0
    with pytest.raises(ValueError, match="no commit has changed no such file"):
        last_change(["no such file"])


def last_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def test_the_command_says_how_old_each_record_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[int] = []
    monkeypatch.setattr("bench.__main__.write_pages", lambda: written.append(1))
    monkeypatch.setattr(Record, "lag", lambda record: 5)
    assert main(["records"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert written == [1]
    assert [line.split()[0] for line in said] == [record.file.stem for record in RECORDS]
    assert all(line.endswith(("as measured", "the last 5 days later")) for line in said)
