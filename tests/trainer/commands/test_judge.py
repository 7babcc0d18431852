"""Tests of `medtune judge`: verdicts on runs and files, the scores after it, and the agreement with a person."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.models.endpoint.chat_server import KEY, ChatServer, Said, asked_text, completion, failure, serving
from tests.models.test_local_judge import VERDICT, write_tiny_judge
from tests.trainer.commands.conftest import VARIABLE, free_questions, rubric
from tests.trainer.conftest import Capture, Told, json_of

OFFICIAL = ("rex_judge_system.txt", "rex_judge_strict.txt")


@pytest.fixture(scope="module")
def official(shared_published: Path) -> tuple[Path, ...]:
    """Two files with instructions for the judge: those of the paper, and their block on strictness."""
    return tuple(shared_published / "prompts" / name for name in OFFICIAL)


@pytest.fixture(scope="module")
def answered(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished evaluation whose free answers are not judged yet, and whose server still answers."""
    folder = tmp_path_factory.mktemp("answered")
    with pytest.MonkeyPatch.context() as patch, serving() as server:
        patch.setenv(VARIABLE, KEY)
        server.reply = lambda body: completion("A")
        endpoint = {"base_url": server.base_url, "model": "answerer", "key_env": VARIABLE, "cache": folder / "cache"}
        settings = [f"model.endpoint.{name}={value}" for name, value in endpoint.items()]
        settings += ["data.benchmark=rexsonovqa", f"data.root={clips}", "log.wandb=disabled", "eval.conditions=[image]"]
        assert main(["eval", "endpoint_fetal_gauge", "--out", str(folder / "run"), "--set", *settings]) == 0
        yield folder / "run"


@pytest.fixture
def run(answered: Path, tmp_path: Path) -> Path:
    return shutil.copytree(answered, tmp_path / "run")


def test_run_is_judged_and_scored_again(
    run: Path, judge_file: Path, clips: Path, chat: ChatServer, capsys: Capture, shown: Told
) -> None:
    free, before = free_questions(clips), (run / "zero_shot" / "predictions.jsonl").read_bytes()
    waiting = {"value": None, "n": 0, "ci95": None, "unparsable": 0, "unscored": len(free)}
    waiting |= {"repeats": 1, "repeat_sd": None}
    assert rubric(run) == waiting
    assert f"Unscored: {len(free)} free answers wait for a judge" in (run / "report.md").read_text()
    assert "waits for a judge" in (run / "report.html").read_text()
    capsys.readouterr()
    out = shown(main(["judge", str(run), "--judge", str(judge_file)]))
    points = [1 if int(question.answer.split()[1]) % 2 else 2 for question in free]
    assert rubric(run)["value"] == pytest.approx(sum(points) / len(points))
    assert (rubric(run)["n"], rubric(run)["unparsable"], rubric(run)["unscored"]) == (len(free), 0, 0)
    assert f"{len(free)} free answers: {len(free)} judged, 0 empty (no points), 0 without a verdict" in out
    assert "judged by judge-1, instructions" in out
    assert "medtune's own" in out
    assert (run / "zero_shot" / "predictions.jsonl").read_bytes() == before
    assert "How answers are read" in (run / "report.md").read_text()
    assert "Unscored" not in (run / "report.md").read_text()
    asked = len(chat.bodies)
    assert main(["judge", str(run), "--judge", str(judge_file)]) == 0
    assert len(chat.bodies) == asked


def test_judged_run_stays_judged_when_it_is_resumed(run: Path, judge_file: Path) -> None:
    assert main(["judge", str(run), "--judge", str(judge_file)]) == 0
    judged = rubric(run)
    recipe = run / "recipe.yaml"
    copy = run.parent / "again.yaml"
    copy.write_bytes(recipe.read_bytes())
    assert main(["eval", str(copy), "--out", str(run), "--resume"]) == 0
    assert rubric(run) == judged


