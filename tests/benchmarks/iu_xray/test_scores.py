"""Tests that reports are scored by their words whatever their layout, and that no score stands without its context."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.iu_xray.kit_rules import by_medevalkit, by_r2gen
from medtune.benchmarks.iu_xray.reports import compared, parse_report
from medtune.data.types import Question
from medtune.eval.data_label import DataLabel
from medtune.eval.scoring.bertscore import BertModel, BertScore
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.standing import why_unlike_published
from medtune.eval.scoring.tables import Table
from tests.eval.answers import generated

IU_XRAY = find_benchmark("iu_xray")
FINDINGS, REPORT, IMPRESSION = IU_XRAY.examples
RELEASED = DataLabel(provenance="released", prompts="not recorded")


def study(number: int, report: str, task: Question = FINDINGS, **facets: str) -> Question:
    return replace(
        task,
        id=f"study-{number}",
        media_id=f"images-{number}",
        patient_id=f"patient-{number}",
        answer=report,
        facets={**task.facets, **facets},
    )


def scored(
    questions: Sequence[Question], replies: Sequence[str], *, train: Sequence[Question] = (), unlike: str = ""
) -> PhaseScores:
    said = [generated(question, text) for question, text in zip(questions, replies, strict=True)]
    return score_phase(questions, said, IU_XRAY, train=train, unlike_published=unlike)


def table(found: PhaseScores, title: str) -> Table:
    (one,) = [each for each in found.tables if title in each.title]
    return one


@pytest.mark.parametrize(
    ("reply", "asked", "read"),
    [
        ("Clear lungs.", FINDINGS, "Clear lungs."),
        ("**Findings:**\nClear lungs.\n\n**Impression:** Normal.", FINDINGS, "Clear lungs."),
        ("FINDINGS : Clear lungs.", FINDINGS, "Clear lungs."),
        ("Findings: Clear lungs. Impression: Normal.", IMPRESSION, "Normal."),
        ("<think>Findings: a nodule?</think>Clear lungs.", FINDINGS, "Clear lungs."),
        ("## Findings: Clear lungs.\n## Impression: Normal.", REPORT, "Clear lungs. Normal."),
        ("There are no findings. Clear lungs.", FINDINGS, "There are no findings. Clear lungs."),
        ("### Finding\nClear lungs.\n**Impression**\nNormal.", FINDINGS, "Clear lungs."),
        ("Clear lungs. No other\nfindings in the heart.", FINDINGS, "Clear lungs. No other\nfindings in the heart."),
        ("Findings:", FINDINGS, None),
        (" ... ", FINDINGS, None),
    ],
)
def test_the_asked_part_is_read(reply: str, asked: Question, read: str | None) -> None:
    assert parse_report(reply, asked) == read


@pytest.mark.parametrize(
    "worded",
    [
        "the heart is enlarged. there is no pleural effusion.",
        "Findings: The heart is enlarged; there is no pleural effusion",
        "**FINDINGS:**\n\n- The heart is enlarged.\n- There is no pleural effusion.\n\n**IMPRESSION:** Cardiomegaly.",
        "<think>Is it?</think>\nThe  heart is enlarged . There is no pleural effusion .",
    ],
)
def test_a_right_report_scores_1_however_it_is_laid_out(worded: str) -> None:
    found = scored([FINDINGS], [worded])
    numbers = found.metrics["image"]["report"]
    assert {name: score.value for name, score in numbers.items()} == pytest.approx(dict.fromkeys(IU_XRAY.metrics, 1.0))
    # R2Gen's rule asks for the layout as well.
    assert worded == worded.lower() or by_r2gen([(FINDINGS, worded)])["bleu4"] < 1


def test_other_words_lower_the_score_by_hand() -> None:
    asked = study(1, "The heart is large")
    numbers = scored([asked], ["The heart is small"]).metrics["image"]["report"]
    # Without the article three words are compared, of which two are right, and so is one of two pairs.
    assert numbers["bleu1"].value == pytest.approx(2 / 3)
    assert numbers["bleu2"].value == pytest.approx((2 / 3 * 1 / 2) ** 0.5)
    assert numbers["rouge_l"].value == pytest.approx(2 / 3)


def test_removed_words_need_not_be_guessed() -> None:
    asked = study(1, "There are XXXX opacities in the XXXX lung.")
    assert compared(asked.answer) == "there are opacities in lung"
    assert scored([asked], ["There are opacities in the lung."]).overall.value == pytest.approx(1)


def test_intervals_take_patients_as_clusters() -> None:
    asked = [study(number, f"The heart is of size {number}.") for number in range(20)]
    twice = [*asked, *(replace(question, id=f"again {question.id}") for question in asked)]
    replies = [question.answer if number % 2 else "no" for number, question in enumerate(asked)]
    one, two = scored(asked, replies), scored(twice, [*replies, *replies])
    for name in ("rouge_l", "bleu4"):
        first, second = (found.metrics["image"]["report"][name].ci95 for found in (one, two))
        assert first is not None
        assert second is not None
        assert second.high - second.low == pytest.approx(first.high - first.low, rel=0.1)


def test_each_rule_is_about_its_own_part() -> None:
    # The kit's reference is the answer with one more full stop.
    assert by_medevalkit([(REPORT, f"{REPORT.answer}.")])["bleu4"] == pytest.approx(1)
    assert by_medevalkit([(REPORT, REPORT.answer)])["bleu1"] < 1
    assert by_medevalkit([(FINDINGS, FINDINGS.answer)]) == {}
    assert by_r2gen([(REPORT, REPORT.answer)]) == {}
    assert by_r2gen([(FINDINGS, FINDINGS.answer)]) == pytest.approx(
        dict.fromkeys(("bleu1", "bleu2", "bleu3", "bleu4", "rouge_l"), 1.0)
    )
    rows = {row[0]: row[1:] for row in table(scored(IU_XRAY.examples, ["x"] * 3), "rules of other tools").rows}
    assert set(rows) == {"ours: report", "R2Gen, findings", "MedEvalKit, findings and impression"}


@pytest.mark.parametrize("said", ["", " ", "...", "\n"])
def test_a_reply_without_words_scores_0_by_every_rule(said: str) -> None:
    assert max(by_medevalkit([(REPORT, said)]).values()) == 0
    assert by_r2gen([(FINDINGS, said)])["bleu4"] < 1e-3


def test_constant_training_reports_are_scored_beside_every_score() -> None:
    normal, typical = "The lungs are clear.", "The lungs are clear. The heart is of normal size."
    train = [study(100 + number, normal) for number in range(3)] + [study(200, typical)]
    train += [study(300 + number, f"{typical} Word{number}, other{number}, third{number}.") for number in range(9)]
    asked = [study(1, normal, report_in_train="yes"), study(2, "Large effusion on the right.", report_in_train="no")]
    found = scored(asked, ["Nothing of note.", "Effusion on the right."], train=train)
    assert found.overall.baselines["majority"] == pytest.approx(0.5, abs=0.1)
    constant = table(found, "constant report as the answer")
    assert constant.notes == (
        f"The most frequent report of train: {normal}",
        f"The most typical report of train: {typical}",
    )
    assert constant.rows[0][2:] == pytest.approx(tuple(by_r2gen([(each, normal) for each in asked]).values()))
    assert constant.rows[1][2:] == pytest.approx(tuple(by_r2gen([(each, typical) for each in asked]).values()))
    ((_, number, different, in_train), replies) = table(found, "repeat word for word").rows
    assert (number, different, in_train) == (2, 2, 1)
    assert replies == ("replies", 2, 2, 0)
    # The score is broken down by whether the report could have been learnt by heart.
    assert found.by["report_in_train"]["yes"].n == 1
    assert found.by["report_in_train"]["no"].number > found.by["report_in_train"]["yes"].number


def test_without_train_a_constant_report_says_that_it_was_chosen_on_the_questions() -> None:
    found = scored([FINDINGS, REPORT], ["a", "b"])
    constant = table(found, "constant report as the answer")
    assert all("these questions themselves" in note for note in constant.notes)
    # Each rule has the constant report of the part that it is about.
    assert [row[1] for row in constant.rows] == ["R2Gen, findings", "MedEvalKit, findings and impression"]
    bleu1 = by_medevalkit([(REPORT, REPORT.answer)])["bleu1"]
    assert [row[2] for row in constant.rows] == pytest.approx([1, bleu1])
    assert table(found, "repeat word for word").rows[0][-1] is None


def test_bertscore_is_shown_where_a_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(texts: Sequence[str], references: Sequence[str], model: BertModel) -> list[BertScore]:
        assert (texts, references) == (["Clear lungs."], [FINDINGS.answer])
        return [BertScore(0.25, 0.5, 0.75)]

    # The package has a function of the module's name, so that the module is only found by its full name.
    monkeypatch.setattr(sys.modules["medtune.benchmarks.iu_xray"], "bert_scores", scores)
    monkeypatch.setattr("medtune.eval.scoring.bertscore.bert_scores", scores)
    said = [generated(FINDINGS, "**Findings:** Clear lungs.")]
    found = score_phase([FINDINGS], said, IU_XRAY, text_model=BertModel("a model"))
    assert table(found, "BERTScore with a model").rows == (("replies", 1, 0.25, 0.5, 0.75),)
    assert not any("BERTScore" in each.title for each in scored([FINDINGS], ["Clear lungs."]).tables)


def test_scores_stand_among_published_ones_for_r2gens_590_alone() -> None:
    whole = [study(number, f"Report {number} of clear lungs {'and ' * (number % 3)}.") for number in range(590)]
    assert why_unlike_published(RELEASED, IU_XRAY, whole) == ""
    assert "296 of the 590 test studies of R2Gen" in why_unlike_published(RELEASED, IU_XRAY, whole[:296])
    kit = [study(number, REPORT.answer, REPORT) for number in range(296)]
    assert "MedEvalKit (R2Gen's val)" in why_unlike_published(RELEASED, IU_XRAY, kit)
    assert not any("published" in each.title for each in scored(kit[:2], ["a", "b"], unlike="other studies").tables)
    among = table(scored(whole, ["Clear lungs."] * 590), "findings by R2Gen's rule")
    assert [row[0] for row in among.rows] == [
        *("R2Gen", "R2GenCMN", "PPKED"),
        *("always the most frequent report", "always the most typical report", "ours"),
    ]
    apart = [
        each.title
        for each in scored(whole[:2], ["a", "b"], unlike="other studies").tables
        if "R2Gen's rule" in each.title
    ]
    assert [title.rpartition("; ")[2] for title in apart] == ["as published", "this model alone"]


def test_images_of_the_chest_are_never_mirrored() -> None:
    assert all(IU_XRAY.allowed_changes(question) == {"move", "grey"} for question in IU_XRAY.examples)
