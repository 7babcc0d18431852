"""Tests public data sets from their real files to the report: the questions of every set are scored."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.prepared.splits import TEST_ONLY, Division
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from tests.benchmarks.public_sets import test_fpus23 as fpus23
from tests.benchmarks.public_sets import test_hc18 as hc18
from tests.examples.fetal_ultrasound.plugin import PLUGIN, fetal_ultrasound
from tests.trainer.conftest import json_of

QUICK = ("log.wandb=disabled", "eval.max_new_tokens=2", "eval.conditions=[image]")
# Of FPUS23's 3,570 frames and HC18's 999 rows, so that all ten streams and every length of head stay.
EVERY_FRAME, EVERY_ROW = 72, 40


class Case(NamedTuple):
    """A benchmark, its data sets and the scores that are expected."""

    benchmark: str
    source: str
    folders: Mapping[str, str]  # The name that the source looks for ("." for its root) -> our folder.
    scored: Mapping[tuple[str, str], int]  # (set, task) -> questions.
    patients: int  # As the source counts them.


# Where no patients are named, images that look alike are one patient's.
# SOURCES.md: 24 heads, 60 breasts (one has a second mask of another size, and is asked its diagnosis alone), 30 planes.
CASES = (
    Case(
        "fetal_heads",
        "fetal_heads",
        {".": "real_heads"},
        {("", "head_localisation"): 24, ("", "red_box_grounding"): 24},
        patients=24,
    ),
    Case(
        "busi",
        "busi",
        {".": "busi"},
        {("", "diagnosis"): 60, ("", "lesion_localisation"): 59, ("", "red_box_grounding"): 59},
        patients=55,
    ),
    Case("phantom_planes", "phantom_planes", {".": "pbf_us1"}, {("", "plane_identification"): 30}, patients=24),
    Case(
        "fetal_gauge",
        "fetal_gauge_rebuilt",
        {"fpus23": "fpus23", "hc18": "real_heads", "pbf_us1": "pbf_us1"},
        {
            ("fpus23", "fetal_orientation"): 56,
            ("fpus23", "visual_grounding"): 82,
            ("fpus23", "plane_identification"): 1,
            ("hc18", "visual_grounding"): 24,
            # The five frames of no plane stand for none of the benchmark's terms.
            ("pbf_us1", "plane_identification"): 25,
        },
        patients=54,
    ),
    Case(
        "u2_bench",
        "u2_bench_rebuilt",
        {"busi": "busi", "fpus23": "fpus23", "hc18": "hc18"},
        {("23", "DD"): 60, ("23", "LL"): 59, ("10", "VRA"): 56, ("10", "CG"): 1, ("31", "OD"): 25, ("31", "CVE"): 25},
        # HC18's drawn heads are circles on noise of their own, of which no two are one picture.
        patients=82,
    ),
)


def _draw_frames(folder: Path) -> None:
    """Replaces the linked frames, which are not on this machine, by simulated frames that all differ."""
    for number, path in enumerate(sorted((folder / "Dataset" / "four_poses").rglob("*.png"))):
        rng = np.random.default_rng(number)
        small_HW = rng.integers(0, 160, (39, 68)).astype(np.uint8)
        path.unlink()
        PIL.Image.fromarray(small_HW).resize((672, 389)).save(path, compress_level=1)


@pytest.fixture(scope="module")
def real_sets(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("real")
    frame = root / "frame.png"
    PIL.Image.new("L", (672, 389), 60).save(frame)
    fpus23.lay_out_real(shared_real, root / "fpus23", frame=frame, every=EVERY_FRAME)
    _draw_frames(root / "fpus23")
    hc18.lay_out_real(shared_real, root / "hc18", every=EVERY_ROW)
    for name, folder in (("busi", "busi"), ("pbf_us1", "phantom_planes"), ("real_heads", "fetal_heads")):
        (root / name).symlink_to(shared_real / folder)
    return root


def _laid_out(real_sets: Path, raw: Path, folders: Mapping[str, str]) -> Path:
    if "." in folders:
        return real_sets / folders["."]
    raw.mkdir()
    for name, folder in folders.items():
        (raw / name).symlink_to(real_sets / folder)
    return raw


def _mark(case: Case) -> pytest.MarkDecorator:
    """What sets hold that are a benchmark each, that of most sets reads in the slow suite."""
    return pytest.mark.slow if case.benchmark == "u2_bench" else pytest.mark.soak


@pytest.fixture(autouse=True)
def named() -> Iterator[None]:
    with fetal_ultrasound():
        yield


@pytest.mark.parametrize("case", [pytest.param(case, id=case.benchmark, marks=_mark(case)) for case in CASES])
def test_every_question_of_every_set_is_scored(real_sets: Path, tmp_path: Path, case: Case) -> None:
    raw, out, run = _laid_out(real_sets, tmp_path / "raw", case.folders), tmp_path / "prepared", tmp_path / "run"
    division = Division(fractions=TEST_ONLY)
    prepared = prepare(find_source(case.source), benchmark=case.benchmark, root=raw, out=out, division=division)
    assert dict(prepared.manifest.rejected) == {}
    asked = {question.id: question for question in prepared.questions("test")}
    counts = Counter((q.facets.get("set", q.facets.get("dataset", "")), q.facets["task"]) for q in asked.values())
    assert counts == case.scored
    assert prepared.manifest.num_patients["test"] == case.patients
    settings = [f"data.benchmark={case.benchmark}", f"data.root={out}", *QUICK]
    plugins = ["--plugins", str(PLUGIN)]
    assert main([*plugins, "eval", "nano_busi_lora", "--out", str(run), "--set", *settings]) == 0
    results = json_of(run / "results.json")
    primary = results["primary"]["name"]
    found = results["phases"]["zero_shot"]["metrics"]["image"]["robust"]
    # A part of U2-Bench has no score over all its tasks; its captions are scored by BLEU alone.
    captions = found["bleu4"]["n"] if primary == "mean_accuracy" else 0
    assert found[primary]["n"] + captions == len(asked)
    parsed = [json.loads(line) for line in (run / "zero_shot" / "parsed.jsonl").read_text().splitlines()]
    assert {row["question_id"] for row in parsed if row["reading"] == "generation"} == asked.keys()
    choices = {id_ for id_, question in asked.items() if question.options}
    assert {row["question_id"] for row in parsed if row["reading"] == "likelihood"} == choices
    assert "reconstruction" in (run / "report.html").read_text("utf-8")
    given = ["--predictions", str(run / "zero_shot" / "predictions.jsonl"), "--questions", str(out)]
    assert main([*plugins, "score", case.benchmark, *given, "--out", str(tmp_path / "scored")]) == 0
    mine, theirs = (json_of(folder / "scores.json") for folder in (run / "zero_shot", tmp_path / "scored"))
    # Only a file that was given has rows to be counted.
    assert theirs.pop("file_rows")["unanswered"] == 0
    assert theirs == mine
    assert len({(folder / "parsed.jsonl").read_bytes() for folder in (run / "zero_shot", tmp_path / "scored")}) == 1
    assert mine["metrics"] == results["phases"]["zero_shot"]["metrics"]
    outside = sum(each["n"] + each["unscored"] for each in mine["outside"].values())
    assert mine["overall"]["n"] + mine["overall"]["unscored"] + outside == mine["asked"] == len(asked)
