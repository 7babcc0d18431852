"""Tests of `medtune score`, called as on the command line."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.u2_bench import table1_row
from medtune.data import catalog
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Question
from medtune.eval.scoring.bertscore import BertModel, BertScore
from medtune.eval.scoring.reply_rules import TITLE
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.check import text_model_at
from medtune.trainer.recipe.schema import EvalBlock
from tests.benchmarks.vqa.own_data import LAYOUTS
from tests.benchmarks.vqa.test_conversation_sources import mllm_demo
from tests.examples import write_example
from tests.own_questions import KINDS, Kind, prepare_own
from tests.soak import in_suites
from tests.trainer.conftest import Capture, Nano, Told, json_of


def test_score_takes_another_tools_file(prepared_tiny: Path, tmp_path: Path, refused: Told, shown: Told) -> None:
    from medtune.data.prepared.read import open_prepared

    questions = open_prepared(prepared_tiny).questions("test")
    file = tmp_path / "theirs.jsonl"
    replies = [{"question_id": q.id, "text": f"The answer is {q.answer}."} for q in questions[:-1]]
    file.write_text("".join(json.dumps(row) + "\n" for row in replies))
    arguments = ["score", "busi", "--predictions", str(file), "--questions", str(prepared_tiny)]
    assert "0 unparsable and 1 unanswered of 9" in shown(main(arguments))
    scores = json_of(tmp_path / "scores.json")
    assert scores["overall"]["value"] == pytest.approx(8 / 9)
    assert scores["parser"] == "robust"
    assert main([*arguments, "--parser", "strict"]) == 0
    assert json_of(tmp_path / "scores.json")["overall"]["value"] == 0
    assert "robust" in refused(main([*arguments, "--parser", "robot"]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 1"),
        ('{"text": "benign"}', "question_id"),
        ('{"question_id": "diagnosis-0", "text": "benign"}', "diagnosis-0"),
    ],
)
def test_score_names_the_line_it_cannot_read(
    prepared_tiny: Path, tmp_path: Path, refused: Told, line: str, message: str
) -> None:
    file = tmp_path / "theirs.jsonl"
    file.write_text(line + "\n")
    assert message in refused(main(["score", "busi", "--predictions", str(file), "--questions", str(prepared_tiny)]))


PLUGIN = '''"""BUSI with the rule of a strict tool."""

from __future__ import annotations

from dataclasses import replace

from medtune.benchmarks.busi import benchmark as busi
from medtune.eval.scoring.reply_rules import ReplyRule


def benchmark():
    """Returns the benchmark."""
    return replace(busi(), rules={"strict": ReplyRule("Strict tool", "nowhere", "A full stop is wrong.", share_equal)})


def share_equal(replies):
    """Returns the share of replies that are the answer character by character."""
    return {"accuracy": sum(said == question.answer for question, said in replies) / len(replies)}
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "ruled_busi.py").write_text(PLUGIN)
    return folder.parent


@pytest.fixture
def prepared(plugin: Path, tiny_busi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return prepare(find_source("busi"), benchmark="ruled_busi", root=tiny_busi, out=tmp_path / "prepared")


def test_score_prints_the_rules_and_writes_them(
    plugin: Path, prepared: Prepared, tmp_path: Path, capsys: Capture
) -> None:
    said = tmp_path / "said.jsonl"
    lines = [{"question_id": each.id, "text": f"{each.answer}."} for each in prepared.questions("test")]
    said.write_text("\n".join(map(json.dumps, lines)))
    folders = ["--plugins", str(plugin)]
    assert main([*folders, "score", "ruled_busi", "--predictions", str(said), "--questions", str(prepared.root)]) == 0
    shown = capsys.readouterr().out.partition(TITLE)[2]
    assert "Strict tool" in shown
    assert "A full stop is wrong. Source: nowhere." in shown
    tables = json_of(tmp_path / "scores.json")["tables"]
    (table,) = (each for each in tables if each["title"] == TITLE)
    assert (table["rows"][0][:2], table["rows"][-1][:2]) == (["ours: robust", 1.0], ["Strict tool", 0.0])


@pytest.mark.slow
def test_the_report_shows_the_rules(plugin: Path, prepared: Prepared, nano: Nano, tmp_path: Path) -> None:
    settings = (f"data.root={prepared.root}", "data.benchmark=ruled_busi", "eval.questions=2")
    assert nano.here("eval", tmp_path / "run", *settings, extra=("--plugins", str(plugin))) == 0
    assert TITLE in (tmp_path / "run" / "report.html").read_text()
    assert TITLE in (tmp_path / "run" / "report.md").read_text()


def test_score_prints_the_papers_rows_and_ours(tiny_busi: Path, tmp_path: Path, shown: Told) -> None:
    questions = tmp_path / "questions"
    prepare(find_source("busi"), benchmark="fetal_gauge", root=tiny_busi, out=questions)
    asked = open_prepared(questions).questions("test")
    predictions = tmp_path / "predictions.jsonl"
    lines = [json.dumps({"question_id": question.id, "text": question.answer}) for question in asked]
    predictions.write_text("\n".join(lines), "utf-8")
    printed = shown(main(["score", "fetal_gauge", "--predictions", str(predictions), "--questions", str(questions)]))
    assert "GPT-5" in printed
    assert "ours, read by robust" in printed
    published, alone = json_of(tmp_path / "scores.json")["tables"][:2]
    assert not [row for row in published["rows"] if row[0].startswith("ours")]
    # These are no released questions, so there is no rank among the published models.
    assert alone["rows"][0][-1] == 1.0
    assert "the data are reconstruction, not the released ones" in alone["notes"][0]
    assert "rank" not in alone["columns"]


PRINTED = {
    "rexsonovqa": ("Gemini 3 Pro", "How answers are read"),
    "ctlesionvqa": ("Table 3, multiple choice", "RadFM", "DeepTumorVQA v2's scorer"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_score_prints_the_benchmarks_own_tables(name: str, tiny_busi: Path, tmp_path: Path, shown: Told) -> None:
    questions = tmp_path / "questions"
    prepare(find_source("busi"), benchmark=name, root=tiny_busi, out=questions)
    asked = open_prepared(questions).questions("test")
    predictions = tmp_path / "predictions.jsonl"
    lines = [json.dumps({"question_id": question.id, "text": "Answer: B"}) for question in asked]
    predictions.write_text("\n".join(lines), "utf-8")
    printed = shown(main(["score", name, "--predictions", str(predictions), "--questions", str(questions)]))
    assert all(words in printed for words in PRINTED[name])
    scores = json_of(tmp_path / "scores.json")
    assert scores["tables"]
    parsed = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text("utf-8").splitlines()]
    assert all({"robust", "official"} <= row.keys() for row in parsed)


VQA = find_benchmark("vqa")


# Which metric is the primary one of the other kinds is in tests/benchmarks/vqa/test_scores.py.
@pytest.mark.parametrize(
    ("kinds", "primary", "parser"),
    [
        pytest.param(KINDS, "closed_accuracy", "likelihood", marks=pytest.mark.slow),
        pytest.param(("short", "number"), "exact_match", "reply", marks=pytest.mark.soak),
        pytest.param(("report",), "rouge_l", "reply", marks=pytest.mark.soak),
    ],
)
def test_what_validate_accepts_run_finishes(
    nano: Nano, tmp_path: Path, kinds: tuple[Kind, ...], primary: str, parser: str, capsys: Capture
) -> None:
    root = prepare_own(tmp_path, dict.fromkeys(("train", "val", "test"), kinds), patients=3).root
    settings = ("data.benchmark=vqa", f"data.root={root}", "train.max_steps=1")
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings]) == 0
    assert f"scores     {primary}, read by {parser} (asked for: " in capsys.readouterr().out
    run = tmp_path / "run"
    assert nano.here("run", run, *settings) == 0
    results = json_of(run / "results.json")
    final = results["phases"]["final"]
    assert (results["primary"]["name"], final["parser"]) == (primary, parser)
    assert set(final["by"]) == {"task", "side"}
    assert final["tables"][0]["title"] == "Scores by kind of question"
    assert sum(row[1] for row in final["tables"][0]["rows"]) == 3 * len(kinds)
    assert "Scores by kind of question" in (run / "report.html").read_text()


def own_lines(question: Question) -> dict[str, object]:
    return {"question_id": question.id, "text": f"The answer is {question.answer}."}


def swift_lines(question: Question) -> dict[str, object]:
    said = f"The answer is {question.answer}."
    turns = [
        {"role": "user", "content": f"<image>{VQA.render(question, 'text').text}"},
        {"role": "assistant", "content": said},
    ]
    return {"response": said, "labels": question.answer, "logprobs": None, "messages": turns}


def lmms_lines(question: Question) -> dict[str, object]:
    prompt = VQA.render(question, "letter").text
    return {"doc_id": 0, "input": prompt, "target": question.answer, "filtered_resps": [f" {question.answer}."]}


def vlmevalkit_rows(question: Question) -> dict[str, object]:
    lettered = dict(zip("ABC", question.options, strict=False))
    return {"question": question.text, "answer": question.answer, **lettered, "prediction": f"It is {question.answer}"}


@pytest.mark.parametrize("row", [own_lines, swift_lines, lmms_lines, vlmevalkit_rows])
def test_files_of_other_tools_are_scored_on_own_questions(
    tmp_path: Path, capsys: Capture, row: Callable[[Question], dict[str, object]]
) -> None:
    prepared = prepare_own(tmp_path, dict.fromkeys(("train", "val", "test"), KINDS), patients=1)
    asked = prepared.questions("test")
    silent = next(question for question in asked if question.options)
    lines = [json.dumps(row(question)) for question in asked if question is not silent]
    said = tmp_path / "said.jsonl"
    said.write_text("\n".join(lines))
    assert main(["score", "vqa", "--predictions", str(said), "--questions", str(prepared.root)]) == 0
    assert "Scores by kind of question" in capsys.readouterr().out
    scores = json_of(tmp_path / "scores.json")
    found = scores["metrics"]["image"]["reply"]
    assert (found["closed_accuracy"]["value"], found["exact_match"]["value"]) == (0.5, 1.0)
    assert scores["file_rows"]["unanswered"] == 1


ONE_STEP = ("data.benchmark=vqa", "train.max_steps=1", "eval.conditions=[image]")


def _prepared_and_run(nano: Nano, folder: Path, arguments: list[str], *settings: str) -> dict[str, object]:
    """Prepares, validates and runs; returns results.json."""
    out = folder / "prepared"
    assert main(["prepare", "vqa", *arguments, "--out", str(out)]) == 0
    chosen = (*ONE_STEP, f"data.root={out}", *settings)
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *chosen]) == 0
    assert nano.here("run", folder / "run", *chosen) == 0
    found: dict[str, object] = json_of(folder / "run" / "results.json")
    return found


@pytest.mark.parametrize("name", ["ms_swift", "llama_factory"])
def test_another_tools_data_set_trains(nano: Nano, tmp_path: Path, name: str) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example(name, raw)
    assert main(["prepare", "vqa", "--source", name, "--from", str(raw), "--out", str(out)]) == 0
    assert nano.here("run", tmp_path / "run", *ONE_STEP, f"data.root={out}") == 0
    results = json_of(tmp_path / "run" / "results.json")
    assert results["primary"]["name"] == "exact_match"


# tests/trainer/own_data takes a spreadsheet and folders of classes further, to what a model predicts.
@pytest.mark.parametrize("layout", in_suites(LAYOUTS, slow=LAYOUTS.keys() - {"a spreadsheet", "folders of classes"}))
def test_every_layout_goes_from_the_files_to_a_score(
    nano: Nano, tmp_path: Path, shared_real: Path, layout: str
) -> None:
    arguments = LAYOUTS[layout](shared_real, tmp_path / "raw")
    found = _prepared_and_run(nano, tmp_path, arguments, "eval.questions=12", "eval.val_questions=4")
    assert found["primary"] == {"name": "closed_accuracy", "higher_is_better": True, "level_name": "closed_accuracy"}
    leaks = "of 60 test questions 18 about a shared image" if layout == "VQA-RAD" else ""
    assert str(found.get("split_leaks", ""))[: len(leaks)] == leaks
    assert bool(leaks) == ("split_leaks" in found)


# Conversations about images are those of the example of LLaMA-Factory above.
@pytest.mark.parametrize("demo", in_suites(("mllm_demo.json", "mllm_video_demo.json"), slow=("mllm_video_demo.json",)))
def test_the_demonstrations_of_llama_factory_train(nano: Nano, tmp_path: Path, demo: str) -> None:
    raw = mllm_demo(tmp_path / "raw")
    video = ("model.name=nano_pocket_video",) if "video" in demo else ()
    found = _prepared_and_run(nano, tmp_path, ["--from", str(raw / demo)], *video)
    phases = found["phases"]
    assert isinstance(phases, dict)
    assert phases["final"]["overall"]["n"] == (1 if video else 4)


@pytest.mark.slow
def test_reports_on_two_images_train_and_are_scored(nano: Nano, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example("iu_xray", raw)
    assert main(["prepare", "iu_xray", "--from", str(raw), "--out", str(out)]) == 0
    settings = ("data.benchmark=iu_xray", f"data.root={out}", "train.max_steps=1", "eval.readings=[generation]")
    assert nano.here("run", tmp_path / "run", *settings, "eval.conditions=[image]") == 0
    results = json_of(tmp_path / "run" / "results.json")
    assert results["primary"]["name"] == "rouge_l"
    assert "2 about a shared report" in json.dumps(results)
    scores = json_of(tmp_path / "run" / "final" / "scores.json")
    assert any("constant report as the answer" in table["title"] for table in scores["tables"])


ON_REAL_SETS = {"busi", "fetal_gauge"}
"""What tests/trainer/experiment/test_public_sets.py takes the same way; it has U2-Bench too, in the slow suite."""


OF_EACH_KIND = ("ctlesionvqa", "iu_xray", "pmc_vqa", "rexsonovqa", "vqa")
"""Volumes, reports, choices alone, clips with free answers, and questions of one's own."""


