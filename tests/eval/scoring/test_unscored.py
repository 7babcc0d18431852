"""Tests that answers that wait for a judge are counted, and enter no score, no gain and no significance test."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medtune.eval.comparing.compare import About, Side, compare
from medtune.eval.comparing.compare_text import comparison_table, notes
from medtune.eval.comparing.gain import gain_between
from medtune.eval.data_label import DataLabel
from medtune.eval.metric import ParsedReply, scored_everywhere
from medtune.eval.results.build import gain_table, results_file
from medtune.eval.results.gain_schema import Changed
from medtune.eval.results.typed_json import json_bytes
from medtune.eval.scoring.parse_replies import parse_all, write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.eval.scoring.tables import table_text
from tests.eval.answers import generated
from tests.eval.free_answers import FREE, M3D, Said, asked, phase, predicted, question
from tests.eval.run_facts import run_facts

ABOUT = About("one", "m3d_vqa 1.0", "hash", "test", "robust", DataLabel(provenance="released", prompts="ours"))
BEFORE: tuple[Said, ...] = (True, False, False, True, "waits", "waits", "")
AFTER: tuple[Said, ...] = (True, True, True, "waits", False, "waits", True)


def test_mean_is_of_the_judged_answers_and_the_rest_is_counted() -> None:
    found = phase(BEFORE)
    score = found.overall
    # Right are 2 of 5 answers: four judged ones and an empty one, which counts as wrong.
    assert (score.value, score.n, score.unparsable, score.unscored) == (0.4, 5, 1, 2)
    assert vars(found.metrics["image"]["robust"]["free_answers"]).items() <= vars(score).items()
    levels = found.by["task"]
    assert {name: (level.n, level.unscored) for name, level in levels.items()} == {"organ": (4, 1), "phase": (1, 1)}


def test_interval_is_that_of_the_judged_answers_alone() -> None:
    parsed = phase((True, False, False, True, False))
    with_waiting = phase((True, False, False, True, False, "waits", "waits"))
    assert with_waiting.overall.ci95 == parsed.overall.ci95
    assert with_waiting.overall.value == parsed.overall.value


def test_without_any_verdict_there_is_no_value() -> None:
    found = phase(("waits", "waits", "waits"))
    score = found.overall
    assert score.value is None
    assert (score.n, score.ci95, score.unparsable, score.unscored) == (0, None, 0, 3)


def test_empty_and_missing_answers_are_wrong_without_a_judge() -> None:
    questions = asked(("", "<think>on and on", "missing"))
    found = score_phase(questions, predicted(("", "<think>on and on")), FREE)
    assert (found.overall.value, found.overall.n, found.overall.unanswered) == (0.0, 3, 1)
    assert (found.overall.unparsable, found.unscored) == (2, 0)


def test_choices_are_scored_as_ever_and_free_answers_beside_them_counted() -> None:
    choice = M3D.examples[0]
    reply = generated(choice, "I cannot tell.")
    found = score_phase([choice, *asked(("waits",))], [reply, *predicted(("waits",))], M3D)
    score = found.overall
    assert (score.value, score.n, score.unparsable, score.unscored) == (0.0, 1, 1, 0)
    assert found.unscored == 1


def test_blind_run_without_verdicts_is_no_baseline_of_zero() -> None:
    blind = [replace(each, key=each.key._replace(condition="text_only")) for each in predicted(("waits", "waits"))]
    found = score_phase(asked((True, False)), [*predicted((True, False)), *blind], FREE)
    assert found.overall.baselines["text_only"] is None
    assert "text-only" in gain_table({"zero_shot": found}, None, FREE, label=ABOUT.label)
    assert "waits for a judge" in gain_table({"zero_shot": found}, None, FREE, label=ABOUT.label)


def test_gain_pairs_only_what_is_judged_on_both_sides() -> None:
    gain = gain_between(phase(BEFORE), phase(AFTER), FREE)
    assert gain is not None
    # Questions 0, 1, 2 and 6: one right to right, two wrong to right, one empty to right.
    assert (gain.n, gain.unscored) == (4, 3)
    assert gain.counts == Changed(both_right=1, only_before=0, only_after=3, both_wrong=0)
    assert gain.value == 0.75
    alone = gain_between(phase((True, False, False, "")), phase((True, True, True, True)), FREE)
    assert alone is not None
    assert (gain.mcnemar_p, gain.permutation_p) == (alone.mcnemar_p, alone.permutation_p)
    assert gain.ci95 == alone.ci95


def test_level_that_cannot_be_paired_has_no_gain() -> None:
    gain = gain_between(phase((True, False, True, True, True, "waits")), phase((True,) * 6), FREE)
    assert gain is not None
    assert set(gain.by["task"]) == {"organ"}
    assert gain.by["task"]["organ"].permutation_p_holm == gain.by["task"]["organ"].permutation_p
    assert gain_between(phase(("waits", True)), phase((True, "waits")), FREE) is None


def written(before: PhaseScores, after: PhaseScores) -> tuple[dict[str, Any], str]:
    phases = {"zero_shot": before, "final": after}
    gain = gain_between(before, after, FREE)
    facts = run_facts(ABOUT.label)
    results = results_file(phases, gain, FREE, benchmark_name="m3d_vqa", model="nano", facts=facts)
    return json.loads(json_bytes(results), parse_constant=pytest.fail), gain_table(
        phases, gain, FREE, label=ABOUT.label
    )


def test_results_show_a_dash_and_how_many_wait() -> None:
    results, table = written(phase(("waits", "waits")), phase((True, "waits")))
    before, after = results["phases"]["zero_shot"], results["phases"]["final"]
    assert (before["overall"]["value"], before["overall"]["unscored"], before["unscored"]) == (None, 2, 2)
    assert (after["overall"]["value"], after["overall"]["n"], after["overall"]["unscored"]) == (1.0, 1, 1)
    assert results["gain"] is None
    lines = {line.split()[0]: line.split() for line in table.splitlines() if line and not line.startswith("-")}
    assert lines["zero-shot"] == ["zero-shot", "-", "0", "of", "2"]
    assert "wait for a judge (medtune judge): zero-shot 2, final 1." in table


def test_table_says_what_the_gain_leaves_out() -> None:
    results, table = written(phase(BEFORE), phase(AFTER))
    assert (results["gain"]["n"], results["gain"]["unscored"]) == (4, 3)
    assert "Left out of the gain: 3 questions" in table


def side(name: str, said: tuple[Said, ...]) -> Side:
    return Side(replace(ABOUT, name=name), phase(said).rows)


def test_comparison_leaves_out_what_waits_on_either_side() -> None:
    found = compare(side("one", BEFORE), side("two", AFTER), FREE)
    assert (found.both, found.unscored) == (4, 3)
    assert (found.overall.first, found.overall.second, found.overall.paired.n) == (0.25, 1.0, 4)
    assert any("Unscored: 3 that both answered wait for a judge" in note for note in notes(found))
    assert found.unscored == 3
    assert "nan" not in table_text(comparison_table(found))


def test_comparison_of_nothing_judged_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"one and two answered 2 questions in common, .* `medtune judge` both"):
        compare(side("one", ("waits", True)), side("two", (True, "waits")), FREE)


def test_sides_keep_their_order_and_lose_the_same_questions() -> None:
    first, second = (phase(said).rows for said in (BEFORE, AFTER))
    kept = scored_everywhere([first, second])
    assert [[row.question.id for row in rows] for rows in kept] == [["q0", "q1", "q2", "q6"]] * 2
    with pytest.raises(ValueError, match="shorter"):
        scored_everywhere([first, second[:2]])


def test_parsed_file_names_the_parsers_that_wait(tmp_path: Path) -> None:
    said: tuple[Said, ...] = (True, "waits", "")
    parsed = parse_all(asked(said), predicted(said), M3D)
    write_parsed(tmp_path / "parsed.jsonl", predicted(said), parsed, M3D)
    lines = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text().splitlines()]
    assert [line.get("unscored") for line in lines] == [None, ["robust", "official"], None]


def test_a_row_waits_only_if_it_says_so() -> None:
    assert not ParsedReply(question(0), None, None).unscored
