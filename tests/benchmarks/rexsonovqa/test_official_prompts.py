"""ReXSonoVQA's own prompts: read from its files, in a system turn, with every question as it was released."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medtune.benchmarks import find_benchmark, find_source, published
from medtune.benchmarks.facets import DURATION_BINS
from medtune.benchmarks.rexsonovqa.judge_words import read_judge_words
from medtune.benchmarks.rexsonovqa.official_letter import official_letter
from medtune.benchmarks.rexsonovqa.official_prompts import as_released, read
from medtune.benchmarks.rexsonovqa.official_report import report
from medtune.benchmarks.rexsonovqa.published_tables import free_outcome
from medtune.benchmarks.rexsonovqa.rubric import (
    TYPES,
    ScoredItem,
    constant_letter,
    is_kept,
    recode_zero_with_single_error,
    tally_by_duration,
    tally_by_type,
)
from medtune.benchmarks.rexsonovqa.segments import read_segments
from medtune.benchmarks.rexsonovqa.sources import rexsonovqa
from medtune.data.prepared.read import open_prepared
from medtune.data.types import Question, Size
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.official_prompts import ShownAs, wording_name
from medtune.eval.asking.plan import plan_visits
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.judge import with_official_words
from medtune.models.endpoint.messages import request_body
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.commands.cli import main
from tests.benchmarks.rexsonovqa.score_files import read_scored
from tests.eval.answerers import Oracle
from tests.eval.asking.prompts_files import prompts_file
from tests.examples import write_example
from tests.models.endpoint.chat_server import KEY, completion, serving

TEMPLATES = {
    "video": "Look {as is} at it.\n- Say it.\n\n{question}",
    "frames": "Look at frames.\n\n{user}These {pictures} show it.\n\n{question}",
    "blind": "Guess.\n\n{question}",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Writes the prompts of the repository, with our own words in their place."""
    return prompts_file(tmp_path / "prompts.yaml", TEMPLATES)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted index\.json with the paper's prompts; check --from"):
        read(tmp_path)
    (tmp_path / "index.json").write_text('{"prompts": []}')
    with pytest.raises(ValueError, match=r"index\.json: wanted an object with a list 'prompts' that holds one of kind"):
        read(tmp_path)


def test_prepared_prompts_ask_every_question_and_the_blind_setting_in_its_own_words(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example("rexsonovqa", raw)
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out), "--prompts", str(repository)]) == 0
    prepared = open_prepared(out)
    assert f"prompts: {prepared.manifest.prompts}" in capsys.readouterr().out
    rex = with_prepared_prompts(find_benchmark("rexsonovqa"), prepared)
    assert rex.wording == prepared.manifest.prompts == wording_name(TEMPLATES) != "ours"
    groups = prepared.groups("test")
    plan = plan_visits(groups, rex, answer_format="letter", conditions=["image", "text_only"])
    asked = [request for visits in plan for visit in visits for request in visit.requests]
    released = released_questions(raw)
    for request in asked:
        seen = request.condition == "image"
        assert request.prompt.system == ("Look {as is} at it.\n- Say it." if seen else "Guess.")
        assert request.prompt.user in released
        assert request.prompt.text == f"{request.prompt.system}\n\n{request.prompt.user}"
    assert {request.prompt.user for request in asked} == released
    choice = next(request for request in asked if request.question.options)
    assert choice.prompt.choices == ("Answer: A", "Answer: B", "Answer: C", "Answer: D")
    assert [rex.parsers["official"](said, choice.question) for said in choice.prompt.choices] == [
        *choice.question.options
    ]
    messages = request_body(Endpoint("http://x/v1", "m"), choice.prompt, [["data:,"]], max_new_tokens=9)["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"] == choice.prompt.system
    assert messages[1]["content"][-1]["text"] == choice.prompt.user


