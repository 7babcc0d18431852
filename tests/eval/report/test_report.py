import itertools
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from medtune.benchmarks import paper_of
from medtune.data.prepared.read import open_prepared
from medtune.eval.report.answers import answered_questions
from medtune.eval.report.charts.training import training_charts
from medtune.eval.report.html import TEMPLATES
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.runs.several import several_runs
from medtune.eval.report.write import write_report, write_runs
from medtune.trainer.commands.cli import main
from tests.eval.report.folders import SCRIPT, change_json, write_audit, write_run


class Tags(HTMLParser):
    """Collects the elements, ids and headings of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes.append(dict(attrs))


def page(run: Path) -> str:
    return write_report(run, paper_of).read_text()


def test_headline_says_what_was_measured_on_whom_and_whether_it_is_real(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    gain, report = results["gain"], run_report(read_run(run), paper_of)
    patients = {
        question.patient_id
        for question in open_prepared(Path(str(report.run.setting("data", "root")))).questions("test")
    }
    lead = report.headline.sentences[0]
    assert f"{gain['n']} questions about {len(patients)} simulated patients whom training never saw" in lead
    assert report.headline.after == f"{results['phases']['final']['overall']['value']:.2f}"
    assert report.headline.gain == f"+{gain['value']:.2f}"


def test_baseline_within_the_interval_is_named_and_one_below_is_not(run: Path) -> None:
    def said(word: str) -> list[str]:
        return [each for each in run_report(read_run(run), paper_of).headline.sentences if word in each]

    for name in ("random", "majority", "constant_letter", "question_prior"):
        change_json(run / "results.json", "phases", "final", "overall", "baselines", name, value=None)
    change_json(run / "results.json", "phases", "final", "overall", "ci95", value=[0.5, 0.9])
    change_json(run / "results.json", "phases", "final", "overall", "baselines", "random", value=0.3)
    change_json(run / "results.json", "phases", "final", "overall", "baselines", "text_only", value=0.6)
    assert not said("reaches")
    change_json(run / "results.json", "phases", "final", "overall", "baselines", "majority", value=0.6)
    (sentence,) = said("reaches")
    assert "Always the task's most frequent train answer reaches 0.60: the model is not surely better" in sentence
    change_json(run / "results.json", "phases", "final", "overall", "baselines", "majority", value=0.95)
    assert (
        "whose interval is 0.50 to 0.90; the check lies beyond it, and medtune audit RUN tests that"
        in said("reaches")[0]
    )


@pytest.mark.parametrize(
    ("blind", "other", "words", "is_shown"),
    [
        ((0.3, 0.1, 0.5), (0.3, 0.1, 0.5), "surely less: its answers rest on the patient's own image.", True),
        ((0.3, 0.1, 0.5), (0.1, -0.1, 0.3), "not surely less with another patient's image.", False),
        ((0.1, -0.1, 0.3), (0.1, -0.1, 0.3), "not surely less.", False),
    ],
)
def test_the_first_screen_says_whether_the_image_is_looked_at(
    run: Path, blind: tuple[float, float, float], other: tuple[float, float, float], words: str, is_shown: bool
) -> None:
    own = {"name": "model", "title": "the final model", "phase": "final", "metric": "accuracy", "value": 0.6, "n": 9}
    rows = [own | {"ci95": [0.5, 0.7], "gap": None, "flag": None, "note": ""}]
    for name, (gap, *ci95) in {"text_only": blind, "other_image": other}.items():
        rows.append(rows[0] | {"name": name, "title": name, "value": 0.6 - gap, "gap": {"value": gap, "ci95": ci95}})
    (run / "audit.json").write_text(json.dumps({"version": 1, "rows": rows, "collapse": {}}))
    top = run_report(read_run(run), paper_of).headline
    assert top.image is not None
    assert top.image.is_shown == is_shown
    assert top.image.sentence.endswith(words)
    assert any("looks at the patient's image" in caveat.lead for caveat in top.caveats) == (not is_shown)
    assert top.image.chart is not None
    shown = [(strip.label, strip.text) for strip in top.image.chart.strips]
    assert shown[0] == ("with its own image", "0.60")
    assert ("without the image", f"{0.6 - blind[0]:.2f}") in shown


def test_curves_have_the_zero_shot_point_at_step_0_the_tasks_the_rates_and_the_norm(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    tasks = list(results["phases"]["final"]["by"]["task"])
    lines = [f"{step},val,task={task}/accuracy,{0.1 * step}" for step in (2, 4) for task in tasks]
    lines += [f"{step},train,{name},0.001" for step in (1, 2) for name in ("lr_language", "gradient_norm")]
    with (run / "metrics.csv").open("a") as file:
        file.write("\n".join(lines) + "\n")
    charts = {chart.id: chart for chart in run_report(read_run(run), paper_of).curves}
    assert list(charts) == ["curve-validation", "curve-loss", "curve-tasks", "curve-rates", "curve-norm"]
    rings = charts["curve-validation"].series[-1].dots
    before, after = (results["phases"][name]["overall"]["value"] for name in ("zero_shot", "final"))
    assert [dot.x for dot in rings] == [0.0, 100.0]
    assert [dot.y for dot in rings] == pytest.approx([100 - 100 * before, 100 - 100 * after], abs=0.001)
    assert rings[0].low is not None
    assert len(charts["curve-tasks"].kinds) == len(tasks) + 1
    assert "test questions" in dict(charts["curve-tasks"].kinds).values()
    assert charts["curve-rates"].y_ticks[-1].text == "1.0e-3"


def test_a_curve_begins_with_the_zero_shot_point_of_the_same_questions(run: Path) -> None:
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["eval"] = {"split": "val", "questions": None, "val_questions": 100}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    opened = read_run(run)
    (chart,) = [chart for chart in training_charts(opened) if chart.id == "curve-validation"]
    before = opened.phases["zero_shot"].overall
    assert [(point.step, point.value) for point in chart.points][:2] == [(0, before.value), (2, 0.4)]
    assert "Rings" not in chart.desc
    assert len(chart.series) == 1
    recipe["eval"]["val_questions"] = 2
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (chart,) = [chart for chart in training_charts(read_run(run)) if chart.id == "curve-validation"]
    assert chart.points[0].step == 2
    assert "Rings: other val questions, zero-shot at step 0" in chart.desc


def test_a_bar_says_how_many_of_its_wrong_answers_are_shown_and_how_to_get_the_rest(
    prepared_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medtune.eval.report.gallery.MAX_ITEMS", 4)
    run = write_run(tmp_path / "run", prepared_tiny, phases=["zero_shot"])
    answered = {q.question.id: q for q in answered_questions(read_run(run))}
    report = run_report(read_run(run), paper_of)
    chart = next(facet.chart for facet in report.facets if facet.title == "task")
    assert chart
    links = {row.link.group.removeprefix("task="): row.link for row in chart.rows if row.link}
    assert links
    for task, link in links.items():
        wrong = [q for q in answered.values() if q.question.facets["task"] == task and q.last.outcome != "right"]
        shown = [item for item in report.gallery.items if item.outcome == "wrong" and link.group in item.groups]
        assert (link.shown, link.all) == (len(shown), len(wrong))
    told = next(link for link in links.values() if link.shown < link.all)
    assert f"{told.shown} of {told.all} wrong answers" in (text := page(run))
    assert f"medtune explain RUN phases.zero_shot.by.{told.group.replace('=', '.')} --all" in text


def test_audit_of_the_run_is_shown_and_its_flags_reach_the_top(run: Path) -> None:
    write_audit(run)
    report = run_report(read_run(run), paper_of)
    titles = [row[0].text for row in report.audit.rows]
    assert titles == ["guessing", f"a blank image {SCRIPT}"]
    assert [cell.text for cell in report.audit.rows[1]][-3:-1] == ["−0.050", "−0.200 to +0.100"]
    assert report.headline.image is not None
    assert report.headline.image.sentence == "With a blank image it scores 0.35: not surely less."
    assert report.headline.caveats[0].lead == "It is not shown that the model looks at the patient's image."
    assert report.collapse is not None
    assert [cell.text for cell in report.collapse.rows[0]][2:4] == ["0.800", "0.300"]
    assert report.collapse.columns[0] == "subtype, or task without one"


def test_gallery_shows_every_change_wrong_ones_first_and_says_how_many_there_are(run: Path) -> None:
    shown = run_report(read_run(run), paper_of).gallery
    counts = json.loads((run / "results.json").read_text())["gain"]["counts"]
    assert dict(shown.counts) == {
        "broken by training": counts["only_before"],
        "wrong before and after": counts["both_wrong"],
        "fixed by training": counts["only_after"],
        "right before and after": counts["both_right"],
    }
    outcomes = [item.outcome for item in shown.items]
    assert outcomes == sorted(outcomes, reverse=True)
    assert {"right", "wrong"} <= set(outcomes)
    assert len(shown.items) == min(shown.num_questions, 60)


def test_gallery_has_probabilities_that_sum_to_one_and_marks_truth_and_answer(run: Path) -> None:
    for item in run_report(read_run(run), paper_of).gallery.items:
        for place in range(2):
            assert sum(option.probabilities[place][1] for option in item.options) == pytest.approx(1)
        (true,) = [option for option in item.options if option.is_true]
        assert true.text == item.truth
        assert ("after training" in true.chosen_by) == (item.outcome == "right")
        said = [option for option in item.options if "after training" in option.chosen_by]
        assert max(item.options, key=lambda option: option.probabilities[1][1]) == said[0]


def test_gallery_keeps_to_its_items_and_bytes(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medtune.eval.report.gallery.MAX_ITEMS", 4)
    monkeypatch.setattr("medtune.eval.report.gallery.MAX_IMAGE_BYTES", 2_500)
    shown = run_report(read_run(run), paper_of).gallery
    sizes = [len(item.picture.uri or "") for item in shown.items]
    assert len(sizes) == 4
    assert sum(sizes) <= 2_500
    assert 0 in sizes
    assert "Image left out" in page(run)


def test_red_box_survives_in_the_picture(run: Path) -> None:
    boxed = [item for item in run_report(read_run(run), paper_of).gallery.items if "red box" in item.picture.alt]
    assert boxed
    assert all(item.task == "red box grounding" for item in boxed)


def test_no_patient_and_no_file_of_the_data_is_named(run: Path, prepared_tiny: Path) -> None:
    text = page(run) + (run / "report.md").read_text()
    prepared = open_prepared(prepared_tiny)
    for group in prepared.groups("test"):
        assert group.patient_id not in text
        assert group.media[0].path.name not in text


def test_page_escapes_data_and_names_nothing_outside(hostile_run: Path) -> None:
    text = page(hostile_run)
    found = Tags(text)
    assert found.names.count("script") == 1
    assert "onerror" not in {name for attributes in found.attributes for name in attributes}
    for attributes in found.attributes:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), value
    assert SCRIPT not in text.replace(f"<script>{(TEMPLATES / 'page.js').read_text()}", "")
    (policy,) = [a["content"] or "" for a in found.attributes if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy


def test_page_is_ordered_and_labelled(hostile_run: Path) -> None:
    text = page(hostile_run)
    found = Tags(text)
    heads = [int(name[1]) for name in found.names if re.fullmatch("h[1-6]", name)]
    assert heads[0] == 1
    assert heads.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(heads))
    assert found.names.count("table") == found.names.count("caption")
    assert all(a.get("scope") for n, a in zip(found.names, found.attributes, strict=True) if n == "th")
    assert all(a.get("alt") for n, a in zip(found.names, found.attributes, strict=True) if n == "img")
    ids = [attributes["id"] for attributes in found.attributes if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = " ".join(a.get("aria-labelledby") or "" for a in found.attributes).split()
    anchors = [(a.get("href") or "")[1:] for a in found.attributes if (a.get("href") or "").startswith("#")]
    assert set(named) | set(anchors) <= set(ids)


def test_data_that_are_not_released_are_labelled_and_weights_explained(run: Path) -> None:
    for text in (page(run), (run / "report.md").read_text().replace("\\", "")):
        assert "Synthetic data" in text
        assert "The language weights are quantised: a GGUF file" in text
        assert "untrained projector" in text
    change_json(run / "results.json", "provenance", value="reconstruction")
    assert "Reconstructed questions" in page(run)
    change_json(run / "results.json", "provenance", value="released")
    assert "Synthetic data" not in page(run)


def test_published_rows_are_set_apart_from_ours(run: Path) -> None:
    table = {
        "title": "Main",
        "columns": ["model", "score"],
        "rows": [["GPT-5", 0.5], ["ours, read by likelihood", None]],
        "notes": [],
        "digits": 2,
    }
    change_json(run / "results.json", "phases", "final", "tables", value=[table])
    text = page(run)
    assert "Other models, other data" in text
    assert '<tr class="ours">' in text.split("<caption>Main</caption>")[1].split("</table>")[0]
    assert "<bdi>0.50</bdi>" in text
    assert "| GPT-5 | 0.50 |" in (run / "report.md").read_text()


def test_holm_permutation_and_calibration_are_shown_where_the_run_has_them(run: Path) -> None:
    for level in ("diagnosis", "lesion_localisation", "red_box_grounding"):
        change_json(run / "results.json", "gain", "by", "task", level, "permutation_p_holm", value=0.0532)
        change_json(run / "results.json", "gain", "by", "task", level, "permutation_p", value=0.0421)
        change_json(run / "results.json", "gain", "by", "task", level, "mcnemar_p", value=0.0001)
    bins = [{"low": 0.6, "high": 0.7, "n": 9, "confidence": 0.65, "accuracy": 0.5}]
    change_json(run / "results.json", "phases", "final", "calibration", value={"ece": 0.1234, "bins": bins})
    report = run_report(read_run(run), paper_of)
    task = next(facet.table for facet in report.facets if facet.title == "task")
    assert task.columns[-3:] == ("p (patients)", "p (patients, Holm)", "p (McNemar, questions)")
    assert [cell.text for cell in task.rows[0][-3:]] == ["0.042", "0.053", "< 0.001"]
    chart = report.reliability[-1]
    assert (chart.ece, chart.bars[0].top, chart.bars[0].confidence) == ("0.123", 50.0, 65.0)
    assert "Expected calibration error" in page(run)


def test_a_blind_run_is_never_said_to_have_seen_an_image(run: Path) -> None:
    for shown, seen in (("", "image"), ("text_only", "text only")):
        change_json(run / "results.json", "protocol", "used", "shown", value=shown)
        rows = run_report(read_run(run), paper_of).metrics.rows
        assert ("image" in {row[1].text for row in rows}) == (seen == "image")
        assert seen in {row[1].text for row in rows}


def test_markdown_has_the_numbers_of_the_page_and_escapes(hostile_run: Path) -> None:
    write_report(hostile_run, paper_of)
    text = (hostile_run / "report.md").read_text()
    results = json.loads((hostile_run / "results.json").read_text())
    assert f"| after training | {results['phases']['final']['overall']['value']:.3f} |" in text
    body = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    assert "<script>" not in body
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in body.splitlines()]
    assert all(a == b for a, b in itertools.pairwise(widths) if a and b)


@pytest.mark.parametrize("phase", ["zero_shot", "final"])
def test_evaluation_alone_has_a_report_without_gain(phase: str, prepared_tiny: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", prepared_tiny, phases=(phase,))
    (run / "metrics.csv").unlink()
    (run / "weights.json").unlink()
    report = run_report(read_run(run), paper_of)
    assert (report.headline.verdict, report.headline.gain, report.curves) == ("single", None, ())
    assert "no gain to judge" in page(run)


def test_report_without_the_prepared_folder_says_so(run: Path, tmp_path: Path) -> None:
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(re.sub("root: .*", f"root: {tmp_path / 'gone'}", recipe))
    assert "The prepared folder is not at hand" in page(run)


def test_a_missing_folder_is_none_of_a_run_whose_name_its_message_holds(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "r")
    recipe = (run / "recipe.yaml").read_text()
    (tmp_path / "r" / "recipe.yaml").write_text(re.sub("root: .*", "root: d", recipe))
    monkeypatch.chdir(tmp_path)
    assert "The prepared folder is not at hand" in page(Path("r"))


def test_report_on_data_prepared_again_shows_no_questions(run: Path) -> None:
    change_json(run / "results.json", "data_hash", value="0" * 64)
    text = page(run)
    assert "The prepared folder has changed" in text
    assert "data:image" not in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results.json", "{", "results.json: not valid JSON"),
        ("results.json", "[]", "results.json: wanted an object"),
        ("results.json", '{"phases": {}}', "results.json, field benchmark is missing"),
        ("environment.json", "nothing", "environment.json: not valid JSON"),
        ("weights.json", '{"language": 4}', "weights.json, field language: wanted a string, got 4"),
        ("recipe.yaml", "a: [", "recipe.yaml: not valid YAML"),
        ("recipe.yaml", "just words", "recipe.yaml: wanted a recipe"),
        ("metrics.csv", "step,phase,name,value\n1,train,loss,high\n", "metrics.csv: not the table of a run"),
        ("metrics.csv", "train/loss\n0.5\n", "metrics.csv: not the table of a run"),
        ("audit.json", '{"rows": [{"title": 3}]}', "audit.json, field rows[0]"),
        ("final/parsed.jsonl", "{}\n", "parsed.jsonl, line 1, field condition is missing"),
        ("final/predictions.jsonl", "{}\n", "predictions.jsonl, line 1"),
    ],
)
def test_broken_file_is_named_and_the_earlier_report_stays(run: Path, name: str, content: str, message: str) -> None:
    earlier = page(run)
    (run / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        write_report(run, paper_of)
    assert (run / "report.html").read_text() == earlier


def test_number_of_another_kind_is_named_with_its_field(run: Path) -> None:
    change_json(run / "results.json", "phases", "final", "overall", "n", value="many")
    message = "results.json, field phases.final.overall.n: wanted a whole number, got 'many'"
    with pytest.raises(ValueError, match=re.escape(message)):
        read_run(run)


def test_results_without_a_phase_are_refused(run: Path) -> None:
    change_json(run / "results.json", "phases", value={"another": {}})
    with pytest.raises(ValueError, match=r"field phases\.another\.overall is missing"):
        read_run(run)
    change_json(run / "results.json", "phases", value={})
    with pytest.raises(ValueError, match=r'field phases: wanted a phase "zero_shot" or "final", got \{\}'):
        read_run(run)


@pytest.mark.parametrize("name", ["results.json", "recipe.yaml", "environment.json", "final/parsed.jsonl"])
def test_missing_file_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(name.split("/")[-1])):
        write_report(run, paper_of)


def test_command_writes_one_run_into_its_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert (run / "report.md").is_file()
    assert main(["report", str(run), "--out", str(run / "x")]) == 1
    assert main(["report", str(run / "nowhere")]) == 1


def test_several_runs_share_a_table_only_on_the_same_data(prepared_tiny: Path, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name / "run", prepared_tiny) for name in ("a", "b", "c")]
    change_json(runs[2] / "results.json", "data_hash", value="f" * 64)
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "report.md").read_text()
    first, second = text.split("## ")[1:]
    assert ("| a/run |" in first, "| b/run |" in first, "| c/run |" in first) == (True, True, False)
    assert "| c/run |" in second
    value = json.loads((runs[0] / "results.json").read_text())["phases"]["final"]["overall"]["value"]
    assert f"| {value:.3f} |" in first
    assert "c/run" in (tmp_path / "out" / "report.html").read_text()


def test_several_runs_are_corrected_for_their_number(prepared_tiny: Path, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name / "run", prepared_tiny) for name in ("a", "b", "c")]
    for run, p in zip(runs, (0.0301, 0.0201, 0.0001), strict=True):
        change_json(run / "results.json", "gain", "permutation_p", value=p)
        change_json(run / "results.json", "gain", "ci95", value=[0.1, 0.4])
    (group,) = several_runs([read_run(run) for run in runs]).groups
    place = group.table.columns.index("p (patients)")
    assert group.table.columns[place : place + 3] == ("p (patients)", "p (patients, Holm)", "p (McNemar, questions)")
    assert [row[place + 1].text for row in group.table.rows] == ["0.040", "0.040", "< 0.001"]
    assert [row[place - 2].tone for row in group.table.rows] == ["good"] * 3
    change_json(runs[0] / "results.json", "gain", "permutation_p", value=0.0401)
    change_json(runs[1] / "results.json", "gain", "permutation_p", value=0.0301)
    (group,) = several_runs([read_run(run) for run in runs]).groups
    assert [row[place - 2].tone for row in group.table.rows] == ["", "", "good"]
    assert any("Holm's correction is over these 3 runs" in note for note in group.table.notes)
    (alone,) = several_runs([read_run(runs[0])]).groups
    assert "p (patients, Holm)" not in alone.table.columns


def test_several_runs_share_a_table_only_where_the_same_words_asked(prepared_tiny: Path, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name / "run", prepared_tiny) for name in ("a", "b", "c")]
    change_json(runs[2] / "results.json", "prompts", value="official, sha256 0123456789abcdef")
    change_json(runs[1] / "results.json", "unofficial_training", value="u2_bench by patient")
    write_runs(runs, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    first, second = text.split("## ")[1:]
    assert "prompts: ours" in first.splitlines()[0]
    assert "prompts: official, sha256 0123456789abcdef" in second.splitlines()[0]
    assert ("| b/run |" in first, "| c/run |" in first, "| c/run |" in second) == (True, False, True)
    learnt = next(line for line in first.splitlines() if "Trained on an evaluation set" in line)
    assert learnt.startswith("> **Trained on an evaluation set.** b/run: ")


def test_several_runs_refuse_the_same_run_twice(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="named twice"):
        write_runs([run, run / ".." / "run"], tmp_path / "out")


def test_an_unofficial_split_is_said_first(run: Path, tmp_path: Path) -> None:
    assert "Unofficial split" not in page(run)
    change_json(run / "results.json", "unofficial_split", value="patient")
    assert "Unofficial split" in page(run)
    assert "divided by patient" in (run / "report.md").read_text()
    write_runs([run], tmp_path / "several")
    assert all("Unofficial split" in file.read_text() for file in (tmp_path / "several").iterdir())