@pytest.mark.parametrize(
    "name",
    in_suites([name for name in catalog.names(catalog.BENCHMARKS) if name not in ON_REAL_SETS], plain=OF_EACH_KIND),
)
def test_eval_and_score_give_the_same_numbers(name: str, tmp_path: Path) -> None:
    """With the example of every other benchmark: each number, table and note of the scores is the same."""
    known = catalog.names(catalog.SOURCES)
    source = next(each for each in find_benchmark(name).sources if each in known)
    prepared, run, scored = (tmp_path / folder for folder in ("prepared", "run", "scored"))
    given = ["--limit", "6"]
    if find_source(source).provenance != "synthetic":
        write_example(source, tmp_path / "raw")
        given = ["--from", str(tmp_path / "raw")]
    assert main(["prepare", name, "--source", source, *given, "--out", str(prepared)]) == 0
    kinds = {ref.kind for group in open_prepared(prepared).groups("test") for ref in group.media}
    model = "nano_pocket_ct" if "volume" in kinds else "nano_pocket_video" if "video" in kinds else "nano_pocket"
    settings = [f"data.root={prepared}", f"data.benchmark={name}", f"model.name={model}", "eval.max_new_tokens=2"]
    recipe = "nano_ct_lora" if "volume" in kinds else "nano_busi_lora"
    assert main(["eval", recipe, "--out", str(run), "--set", *settings, "log.wandb=disabled"]) == 0
    said = ["--predictions", str(run / "zero_shot" / "predictions.jsonl"), "--questions", str(prepared)]
    assert main(["score", name, *said, "--out", str(scored)]) == 0
    theirs = json_of(scored / "scores.json")
    assert theirs.pop("file_rows")["unanswered"] == 0
    mine = json_of(run / "zero_shot" / "scores.json")
    assert mine == theirs
    # The whole example is asked, and what the primary metric does not count is named.
    outside = sum(each["n"] + each["unscored"] for each in mine["outside"].values())
    assert mine["asked"] == len(open_prepared(prepared).questions("test"))
    assert mine["overall"]["n"] + mine["overall"]["unscored"] + outside == mine["asked"]


