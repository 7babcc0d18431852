"""ReXSonoVQA's own prompts: read from its files, in a system turn, with every question as it was released."""

import json
import shutil
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.rexsonovqa.official_report import as_released, read
from medtune.benchmarks.rexsonovqa.sources import rexsonovqa
from medtune.data.media.images import Size
from medtune.data.prepared.read import open_prepared
from medtune.eval.asking.ask import evaluate
from medtune.eval.asking.official_prompts import ShownAs, wording_name
from medtune.eval.asking.plan import plan_visits
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.models.endpoint.messages import request_body
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.commands.cli import main
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
    for segment in rexsonovqa.read_segments(tmp_path / rexsonovqa.METADATA).values():
        (tmp_path / f"{segment.video}.mp4").touch()
    questions = find_source("rexsonovqa").read(tmp_path, 0, tmp_path).questions
    assert len(questions) == 514
    assert {as_released(question) for question in questions} == released_questions(tmp_path)


def test_the_papers_prompt_is_sent_verbatim(shared_real: Path, tmp_path: Path) -> None:
    folder = shared_real.parent / "published" / "prompts"
    said = (folder / "rex_inference.txt").read_text("utf-8").strip()
    raw, out, file = tmp_path / "raw", tmp_path / "prepared", tmp_path / "prompts.yaml"
    write_example("rexsonovqa", raw)
    assert main(["prompts", "rexsonovqa", "--from", str(folder), "--out", str(file)]) == 0
    assert main(["prepare", "rexsonovqa", "--from", str(raw), "--out", str(out), "--prompts", str(file)]) == 0
    prepared = open_prepared(out)
    assert prepared.manifest.prompts.startswith("official, sha256 ")
    rex, answerer = with_prepared_prompts(find_benchmark("rexsonovqa"), prepared), Oracle()
    evaluate(
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
