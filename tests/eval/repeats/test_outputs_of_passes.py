"""Tests that gains, comparisons, seeds, audits and reports go by all passes, and say so."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import paper_of
from medtune.data.prepared.read import open_prepared
from medtune.data.types import Prediction
from medtune.eval.audit.audited_phase import AuditedPhase, subject_of
from medtune.eval.audit.run_rows import audit_of
from medtune.eval.comparing.compare import About, Side, compare
from medtune.eval.comparing.compare_file import CompareFile
from medtune.eval.comparing.compare_text import comparison_plot, comparison_table
from medtune.eval.comparing.gain import gain_between, seeds_gain
from medtune.eval.data_label import DataLabel
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.predictions.files import format_line
from medtune.eval.report.write import write_report, write_runs
from medtune.eval.results.build import gain_table, results_file, scores_file
from medtune.eval.results.gain_schema import Changed
from medtune.eval.results.typed_json import json_bytes, write_document
from medtune.eval.scoring.parse_replies import parse_all, parse_replies, write_parsed
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.tables import table_text
from medtune.trainer.commands.cli import main
from medtune.trainer.training.loggers import phase_metrics
from tests.eval.answers import generated, wrong
from tests.eval.audit.world import row
from tests.eval.repeats.asked_again import ASKED, BUSI, FIVE, passes
from tests.eval.report.folders import LABEL, write_run
from tests.eval.run_facts import run_facts


def test_score_counts_every_repeat_of_a_file(
    prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = open_prepared(prepared_tiny).questions("test")
    file = tmp_path / "theirs.jsonl"
    rows = [
        {"question_id": question.id, "repeat": repeat, "text": question.answer if repeat < 2 else "hm"}
        for repeat in range(5)
        for question in questions
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    assert main(["score", "busi", "--predictions", str(file), "--questions", str(prepared_tiny)]) == 0
    said = capsys.readouterr().out
    overall = json.loads((tmp_path / "scores.json").read_text())["overall"]
    assert overall["value"] == pytest.approx(2 / 5)
    assert (overall["n"], overall["repeats"], overall["unparsable"]) == (9, 5, 26)
    assert (overall["unanswered"], overall["partly_answered"]) == (1, 1)
    assert "theirs: mean of 5 passes (standard deviation between passes 0.548)." in said
    assert "26 unparsable and 1 unanswered of 45 replies to 9 questions" in said
    assert "theirs: 1 questions have fewer than 5 replies" in said


def repeated_run(run: Path, data: Path) -> Path:
    """Returns a run folder whose phases were asked three and two times."""
    write_run(run, data)
    prepared = open_prepared(data)
    asked, train = prepared.questions("test"), prepared.questions("train")
    phases = {}
    for name, num_passes in (("zero_shot", 3), ("final", 2)):
        said = [
            generated(
                each, each.answer if (number + repeat) % 3 == 0 or (name == "final" and repeat) else wrong(each), repeat
            )
            for repeat in range(num_passes)
            for number, each in enumerate(asked)
        ]
        (run / name / "predictions.jsonl").write_bytes(b"".join(map(format_line, said)))
        write_parsed(run / name / "parsed.jsonl", said, parse_all(asked, said, BUSI), BUSI)
        phases[name] = score_phase(asked, said, BUSI, train=train)
    gain = gain_between(phases["zero_shot"], phases["final"], BUSI)
    facts = run_facts(LABEL, data_hash=prepared.data_hash)
    results = results_file(phases, gain, BUSI, benchmark_name="busi", model="nano_pocket", facts=facts)
    write_document(run / "results.json", results)
    return run


def test_the_report_says_of_how_many_passes_its_scores_are_the_mean(prepared_tiny: Path, tmp_path: Path) -> None:
    runs = [repeated_run(tmp_path / name, prepared_tiny) for name in ("a", "b")]
    page = write_report(runs[0], paper_of).read_text()
    assert "(mean of 2 passes)" in page
    assert "Scores are the mean of 2 passes (standard deviation between passes 0.4" in page
    assert "zero-shot: mean of 3 passes" in page
    assert "Each question was asked 3 times; the first reply is shown and counted here" in page
    assert "image, robust: mean of 3 passes" in page
    text = (runs[0] / "report.md").read_text()
    assert "zero-shot: mean of 3 passes" in text
    assert "a: zero-shot: mean of 3 passes" in write_runs(runs, tmp_path / "several.html").read_text()


def test_a_run_asked_once_says_nothing_of_passes(prepared_tiny: Path, tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run", prepared_tiny), paper_of).read_text()
    assert "passes" not in page.replace("bypasses", "")


def test_the_dashboard_counts_every_reply_and_names_the_passes(prepared_tiny: Path) -> None:
    asked = open_prepared(prepared_tiny).questions("test")
    said = [generated(each, each.answer if repeat else wrong(each), repeat) for repeat in range(3) for each in asked]
    phase = score_phase(asked, said, BUSI)
    cells = [np.array(task.confusion) for task in phase.classes]
    assert sum(int(each.sum()) for each in cells) == 27
    assert sum(int(each.trace()) for each in cells) == 18
    flat = phase_metrics("final", phase, BUSI)
    assert flat["final/accuracy_repeats"] == 3
    assert flat["final/accuracy_repeat_sd"] == pytest.approx(3**-0.5)
    once = phase_metrics("final", score_phase(asked, said[:9], BUSI), BUSI)
    assert "final/accuracy_repeats" not in once


RELEASED = DataLabel(provenance="released", prompts="ours")


BEFORE = [[number == repeat for number in range(12)] for repeat in range(5)]


def side(name: str, said: list[Prediction]) -> Side:
    rows = parse_replies(ASKED, said, BUSI, reading="generation")["robust"]
    return Side(About(name, "busi 1.0", "0" * 64, "test", "robust", RELEASED), tuple(rows))


def test_the_gain_is_of_the_means_and_its_counts_are_of_majorities() -> None:
    before, after = score_phase(ASKED, passes(BEFORE), BUSI), score_phase(ASKED, passes(FIVE), BUSI)
    gain = gain_between(before, after, BUSI)
    assert gain is not None
    assert gain.value == pytest.approx(30 / 60 - 5 / 60)
    # More than half of the passes are right for no question before, and for the first six after.
    assert gain.counts == Changed(both_right=0, only_before=0, only_after=6, both_wrong=6)


def test_the_test_of_patients_sees_a_gain_that_no_majority_shows() -> None:
    before, after = (passes([[repeat < number] * 12 for repeat in range(5)]) for number in (1, 2))
    gain = gain_between(score_phase(ASKED, before, BUSI), score_phase(ASKED, after, BUSI), BUSI)
    assert gain is not None
    assert (gain.counts.both_wrong, gain.mcnemar_p) == (12, 1.0)
    # All six patients gain, which two of the 64 arrangements of their signs do.
    assert gain.permutation_p == pytest.approx(2 / 64)
    found = compare(side("one", before), side("two", after[:24]), BUSI)
    assert found.overall.paired.permutation_p == pytest.approx(2 / 64)


def test_the_table_of_a_run_says_how_many_passes_there_are_and_what_was_missing() -> None:
    some = [each for each in passes(FIVE) if each.key != ("q0", "image", "generation", 4)]
    phases = {"zero_shot": score_phase(ASKED, passes(BEFORE), BUSI), "final": score_phase(ASKED, some, BUSI)}
    text = gain_table(phases, gain_between(phases["zero_shot"], phases["final"], BUSI), BUSI, label=RELEASED)
    assert "zero-shot: mean of 5 passes (standard deviation between passes 0.000)." in text
    assert "final: mean of 5 passes (standard deviation between passes 0.2" in text
    assert "final: 1 questions have fewer than 5 replies; each missing one counts as wrong in its pass." in text
    assert "Counted as wrong: 0 unparsable and 1 unanswered of 60 replies to 12 questions." in text
    assert "In most of its passes right before and after 0" in text
    once = gain_table({"final": score_phase(ASKED, passes(FIVE[:1]), BUSI)}, None, BUSI, label=RELEASED)
    assert "pass" not in once


def test_answers_that_the_score_does_not_count_are_counted_in_the_output() -> None:
    said = [*passes(FIVE[:1]), *passes(FIVE[:2], condition="with_anatomy")]
    phase = score_phase(ASKED, said, BUSI)
    assert "Scored apart, and not in accuracy above: with_anatomy, generation 24." in gain_table(
        {"final": phase}, None, BUSI, label=RELEASED
    )
    assert json.loads(json_bytes(scores_file(phase, RELEASED)))["other_answers"] == {"with_anatomy, generation": 24}


def test_scores_json_has_the_number_of_passes_and_their_spread() -> None:
    found = json.loads(json_bytes(scores_file(score_phase(ASKED, passes(FIVE), BUSI), RELEASED)))
    assert found["overall"]["repeats"] == 5
    assert found["overall"]["n"] == 12
    assert found["overall"]["repeat_sd"] == pytest.approx(0.2635, abs=1e-4)
    assert found["metrics"]["image"]["strict"]["accuracy"]["repeats"] == 5


def test_a_comparison_goes_by_all_passes_and_names_them() -> None:
    found = compare(side("one", passes(BEFORE)), side("two", passes(FIVE[3:4])), BUSI)
    assert found.overall.first == pytest.approx(5 / 60)
    assert found.overall.second == pytest.approx(8 / 12)
    assert found.repeats == (5, 1)
    assert "one: mean of 5 passes. A question counts as right if more than half" in table_text(comparison_table(found))
    assert "one: mean of 5 passes" in comparison_plot(found)
    assert json.loads(json_bytes(found, CompareFile))["repeats"] == [5, 1]
    left_out = replace(side("two", passes(FIVE)), other_answers={"text_only, generation": 12})
    found = compare(side("one", passes(BEFORE)), left_out, BUSI)
    assert "Not compared, of two: text_only, generation 12." in table_text(comparison_table(found))
    late = [each for each in passes(FIVE) if each.key.repeat == 4 or each.key.question_id != "q3"]
    assert compare(side("one", late), side("two", passes(FIVE)), BUSI).both == 12


def test_seeds_count_all_passes() -> None:
    rows = [parse_replies(ASKED, passes(each), BUSI, reading="generation")["robust"] for each in (BEFORE, FIVE)]
    found = seeds_gain([(rows[0], rows[1]), (rows[0], rows[0])], accuracy())
    assert found.per_seed == pytest.approx((25 / 60, 0.0))


def audited(said: list[Prediction]) -> AuditedPhase:
    return subject_of("final", ASKED, said, BUSI, parser="robust", train=ASKED)


def test_the_audit_counts_all_passes() -> None:
    said = [
        *(
            generated(question, "benign" if repeat else wrong(question), repeat)
            for repeat in range(2)
            for question in ASKED
        ),
        *passes(FIVE[1:3], condition="text_only"),
        *passes([[True] * 12], condition="stated_answer"),
    ]
    unread = [generated(ASKED[0], "hm", repeat=2), *(generated(each, each.answer, repeat=2) for each in ASKED[1:])]
    subject = audited([*said, *unread])
    audit = audit_of(subject)
    # Of three passes, the first is always wrong, the second right for a third, the third unread once and else right.
    assert row(audit, "model").value == pytest.approx((0 + 4 + 11) / 36)
    assert row(audit, "model").n == 12
    assert "mean of 3 passes" in row(audit, "model").note
    assert row(audit, "text_only").value == pytest.approx((4 + 6) / 24)
    assert row(audit, "unparsable_share").value == pytest.approx(1 / 36)
    # "benign" is the wrong answer to eight questions in the first pass, all answers of the second, three of the third.
    assert audit.collapse["diagnosis"].answer == "benign"
    assert audit.collapse["diagnosis"].share == pytest.approx((8 + 12 + 3) / 36)
    assert row(audit, "question_prior_copy").value == pytest.approx((8 + 8) / 24)


def test_permuted_options_are_compared_with_every_pass() -> None:
    shown = ("normal", "benign", "malignant")
    said = [
        *(generated(question, "A", repeat) for repeat, question in enumerate(ASKED[:1])),
        generated(ASKED[0], "B", 1),
        generated(ASKED[0], "B", 0, condition="permuted_options", shown=shown),
    ]
    audit = audit_of(audited(said))
    # The permuted answer B is "benign" at the second place: the first pass said "benign" (the option), the second said
    # "malignant", which stood at the second place.
    assert row(audit, "option_permutation").value == 0.5
    assert row(audit, "option_permutation").n == 1