def test_a_server_is_sent_frames_and_told_how_many(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDTUNE_TEST_KEY", KEY)
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example("rexsonovqa", raw)
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out), "--prompts", str(repository)]) == 0
    with serving() as server:
        server.reply = lambda body: completion("Answer: A")
        endpoint = {"base_url": server.base_url, "model": "answerer", "key_env": "MEDTUNE_TEST_KEY",
                    "cache": tmp_path / "cache"}  # fmt: skip
        settings = [f"model.endpoint.{name}={value}" for name, value in endpoint.items()]
        settings += ["data.benchmark=rexsonovqa", f"data.root={out}", "log.wandb=disabled"]
        settings += ["eval.conditions=[image,text_only]", "model.answer_format=letter"]
        arguments = ["eval", "endpoint_fetal_gauge", "--out", str(tmp_path / "run"), "--set", *settings]
        assert main(arguments) == 1
        assert "say that 5 frames of each second are shown" in capsys.readouterr().err
        assert main([*arguments, "model.endpoint.video_frames_per_s=5"]) == 0
        turns = [body["messages"] for body in server.bodies]
    released, counts = released_questions(raw), set()
    for system, user in turns:
        if isinstance(user["content"], str):
            assert (system["content"], user["content"] in released) == ("Guess.", True)
            continue
        *pictures, text = user["content"]
        said, _, asked = text["text"].partition("\n\n")
        assert system["content"] == "Look at frames."
        assert said == f"These {len(pictures)} show it."
        assert asked in released
        counts.add(len(pictures))
    assert len(counts) > 1


def test_without_the_blind_script_nothing_is_said_of_frames_that_are_not_sent(repository: Path, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "prepared"
    write_example("rexsonovqa", raw)
    prompts_file(repository, {name: text for name, text in TEMPLATES.items() if name != "blind"})
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out), "--prompts", str(repository)]) == 0
    prepared = open_prepared(out)
    shown = ShownAs(videos_as_pictures=True, pictures_per_s=5)
    rex = with_prepared_prompts(find_benchmark("rexsonovqa"), prepared, shown=shown)
    plan = plan_visits(prepared.groups("test"), rex, answer_format="letter", conditions=["image", "text_only"])
    asked = [request for visits in plan for visit in visits for request in visit.requests]
    systems = {request.condition: request.prompt.system for request in asked}
    assert systems == {"image": "Look at frames.", "text_only": "Look {as is} at it.\n- Say it."}
    assert {bool(request.prompt.pictures_gap) for request in asked if request.condition == "text_only"} == {False}
    with pytest.raises(ValueError, match="have no words for agents"):
        with_prepared_prompts(find_benchmark("rexsonovqa"), prepared, shown=ShownAs(agent=True))


def released_questions(root: Path) -> set[str]:
    """What the official scripts send: the question without its mark for the format."""
    rows = [row for file in root.glob("benchmark_questions/*/*.json") for row in json.loads(file.read_text("utf-8"))]
    return {row["question"].partition("] ")[2] for row in rows if row["keep"] is True}


