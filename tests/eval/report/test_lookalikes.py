"""Tests that scores, labels and reports say what look-alikes in train are worth."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.prepared.lookalikes import TRAIN_TWIN
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import SPLITS, MediaGroup, Question
from medtune.eval.audit.findings import findings_of
from medtune.eval.comparing.gain import gain_between
from medtune.eval.data_label import DataLabel, label_of
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.write import write_report
from medtune.eval.results.build import gain_table
from medtune.eval.scoring.score import PhaseScores, score_phase
from tests.eval.answers import likelihood, wrong
from tests.eval.report.folders import change_json, write_run
from tests.twins import prepared_twins

BUSI = find_benchmark("busi")


@pytest.fixture(scope="module")
def twins(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A prepared folder in which test questions have look-alikes in train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepared_twins(tiny_busi, tmp_path_factory.mktemp("twins"), split_lookalikes=True)


def remembered(asked: tuple[Question, ...], train: tuple[Question, ...]) -> PhaseScores:
    """Returns the scores of a model that is right only where train has a look-alike."""
    said = [q.answer if q.facets[TRAIN_TWIN] == "yes" else wrong(q) for q in asked]
    answers = [likelihood(question, one) for question, one in zip(asked, said, strict=True)]
    return score_phase(asked, answers, BUSI, train=train)


def test_what_is_remembered_is_scored_apart(twins: Prepared) -> None:
    asked, train = twins.questions("test"), twins.questions("train")
    found = remembered(asked, train)
    by = found.by[TRAIN_TWIN]
    assert (by["yes"].value, by["no"].value) == (1.0, 0.0)
    assert by["yes"].n + by["no"].n == found.overall.n == len(asked)
    assert by["no"].ci95 is not None
    before = score_phase(asked, [likelihood(q, wrong(q)) for q in asked], BUSI, train=train)
    gain = gain_between(before, found, BUSI)
    assert gain is not None
    assert (gain.by[TRAIN_TWIN]["yes"].value, gain.by[TRAIN_TWIN]["no"].value) == (1.0, 0.0)
    text = gain_table({"final": found}, None, BUSI, label=label_of(twins.manifest, prompts="ours"))
    row = next(line.split() for line in text.splitlines() if line.startswith("  no look-alike in train"))
    assert row[4:6] == ["0.000", str(by["no"].n)]


def test_without_marked_questions_nothing_is_scored_apart(prepared_tiny: Path) -> None:
    prepared = open_prepared(prepared_tiny)
    asked = prepared.questions("test")
    found = score_phase(asked, [likelihood(q, q.answer) for q in asked], BUSI)
    assert tuple(found.by) == BUSI.facets
    label = DataLabel(provenance="released", prompts="ours")
    assert "no look-alike" not in gain_table({"final": found}, None, BUSI, label=label)


def test_the_report_shows_the_score_with_and_without_twins(twins: Prepared, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", twins.root)
    across = twins.manifest.lookalikes.across
    change_json(run / "results.json", "split_lookalikes", value=across)
    report = run_report(read_run(run), paper_of)
    rows = {row[0].text: row for row in report.gain.rows}
    whole, part = rows["after training"], rows["after training, no look-alike in train"]
    level = report.run.last.by[TRAIN_TWIN]["no"]
    assert level.value is not None
    assert part[1].text == f"{level.value:.3f}"
    assert part[2].text == str(level.n) != whole[2].text
    assert [facet.title for facet in report.facets][-1] == "look alike in train"
    assert dict(report.reproduction.facts)["look-alikes"] == across
    page = write_report(run, paper_of).read_text()
    for text in (page, (run / "report.md").read_text().replace("\\", "")):
        assert "Look-alikes in training and test" in text
        assert across in text.replace("&#39;", "'")
        assert "after training, no look-alike in train" in text


def test_a_label_says_which_look_alikes_were_split_or_learnt(twins: Prepared, prepared_tiny: Path) -> None:
    label = label_of(twins.manifest, prompts="ours", learnt_lookalikes="3 of 9 images look like images of a")
    assert label.facts()["split_lookalikes"] == twins.manifest.lookalikes.across
    said = f"{label.split_lookalikes}; 3 of 9 images look like images of a"
    assert label.split_lookalikes.endswith("pairs in two splits by --split-lookalikes")
    assert f"Look-alikes: {said}." in label.notes()
    assert [said in meaning for name, meaning in label.banners() if name.startswith("Look-alikes")] == [True]
    together = label_of(open_prepared(prepared_tiny).manifest, prompts="ours")
    assert together.split_lookalikes == ""
    assert not any("ook-alike" in text for text in (*together.notes(), *map("".join, together.banners())))


def test_an_audit_lists_every_question_of_a_group_in_two_splits(twins: Prepared, prepared_tiny: Path) -> None:
    groups: dict[str, Sequence[MediaGroup]] = {split: twins.groups(split) for split in SPLITS}
    found = {each.name: each for each in findings_of(groups, split="test", looks=twins.looks)}
    alike = found["look_alikes_in_two_splits"]
    marked = {
        q.id for part in ("val", "test") for g in groups[part] for q in g.questions if q.facets[TRAIN_TWIN] == "yes"
    }
    assert marked <= set(alike.items)
    assert alike.flag
    assert "30 images compared" in alike.note
