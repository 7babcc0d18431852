import json
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import ask_questions
from medtune.eval.benchmark import Benchmark
from medtune.eval.comparing.gain import PairedGain, gain_between
from medtune.eval.data_label import DataLabel
from medtune.eval.metrics.macro_f1 import metric as macro_f1
from medtune.eval.results.build import gain_table, results_file
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.statistics.intervals import METHOD
from tests.eval.answerers import Guessing, Oracle, groups, questions
from tests.eval.run_facts import run_facts

BUSI = find_benchmark("busi")
FOUND = groups(8)
ASKED = questions(FOUND)
LABEL = DataLabel(provenance="released", prompts="ours")


def phase(folder: Path, answerer: Answerer, *, of: int = 8) -> PhaseScores:
    said = ask_questions(answerer, groups(of), BUSI, answer_format="text", out_dir=folder)
    return score_phase(questions(groups(of)), said, BUSI, train=ASKED)


def overall(before: PhaseScores, after: PhaseScores, benchmark: Benchmark = BUSI) -> PairedGain:
    gain = gain_between(before, after, benchmark)
    assert gain is not None
    return gain


@pytest.fixture(scope="module")
def phases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PhaseScores]:
    folder = tmp_path_factory.mktemp("phases")
    return {"zero_shot": phase(folder / "a", Guessing()), "final": phase(folder / "b", Oracle())}


def test_gain_is_the_difference_and_counts_who_changed(phases: dict[str, PhaseScores]) -> None:
    gain = overall(phases["zero_shot"], phases["final"])
    before = phases["zero_shot"].overall.number
    assert gain.value == pytest.approx(1 - before)
    counts = gain.counts
    assert gain.n == len(ASKED) == counts.both_right + counts.only_before + counts.only_after + counts.both_wrong
    assert (counts.only_before, counts.both_wrong) == (0, 0)
    assert gain.mcnemar_p == pytest.approx(2 * 0.5**counts.only_after)
    assert gain.ci95.low < gain.value < gain.ci95.high


def test_gain_the_other_way_is_its_negative(phases: dict[str, PhaseScores]) -> None:
    there = overall(phases["zero_shot"], phases["final"])
    back = overall(phases["final"], phases["zero_shot"])
    assert back.value == -there.value
    assert back.ci95 == pytest.approx((-there.ci95.high, -there.ci95.low), abs=0.02)


def test_no_change_is_no_gain_with_an_honest_interval(phases: dict[str, PhaseScores]) -> None:
    gain = overall(phases["final"], phases["final"])
    assert (gain.value, gain.mcnemar_p) == (0.0, 1.0)
    assert gain.ci95.low < 0 < gain.ci95.high


def test_gain_of_another_metric(phases: dict[str, PhaseScores]) -> None:
    by_f1 = replace(BUSI, metrics={"macro_f1": macro_f1()}, facets=())
    gain = overall(phases["zero_shot"], phases["final"], by_f1)
    assert gain.value == pytest.approx(1 - macro_f1().value(phases["zero_shot"].rows))
    assert gain.ci95.low < gain.value < gain.ci95.high


def test_gain_refuses_other_questions_and_other_parsers(tmp_path: Path, phases: dict[str, PhaseScores]) -> None:
    with pytest.raises(ValueError, match="scored different questions"):
        gain_between(phases["zero_shot"], phase(tmp_path, Oracle(), of=4), BUSI)
    with pytest.raises(ValueError, match="score both with one parser"):
        gain_between(phases["zero_shot"], replace(phases["final"], parser="robust"), BUSI)


def test_results_have_the_designed_shape(phases: dict[str, PhaseScores]) -> None:
    gain = gain_between(phases["zero_shot"], phases["final"], BUSI)
    file = results_file(phases, gain, BUSI, benchmark_name="busi", model="nano", facts=run_facts(LABEL))
    results = json.loads(json_bytes(file), parse_constant=pytest.fail)
    assert results["benchmark"] == "busi"
    assert results["model"] == "nano"
    assert results["primary"] == {"name": "accuracy", "higher_is_better": True, "level_name": "accuracy"}
    assert set(results["phases"]) == {"zero_shot", "final"}
    for found in results["phases"].values():
        assert set(found) >= {"overall", "by", "metrics"}
        for level in (found["overall"], found["by"]["task"]["diagnosis"]):
            assert set(level) >= {"value", "n", "ci95", "baselines"}
            assert len(level["ci95"]) == 2
            assert set(level["baselines"]) == {
                "random", "majority", "constant_letter", "question_prior", "text_only", "other_image",
            }  # fmt: skip
    assert set(results["gain"]) == {
        "value", "before", "after", "n", "num_patients", "unscored", "ci95", "permutation_p", "permutation_p_holm",
        "mcnemar_p", "counts", "by", "answers", "readability",
    }  # fmt: skip
    assert set(results["gain"]["by"]["task"]) == {"diagnosis", "red_box_grounding"}


def test_results_of_one_stage_have_no_gain(phases: dict[str, PhaseScores]) -> None:
    one = {"zero_shot": phases["zero_shot"]}
    results = results_file(one, None, BUSI, benchmark_name="busi", model="nano", facts=run_facts(LABEL))
    assert json.loads(json_bytes(results))["gain"] is None


def test_gain_table_names_every_row_with_its_n_and_interval(phases: dict[str, PhaseScores]) -> None:
    table = gain_table(phases, gain_between(phases["zero_shot"], phases["final"], BUSI), BUSI, label=LABEL)
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert {"zero-shot", "final", "gain", "text-only", "other-image", "random", "majority"} <= set(rows)
    for name in ("zero-shot", "final", "gain", "text-only", "other-image"):
        assert f" {len(ASKED)} " in rows[name]
        assert " to " in rows[name]
    assert "McNemar" in table
    assert METHOD in table
    assert "Counted as wrong: 0 unparsable and 0 unanswered" in table


def test_gain_table_of_one_stage(phases: dict[str, PhaseScores]) -> None:
    assert "gain" not in gain_table({"zero_shot": phases["zero_shot"]}, None, BUSI, label=LABEL)


def test_gain_table_says_that_a_split_is_not_the_benchmarks_own(phases: dict[str, PhaseScores]) -> None:
    assert "Unofficial" not in gain_table(phases, None, BUSI, label=LABEL)
    divided = replace(LABEL, unofficial_split="patient")
    assert "Unofficial split by patient: not comparable" in gain_table(phases, None, BUSI, label=divided)