def test_real_questions_are_sent_as_they_were_released(
    shared_real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty file stands for each YouTube video; both styles of options are among them."""
    monkeypatch.setattr(rexsonovqa, "_frame_size", lambda path: Size(1280, 720))
    shutil.copytree(shared_real / "rexsonovqa" / "benchmark_questions", tmp_path / "benchmark_questions")
    shutil.copy(shared_real / "rexsonovqa" / rexsonovqa.METADATA, tmp_path)
    for segment in read_segments(tmp_path / rexsonovqa.METADATA).values():
        (tmp_path / f"{segment.video}.mp4").touch()
    questions = find_source("rexsonovqa").read(tmp_path, 0, tmp_path).questions
    assert len(questions) == 514
    assert {as_released(question) for question in questions} == released_questions(tmp_path)


def test_the_papers_prompt_is_sent_verbatim(shared_published: Path, tmp_path: Path) -> None:
    folder = shared_published / "prompts"
    said = (folder / "rex_inference.txt").read_text("utf-8").strip()
    raw, out, file = tmp_path / "raw", tmp_path / "prepared", tmp_path / "prompts.yaml"
    write_example("rexsonovqa", raw)
    assert main(["prompts", "rexsonovqa", "--from", str(folder), "--out", str(file)]) == 0
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out), "--prompts", str(file)]) == 0
    prepared = open_prepared(out)
    assert prepared.manifest.prompts.startswith("official, sha256 ")
    rex, answerer = with_prepared_prompts(find_benchmark("rexsonovqa"), prepared), Oracle()
    ask_questions(
        answerer,
        prepared.groups("test"),
        rex,
        answer_format="letter",
        out_dir=tmp_path / "run",
        conditions=["image", "text_only"],
    )
    sent = {(request.condition, request.prompt.text) for _, request in answerer.asked}
    # The paper prints no prompt for the blind setting.
    wanted = {f"{said}\n\n{question}" for question in released_questions(raw)}
    assert sent == {(condition, text) for condition in ("image", "text_only") for text in wanted}
    assert {request.prompt.system for _, request in answerer.asked} == {said}


SCRIPT = '''
import nowhere

class Judge:
    def evaluate_free_response(self, question, ground_truth, prediction):
        """Asks a judge."""
        strict_note = """

BE HARD:
- On everything.
""".strip()
        system_prompt = """Grade it.
    2 - good
    {"score": 0}
        """
        if self.config.STRICT_JUDGE:
            system_prompt = system_prompt + "\\n\\n" + strict_note
        user_message = f"""
Asked: {question}

Truth: {ground_truth}

Said: {prediction}
Go.
"""
        return ask(system_prompt, user_message)
'''
FREE = Question("q", "m", "Why {prediction}?", (), "Because of {question}.", "rubric", "p", {"task": "t"})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "evaluate_results.py").write_text(SCRIPT)
    return tmp_path / "evaluate_results.py"


def test_the_words_are_read_verbatim_and_no_gap_is_filled_twice(script: Path) -> None:
    words = read_judge_words(script, False)
    assert words.system == 'Grade it.\n    2 - good\n    {"score": 0}\n        '
    assert words.user(FREE, "It {ground_truth} is.") == (
        "\nAsked: [FREE] Why {prediction}?\n\nTruth: Because of {question}.\n\nSaid: It {ground_truth} is.\nGo.\n"
    )
    assert words.user_words == "\nAsked: {question}\n\nTruth: {ground_truth}\n\nSaid: {prediction}\nGo.\n"
    strict = read_judge_words(script.parent, True)
    assert strict.system == f"{words.system}\n\nBE HARD:\n- On everything."
    assert strict.user_words == words.user_words


def test_the_papers_instructions_come_through_verbatim(shared_published: Path, script: Path) -> None:
    folder = shared_published / "prompts"
    system, strict = ((folder / f"rex_judge_{name}.txt").read_text("utf-8") for name in ("system", "strict"))
    assert '"""' not in system + strict
    assert "\\" not in system + strict
    body = SCRIPT.replace('Grade it.\n    2 - good\n    {"score": 0}\n        ', system)
    script.write_text(body.replace("BE HARD:\n- On everything.\n", strict), "utf-8")
    assert read_judge_words(script, False).system == system
    assert read_judge_words(script, True).system == f"{system}\n\n{strict.strip()}"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("def evaluate_free_response", "def evaluate", "wanted one function evaluate_free_response"),
        ('system_prompt = """Grade', 'prompt = """Grade', "wanted a plain text system_prompt in evaluate_free_resp"),
        ('""".strip()', '""".upper()', "wanted a plain text strict_note"),
        ('user_message = f"""', 'user_message = """', "wanted a text user_message with gaps"),
        ("{prediction}", "{question}", "wanted user_message to name question, ground_truth, prediction once each"),
        ("{prediction}", "{str(prediction)}", "with plain names in its gaps, not"),
        ("import nowhere", "import (", "no Python that could be read"),
    ],
)
def test_a_changed_script_is_refused_by_file_and_part(script: Path, before: str, after: str, message: str) -> None:
    assert before in SCRIPT
    script.write_text(SCRIPT.replace(before, after))
    with pytest.raises(ValueError, match=message) as caught:
        read_judge_words(script, True)
    assert str(script) in str(caught.value)