def test_a_recipe_names_the_model_of_bertscore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Told) -> None:
    """It is computed by the phases that the recipe names, and its values stand in results.json."""
    asked = list[BertModel]()

    def scores(texts: Sequence[str], references: Sequence[str], model: BertModel) -> list[BertScore]:
        asked.append(model)
        return [BertScore(0.5, 0.5, 0.5)] * len(texts)

    monkeypatch.setattr(table1_row, "bert_scores", scores)
    monkeypatch.setattr("medtune.eval.scoring.bertscore.bert_scores", scores)
    monkeypatch.setattr("medtune.trainer.experiment.run.load_text_model", lambda model: None)
    write_example("u2_bench", tmp_path / "raw")
    prepared, run = tmp_path / "prepared", tmp_path / "run"
    given = ["--source", "u2_bench", "--from", str(tmp_path / "raw")]
    assert main(["prepare", "u2_bench", *given, "--out", str(prepared)]) == 0
    settings = [f"data.root={prepared}", "data.benchmark=u2_bench", "eval.max_new_tokens=2", "log.wandb=disabled",
                "eval.conditions=[image]"]  # fmt: skip
    command = ["eval", "nano_busi_lora", "--out", str(run), "--set", *settings]
    assert "eval.bertscore: there is no folder /no/model" in refused(main([*command, "eval.bertscore=/no/model:6"]))
    assert main([*command, "eval.bertscore=a-model:6"]) == 0
    assert set(asked) == {BertModel("a-model", 6)}
    tables = json_of(run / "results.json")["phases"]["zero_shot"]["tables"]
    (table,) = [each for each in tables if "Table 1" in each["title"] and "alone" in each["title"]]
    own = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["RG_BERT"] for row in own if row["model"] == "ours, likelihood"] == [50.0]
    only_val = EvalBlock(bertscore="a-model", bertscore_at=("val",))
    assert [text_model_at(only_val, phase) for phase in ("final", "val")] == [None, BertModel("a-model")]