def test_trouble_leaves_answers_unscored_until_they_are_judged(
    run: Path, judge_file: Path, clips: Path, chat: ChatServer, capsys: Capture
) -> None:
    free = free_questions(clips)
    odd = [question for question in free if int(question.answer.split()[1]) % 2]
    assert 0 < len(odd) < len(free)
    well = chat.reply
    trouble = [Said("{broken"), failure(500), failure(429), completion("no verdict")]

    def reply(body: dict[str, Any]) -> Said:
        is_odd = any(f"{question.answer}\n" in asked_text(body) for question in odd)
        return trouble[len(chat.bodies) % len(trouble)] if is_odd else well(body)

    chat.reply = reply
    capsys.readouterr()
    assert main(["judge", str(run), "--judge", str(judge_file)]) == 1
    out = capsys.readouterr().out
    assert f"{len(odd)} answers have no verdict; the same command asks for these alone" in out
    even = len(free) - len(odd)
    assert (rubric(run)["value"], rubric(run)["n"], rubric(run)["unscored"]) == (2.0, even, len(odd))
    assert f"{len(odd)} free responses wait for a judge" in out
    chat.reply, asked = well, len(chat.bodies)
    assert main(["judge", str(run), "--judge", str(judge_file)]) == 0
    assert len(chat.bodies) - asked == len(odd)
    assert rubric(run)["unscored"] == 0


