"""What the first lines of a report may claim: about patients, about checks without the model, and about what falls."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from medtune.benchmarks import paper_of
from medtune.eval.audit.row import NOT_BEATEN
from medtune.eval.report.report import RunReport, run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.write import write_report
from tests.eval.report.folders import change_json


def report(run: Path) -> RunReport:
    return run_report(read_run(run), paper_of)


def leads(run: Path) -> list[str]:
    return [caveat.lead for caveat in report(run).headline.caveats]


BETTER_CHECK = "A shortcut without this model does better."
MAYBE_BETTER = "A shortcut without this model may do as well."


def said(run: Path) -> str:
    return " ".join(report(run).headline.sentences)


def audit_row(name: str, title: str, value: float, gap: tuple[float, float, float], **more: Any) -> dict[str, Any]:
    difference = {"value": gap[0], "ci95": list(gap[1:])}
    row = {"name": name, "title": title, "phase": "no model", "metric": "accuracy", "value": value, "n": 9}
    return row | {"ci95": [value - 0.1, value + 0.1], "gap": difference, "flag": None, "note": ""} | more


def write_checks(run: Path, *rows: dict[str, Any]) -> None:
    own = {**audit_row("model", "the final model", 0.66, (0, 0, 0)), "phase": "final", "gap": None}
    (run / "audit.json").write_text(json.dumps({"version": 1, "rows": [own, *rows], "collapse": {}}))


MAJORITY = audit_row("majority", "most frequent train answer of the task", 0.56, (0.10, -0.02, 0.22))
PROBE = audit_row("linear_probe", "logistic regression on the vision features", 0.82, (-0.16, -0.28, -0.05))
PROBE["gap"] |= {"permutation_p": 0.0004, "permutation_p_holm": 0.006}
BEATEN = audit_row("random", "guessing", 0.33, (0.33, 0.2, 0.45))


def test_the_strongest_check_is_named_and_called_better_where_it_is(run: Path) -> None:
    """The figures are those of a short run on real BUSI: 0.66 beside a majority of 0.56 and a linear probe of 0.82."""
    write_checks(run, BEATEN, MAJORITY, PROBE)
    top = report(run).headline
    assert top.caveats[0].lead == BETTER_CHECK
    assert (
        "Logistic regression on the vision features, which needs no training of this model, reaches an accuracy of "
        "0.82 on 9 questions: it is better than the model (model minus check \N{MINUS SIGN}0.16, 95 % interval "
        "\N{MINUS SIGN}0.28 to \N{MINUS SIGN}0.05; p = 0.006 after Holm's correction over the checks)."
    ) in top.sentences
    assert BETTER_CHECK in write_report(run, paper_of).read_text()


@pytest.mark.parametrize("holm", [None, 0.02])
def test_a_check_is_not_called_better_by_its_interval_alone(run: Path, holm: float | None) -> None:
    """It is picked among many, each of which may be better by chance."""
    write_checks(run, BEATEN, MAJORITY, {**PROBE, "gap": {**PROBE["gap"], "permutation_p_holm": holm}})
    assert leads(run)[0] == MAYBE_BETTER
    assert "0.82 on 9 questions: the model is not surely better" in said(run)


def test_a_check_that_is_not_surely_worse_is_named_as_such(run: Path) -> None:
    write_checks(run, BEATEN, MAJORITY)
    top = report(run).headline
    assert leads(run)[0] == MAYBE_BETTER
    (sentence,) = [each for each in top.sentences if "reaches an accuracy" in each]
    assert "of the task, which needs no training of this model, reaches an accuracy of 0.56" in sentence
    assert "the model is not surely better (model minus check +0.10" in sentence


def test_a_surely_better_check_goes_before_a_higher_one_that_is_not_sure(run: Path) -> None:
    noisy = audit_row("constant_letter", "always the same position", 0.84, (-0.18, -0.4, 0.02))
    write_checks(run, noisy, PROBE)
    assert leads(run)[0] == BETTER_CHECK
    assert "0.82 on 9 questions: it is better" in said(run)


def test_checks_that_the_model_beats_and_other_measures_are_not_named(run: Path) -> None:
    asked_again = audit_row("options_permuted", "options in another order", 0.7, (-0.04, -0.2, 0.1), phase="final")
    leak = audit_row("prompt_leak", "without the image", 0.9, (-0.2, -0.3, -0.1), metric="accuracy difference")
    write_checks(run, BEATEN, asked_again, leak)
    assert "reaches" not in said(run)
    blind = audit_row("text_only", "the same model without the image", 0.65, (0.01, -0.1, 0.1), phase="final")
    write_checks(run, BEATEN, asked_again, blind)
    assert "Without the image it scores 0.65: not surely less." in said(run)


def test_a_chart_of_the_audit_holds_one_quantity_and_names_it(run: Path) -> None:
    """The headline of this run is a composite of 0.9 over all questions; the audit counts right answers of nine."""
    change_json(run / "results.json", "primary", "name", value="composite")
    for phase in ("zero_shot", "final"):
        change_json(run / "results.json", "phases", phase, "overall", "value", value=0.9)
    blind = audit_row("text_only", "the same model without the image", 0.65, (0.01, -0.1, 0.1), phase="final")
    write_checks(run, BEATEN, blind, {**MAJORITY, "n": 4})
    top, chart = report(run).headline.image, report(run).audit_chart
    assert top
    assert top.chart
    assert chart
    assert top.chart.title == "Does it look at the image? Accuracy of 9 questions"
    assert [(row.label, row.text) for row in top.chart.strips] == [
        ("with its own image", "0.66"), ("before training", "0.11"), ("without the image", "0.65"),
        ("guessing", "0.33"),
    ]  # fmt: skip
    assert top.sentence == "Without the image its accuracy is 0.65 (with its own image 0.66): not surely less."
    assert chart.title == "What else reaches this accuracy of 9 questions"
    assert [row.note for row in chart.strips] == ["", "", "4 questions", ""]
    (run / "audit.json").unlink()
    change_json(run / "results.json", "phases", "final", "overall", "baselines", value={"text_only": 0.4})
    top = report(run).headline.image
    assert top
    assert top.chart
    assert top.chart.title.startswith("Does it look at the image? Composite of ")


@pytest.mark.parametrize(("mode", "words"), [("frozen", "needs no training"), ("lora", "were trained with the model")])
def test_features_of_a_trained_tower_are_not_called_free_of_training(run: Path, mode: str, words: str) -> None:
    write_checks(run, PROBE)
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["model"] = {"tuning": {"vision": {"mode": mode}}}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert words in said(run)


def make_gain(run: Path, p: float, ci95: list[float]) -> None:
    change_json(run / "results.json", "gain", "permutation_p", value=p)
    change_json(run / "results.json", "gain", "ci95", value=ci95)


def level(value: float, before: float, p: float, ci95: list[float]) -> dict[str, Any]:
    counts = {"both_right": 0, "only_before": 0, "only_after": 0, "both_wrong": 0}
    found = {"value": value, "before": before, "after": before + value, "n": 40, "num_patients": 40, "ci95": ci95}
    return found | {"permutation_p": p, "permutation_p_holm": p, "mcnemar_p": p, "counts": counts}


def test_a_class_that_falls_is_named_beside_a_gain(run: Path) -> None:
    make_gain(run, 0.001, [0.1, 0.6])
    answers = {
        "diagnosis": {"malignant": level(-0.15, 0.5, 0.21, [-0.4, 0.1]), "benign": level(0.5, 0.2, 0.001, [0.3, 0.7])}
    }
    change_json(run / "results.json", "gain", "answers", value=answers)
    top = report(run).headline
    fell = "the share of right ones where the answer is 'malignant' (diagnosis) fell from 0.50 to 0.35"
    assert top.verdict_said == "The gain is larger than chance explains"
    assert "It may have got worse at something." in leads(run)
    assert fell.capitalize()[:9] in said(run)
    assert any(each.startswith("The share") and "p = 0.21 after Holm's correction" in each for each in top.sentences)
    table = report(run).answers
    assert table is not None
    assert [cell.text for cell in table.rows[0][:5]] == ["diagnosis", "malignant", "40", "0.500", "0.350"]
    assert "'malignant' (diagnosis) fell" in write_report(run, paper_of).read_text().replace("&#39;", "'")
    assert "Share of right ones by true answer" in (run / "report.md").read_text()


def test_a_table_says_where_every_patient_has_one_question(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    tasks = results["gain"]["by"]["task"]
    for number, (name, one) in enumerate(tasks.items()):
        change_json(run / "results.json", "gain", "by", "task", name, "num_patients", value=one["n"] - (number > 0))
    first = next(iter(tasks)).replace("_", " ")
    notes = next(facet.table.notes for facet in report(run).facets if facet.title == "task")
    assert (
        f"Each patient of {first} has one question, so that swaps of patients and of questions are the same." in notes
    )
    for name, one in tasks.items():
        change_json(run / "results.json", "gain", "by", "task", name, "num_patients", value=one["n"])
    notes = next(facet.table.notes for facet in report(run).facets if facet.title == "task")
    assert "Each patient has one question, so that swaps of patients and of questions are the same." in notes


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("patient", "simulated patients whom training never saw"),
        ("image", "simulated images that training never saw (one image stands for one patient, because the data do not "
                  "say whose the images are, so that train and test may share patients)"),
        ("image or film", "images or films that training never saw"),
        ("", "patients or what stands for them, which is not recorded"),
    ],
)  # fmt: skip
def test_unseen_patients_are_claimed_only_where_patients_are_known(run: Path, unit: str, words: str) -> None:
    change_json(run / "results.json", "stands_for_patient", value=unit)
    lead = report(run).headline.sentences[0]
    assert words in lead
    assert ("whom training never saw" in lead) == (unit == "patient")


def test_what_stands_for_a_patient_is_in_the_report_in_the_sources_words(run: Path) -> None:
    change_json(run / "results.json", "patient_unit", value="one image stands for one patient: 780 images of 600 women")
    assert ("patients", "one image stands for one patient: 780 images of 600 women") in report(run).reproduction.facts
    assert "780 images of 600 women" in write_report(run, paper_of).read_text()


def figure_card(page: str) -> str:
    return page.partition('<div class="figure-card')[2].partition("</div>")[0]


def result_section(page: str) -> str:
    return page.partition('<section id="result"')[2].partition("</section>")[0]


def test_a_fall_that_chance_explains_is_no_part_of_a_gain(run: Path) -> None:
    make_gain(run, 0.001, [0.1, 0.6])
    answers = {"diagnosis": {"malignant": level(-0.06, 0.5, 1.0, [-0.4, 0.3])}}
    change_json(run / "results.json", "gain", "answers", value=answers)
    assert "It may have got worse at something." not in leads(run)
    change_json(
        run / "results.json", "gain", "answers", "diagnosis", "malignant", value=level(-0.3, 0.5, 0.04, [-1, 0])
    )
    assert "It may have got worse at something." in leads(run)
    page = write_report(run, paper_of).read_text()
    # The box that is green for a gain holds the gain alone.
    assert "larger than chance explains" in figure_card(page)
    assert "fell" not in figure_card(page)
    assert "fell from 0.50 to 0.20" in result_section(page)


def test_the_interval_and_the_test_of_questions_stand_once_on_the_first_screen(run: Path) -> None:
    make_gain(run, 0.001, [0.12, 0.61])
    page = result_section(write_report(run, paper_of).read_text())
    lead = page.partition("<table")[0]
    assert lead.count("+0.12 to +0.61") == 1
    assert page.count("McNemar") == 1
    assert page.count("swaps whole patients") == 1
    first, _, table = (run / "report.md").read_text().partition("## Result")
    assert first.count("+0.12 to +0.61") == 1
    assert (first + table.partition("Right before and after")[0]).count("McNemar") == 1


@pytest.mark.parametrize(
    ("unreadable", "missing", "words"),
    [
        (0, 4, "Counted as wrong: 4 missing answers."),
        (1, 0, "Counted as wrong: 1 unreadable answer."),
        (3, 1, "Counted as wrong: 3 unreadable and 1 missing answers."),
        (0, 0, ""),
    ],
)
def test_nothing_is_said_of_no_unreadable_answers(run: Path, unreadable: int, missing: int, words: str) -> None:
    for name, count in (("unparsable", unreadable), ("unanswered", missing)):
        change_json(run / "results.json", "phases", "final", "overall", name, value=count)
    assert [each for each in report(run).headline.sentences if "Counted as wrong" in each] == [words] * bool(words)


def test_a_check_that_is_not_beaten_is_named_in_the_warning(run: Path) -> None:
    write_checks(run, {**MAJORITY, "flag": NOT_BEATEN})
    (one,) = report(run).headline.caveats
    assert one.lead == MAYBE_BETTER
    assert one.detail.startswith("Most frequent train answer of the task")
    write_checks(run, PROBE, {**MAJORITY, "flag": NOT_BEATEN})
    assert leads(run)[1] == "Not surely better either than most frequent train answer of the task."