def test_a_missing_script_and_a_benchmark_without_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted evaluate_results\.py of ReXSonoVQA's repository"):
        read_judge_words(tmp_path, False)
    other = find_benchmark("u2_bench").judging
    assert other is not None
    with pytest.raises(ValueError, match="medtune reads no judge's words of this benchmark"):
        with_official_words(other, tmp_path, is_strict=False)


def test_the_task_keeps_everything_but_the_words(script: Path) -> None:
    ours = find_benchmark("rexsonovqa").judging
    assert ours is not None
    task = with_official_words(ours, script, is_strict=False)
    assert task.user(FREE, "x").startswith("\nAsked: [FREE] Why")
    assert replace(task, system=ours.system, user=ours.user, user_words=ours.user_words) == ours


MODELS = {"gemini_scores": "Gemini 3 Pro", "seed_scores": "Seed 2.0 Pro"}
RECODED = {"gemini_scores"}


def score_rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*/score_pred_*.json"))
    assert len(files) == 2 * 47
    return [row for file in files for row in json.loads(file.read_text("utf-8"))]


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def outcomes(items: list[ScoredItem]) -> list[int]:
    each = [free_outcome(item.score, item.error_type) for item in items if not item.is_mcq]
    return [*map(each.count, range(4)), len(each)]


def test_score_files_give_the_published_totals(shared_real: Path, name: str) -> None:
    items = read_scored(score_rows(shared_real / "rexsonovqa" / name))
    numbers, found = published("rexsonovqa"), report(items)
    right, wrong, n = numbers["mcq"][MODELS[name]][-1]
    assert (found.mcq.total, found.mcq.n - found.mcq.total, found.mcq.n) == (right, wrong, n)
    read = recode_zero_with_single_error(items) if name in RECODED else items
    assert outcomes(read) == numbers["free"][MODELS[name]][-1]
    assert (outcomes(items) == outcomes(read)) == (name not in RECODED)


def printed_of_gemini(items: list[ScoredItem]) -> Mapping[str, float]:
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    found, free = report(mcq), recode_zero_with_single_error(free)
    types, durations = tally_by_type(free), tally_by_duration(free)
    return {
        "mcq_video_overall": round(100 * found.mcq.mean, 1),
        "mcq_video_type1": round(100 * found.mcq_by_type[TYPES[0]].mean, 1),
        "mcq_video_type2": round(100 * found.mcq_by_type[TYPES[1]].mean, 1),
        "mcq_video_0_5s": round(100 * found.mcq_by_duration[DURATION_BINS[0]].mean, 1),
        "mcq_video_gt20s": round(100 * found.mcq_by_duration[DURATION_BINS[-1]].mean, 1),
        "fr_video_overall": round(report(free).free.mean, 2),
        "fr_video_type2": round(types[TYPES[1]].mean, 2),
        "fr_video_type3": round(types[TYPES[2]].mean, 2),
        "fr_video_0_5s": round(durations[DURATION_BINS[0]].mean, 2),
        "fr_video_gt20s": round(durations[DURATION_BINS[-1]].mean, 2),
    }


def test_score_files_give_every_gemini_number_of_the_text(shared_real: Path) -> None:
    found = printed_of_gemini(read_scored(score_rows(shared_real / "rexsonovqa" / "gemini_scores")))
    text = published("rexsonovqa")["text"]
    assert found == {key: text[key] for key in found}
    assert found.keys() == {key for key in text if "_video_" in key}


def test_stored_letters_are_those_of_the_official_extractor(shared_real: Path, name: str) -> None:
    rows = [row for row in score_rows(shared_real / "rexsonovqa" / name) if row["question"].startswith("[MCQ]")]
    raw = [(row["inference_metadata"]["raw_response"], row["model_prediction"]) for row in rows]
    assert all(official_letter(reply) == letter for reply, letter in raw if reply)


def test_always_a_beats_the_blind_run(shared_real: Path) -> None:
    rows = score_rows(shared_real / "rexsonovqa" / "gemini_scores")
    keys = [row["answer"] for row in rows if row["question"].startswith("[MCQ]") and is_kept(row)]
    assert constant_letter(keys)["A"] == (110, 249)
    assert 100 * constant_letter(keys)["A"].mean > published("rexsonovqa")["text"]["mcq_blind_overall"]