def test_official_instructions_from_the_users_files(
    run: Path, judge_file: Path, chat: ChatServer, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    for name in ("system", "strict"):
        (tmp_path / f"{name}.txt").write_text(f"Their {name} words.\n")
    prompt = f"prompt=[{tmp_path / 'system.txt'},{tmp_path / 'strict.txt'}]"
    capsys.readouterr()
    assert "(files of the user)" in shown(main(["judge", str(run), "--judge", str(judge_file), "--set", prompt]))
    judged = [body for body in chat.bodies if body["model"] == "judge-1"]
    assert {body["messages"][0]["content"] for body in judged} == {"Their system words.\n\nTheir strict words."}


def test_the_released_script_gives_both_turns_and_names_another_judge(
    run: Path, judge_file: Path, chat: ChatServer, clips: Path, tmp_path: Path, refused: Told, shown: Told
) -> None:
    script = tmp_path / "evaluate_results.py"
    code = """
class LLMJudge:
    def evaluate_free_response(self, question, ground_truth, prediction):
        strict_note = "Be strict. "
        system_prompt = "Judge this. "
        user_message = f"Q {question} T {ground_truth} A {prediction} now"
"""
    script.write_text(code)
    judge = ["judge", str(run), "--judge", str(judge_file), "--set", f"official={script}"]
    assert "official and prompt both give the judge's instructions" in refused(main([*judge, "prompt=[x.txt]"]))
    assert "(files of the user)" in shown(main([*judge, "official_strict=true"]))
    judged = [body["messages"] for body in chat.bodies if body["model"] == "judge-1"]
    assert {system["content"] for system, _ in judged} == {"Judge this. \n\nBe strict. "}
    wanted = {f"Q [FREE] {question.text} T {question.answer} A A now" for question in free_questions(clips)}
    assert {user["content"] for _, user in judged} == wanted
    # Another user turn is another judge, even with the same instructions.
    script.write_text(code.replace("now", "then"))
    assert "holds verdicts of another judge" in refused(main([*judge, "official_strict=true"]))


def test_published_instructions_are_sent_verbatim_and_strictly(
    run: Path, judge_file: Path, chat: ChatServer, clips: Path, official: tuple[Path, ...]
) -> None:
    files = ",".join(map(str, official))
    instructions = "\n\n".join(file.read_text("utf-8").strip() for file in official)
    assert main(["judge", str(run), "--judge", str(judge_file), "--set", f"prompt=[{files}]"]) == 0
    judged = [body for body in chat.bodies if body["model"] == "judge-1"]
    assert len(judged) == len(free_questions(clips))
    for body in judged:
        # The authors append the strictness block behind an empty line.
        assert body["messages"][0] == {"role": "system", "content": instructions}
        assert "STRICTNESS OVERRIDE" in body["messages"][0]["content"]
        assert body["temperature"] == 0
        assert body["response_format"]["json_schema"]["strict"] is True
    assert rubric(run)["unscored"] == 0


def test_model_of_ones_own_judges_a_run(run: Path, clips: Path, tmp_path: Path, capsys: Capture) -> None:
    free, task = free_questions(clips), find_benchmark("rexsonovqa").judging
    assert task is not None
    (tmp_path / "short.txt").write_text("Judge.\n")
    shown = [("Judge.", task.user(question, "A")) for question in free]
    weights = write_tiny_judge(tmp_path / "tiny-judge", shown, steps=100 + 20 * len(shown))
    judge = tmp_path / "local.yaml"
    local = {"weights": str(weights), "dtype": "float32"}
    judge.write_text(yaml.safe_dump({"local": local, "prompt": [str(tmp_path / "short.txt")], "max_new_tokens": 60}))
    # Cut off, a verdict is none: it is neither guessed nor a wrong answer.
    assert main(["judge", str(run), "--judge", str(judge), "--set", "max_new_tokens=3"]) == 1
    assert (rubric(run)["value"], rubric(run)["unscored"]) == (None, len(free))
    capsys.readouterr()
    assert main(["judge", str(run), "--judge", str(judge)]) == 0
    assert (rubric(run)["value"], rubric(run)["n"], rubric(run)["unscored"]) == (2.0, len(free), 0)
    assert "judged by tiny-judge, instructions" in capsys.readouterr().out
    verdicts = (run / "zero_shot" / "predictions.verdicts.jsonl").read_text()
    assert str(tmp_path) not in verdicts
    assert {json.loads(line)["text"] for line in verdicts.splitlines()} == {VERDICT}


def test_file_of_another_tool(clips: Path, judge_file: Path, tmp_path: Path, capsys: Capture) -> None:
    answers = tmp_path / "theirs" / "answers.jsonl"
    answers.parent.mkdir()
    questions = open_prepared(clips).questions("test")
    answers.write_text("".join(json.dumps({"question_id": q.id, "text": "Answer: A"}) + "\n" for q in questions))
    files = ["--predictions", str(answers), "--questions", str(clips)]
    assert main(["judge", "rexsonovqa", *files, "--judge", str(judge_file)]) == 0
    scores = (answers.parent / "scores.json").read_bytes()
    assert json.loads(scores)["metrics"]["image"]["robust"]["rubric"]["unscored"] == 0
    assert (answers.parent / "answers.verdicts.jsonl").is_file()
    # Scoring the file later finds the verdicts.
    assert main(["score", "rexsonovqa", *files]) == 0
    assert (answers.parent / "scores.json").read_bytes() == scores
    human = tmp_path / "human.csv"
    rows = [f"{q.id},{1 if int(q.answer.split()[1]) % 2 else 2}" for q in questions if not q.options]
    human.write_text("\n".join(["question_id,score", *rows]))
    capsys.readouterr()
    assert main(["judge", "rexsonovqa", *files, "--agreement", str(human)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "weighted kappa, quadratic 1.000" in out
    assert "judge-1, instructions" in out


def test_answers_that_need_no_judge_keep_their_scores_and_get_a_table(
    judge_file: Path, chat: ChatServer, tmp_path: Path, capsys: Capture, shown: Told
) -> None:
    raw, root, answers = tmp_path / "raw", tmp_path / "prepared", tmp_path / "answers.jsonl"
    write_example("ctlesionvqa", raw)
    questions = prepare(find_source("ctlesionvqa"), benchmark="ctlesionvqa", root=raw, out=root).questions("test")
    phrases = [question for question in questions if question.answer_kind == "text"]
    answers.write_text("".join(json.dumps({"question_id": q.id, "text": "segment two"}) + "\n" for q in questions))
    files = ["--predictions", str(answers), "--questions", str(root)]
    assert main(["score", "ctlesionvqa", *files]) == 0
    before = json_of(tmp_path / "scores.json")
    assert "by a judge" not in capsys.readouterr().out
    chat.reply = lambda body: completion('{"points": 1, "explanation": "the same"}')
    out = shown(main(["judge", "ctlesionvqa", *files, "--judge", str(judge_file)]))
    assert f"{len(phrases)} free answers: {len(phrases)} judged, 0 empty (no points), 0 without a verdict\n" in out
    assert "Phrases in free text, by a judge" in out
    after = json_of(tmp_path / "scores.json")
    added = [table for table in after["tables"] if table not in before["tables"]]
    assert [table["title"] for table in added] == ["Phrases in free text, by a judge"]
    assert added[0]["rows"][-1][:2] == ["all", 1.0]
    assert {**after, "tables": None} == {**before, "tables": None}


def test_agreement_of_a_run_needs_verdicts(
    run: Path, judge_file: Path, clips: Path, tmp_path: Path, capsys: Capture, refused: Told
) -> None:
    human = tmp_path / "human.csv"
    human.write_text("\n".join(["question_id,score", *(f"{question.id},2" for question in free_questions(clips))]))
    assert "no verdicts yet" in refused(main(["judge", str(run), "--agreement", str(human)]))
    assert main(["judge", str(run), "--judge", str(judge_file)]) == 0
    assert main(["judge", str(run), "--agreement", str(human)]) == 0
    assert "judge minus person, mean points -0." in " ".join(capsys.readouterr().out.split())
    assert "no phase 'final'" in refused(main(["judge", str(run), "--agreement", str(human), "--phase", "final"]))


def test_no_key_in_anything_written(run: Path, judge_file: Path, chat: ChatServer, tmp_path: Path, capfd: Any) -> None:
    well = chat.reply

    def reply(body: dict[str, Any]) -> Said:
        said = well(body)
        assert isinstance(said.body, dict)
        text = said.body["choices"][0]["message"]["content"].replace("half", KEY).replace("all", KEY)
        return completion(text)

    chat.reply = reply
    assert main(["judge", str(run), "--judge", str(judge_file)]) == 0
    said = capfd.readouterr()
    assert KEY not in said.out + said.err
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(b"[key]" in content for content in files.values())
    assert [path for path, content in files.items() if KEY.encode() in content] == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["local.weights=folder"], "a judge needs one of endpoint"),
        (["endpoint.temperature=null"], "a strict judge has 0"),
        (["endpoint.temperature=0.7"], "a strict judge has 0"),
        (["endpoint.modell=x"], "Did you mean 'model'"),
        (["prompts=[x.txt]"], "Did you mean 'prompt'"),
        (["prompt=[nowhere.txt]"], "no file nowhere.txt"),
        (["max_new_tokens=0"], "max_new_tokens is 0"),
    ],
)
def test_settings_of_no_judge(
    run: Path, judge_file: Path, overrides: list[str], message: str, chat: ChatServer, refused: Told
) -> None:
    assert message in refused(main(["judge", str(run), "--judge", str(judge_file), "--set", *overrides]))
    assert chat.bodies == []


def test_what_cannot_be_judged(
    empty: Path, prepared_tiny: Path, judge_file: Path, tmp_path: Path, capsys: Capture, refused: Told
) -> None:
    assert "no finished run" in refused(main(["judge", str(empty), "--judge", str(judge_file)]))
    answers = tmp_path / "answers.jsonl"
    answers.write_text("")
    files = ["--predictions", str(answers), "--questions", str(prepared_tiny)]
    assert main(["judge", "busi", *files, "--judge", str(judge_file)]) == 1
    assert "busi: no answer of this benchmark needs a judge" in capsys.readouterr().err
    assert "--predictions needs --questions" in refused(
        main(["judge", "busi", "--predictions", str(answers), "--judge", str(judge_file)])
    )


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "nothing"
    folder.mkdir()
    return folder
