"""Tests CTLesionVQA's official prompts of version 2: read from its kit, equal to the kit's, named in every output."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.ctlesionvqa.official_prompts import read, scenario
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.types import Condition, Question, Request, VolumesAs
from medtune.eval.asking.conditions import check_conditions
from medtune.eval.asking.official_prompts import ShownAs, wording_name
from medtune.eval.asking.plan import plan_visits
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.trainer.commands.cli import main
from tests.examples import write_example
from tests.models.endpoint.chat_server import KEY, completion, serving

CODE = '''
import nowhere

def _modality_blurb(input_mode: str, count: int | None = None) -> str:
    if input_mode == "2d_video":
        return "Watch a clip."
    if input_mode == "2d_image":
        return "One slice."
    if input_mode in ["3d_volume"]:
        return ("Look at "
                "a scan.")
    return ""

def _about(q: dict) -> str:
    """Says who it is."""
    parts = []
    if q.get("sex"):
        parts.append(f"a {q['sex']}")
    if q.get("age"):
        parts.append(f"of {q['age']}")
    if q.get("scanner"):
        parts.append(f"in a {q['scanner']}")
    return "Of " + "; ".join(parts) + "." if parts else ""

def _scan(q):
    if SUBTYPE_ANSWER_TYPE.get(q.get("question_subtype", "")) != "numeric" or not q.get("spacing"):
        return ""
    return f"Grid {q['spacing']}/{q.get('shape')}."

def build_prompt(q, input_mode, fmt):
    lines: list[str] = [_modality_blurb(input_mode), _about(q)]
    if _scan(q):
        lines.append(_scan(q))
    if fmt == "mc":
        lines.append(q["mc_question"])
        lines.append("A letter, please.")
    else:
        kind = SUBTYPE_ANSWER_TYPE.get(q.get("question_subtype", ""), "categorical")
        text = q["question"]
        text += "\\nA number." if kind == "numeric" else "\\nYes/no." if kind == "binary" else "\\nA phrase."
        lines.append(text)
    return "\\n".join(line for line in lines if line)

SYSTEM_PROMPT_VQA = (
    "Be "
    "brief."
)
SYSTEM_PROMPT_AGENT = ("Use "
    "tools.")
'''
ROW: dict[str, object] = {
    "qid": "bench_00001",
    "image_id": "BDMAP_00000001",
    "spacing": [0.8, 0.8, 2.5],
    "shape": "(8, 8, 4)",
    "sex": "F",
    "age": 61.0,
    "question": "How large is the liver?",
    "answer": "1293.7 cm³",
    "mc_question": "How large is the liver? A: 1293.7 cm³ B: 800 cm³  C: 2000 cm³ ",
    "correct_option": "A",
    "organ": "liver",
    "lesion": False,
    "question_type": "Measurement",
    "question_subtype": "organ volume measurement",
}
YES_NO = {
    "question": " Is a PDAC {sex} there?\n",
    "answer": "Yes",
    "mc_question": "",
    "question_subtype": "PDAC existence",
}
PHRASE = {
    "question": "Which kind?",
    "answer": "cyst",
    "mc_question": "",
    "question_subtype": "lesion type classification",
}
PLAIN = ShownAs()
NOBODY = {"sex": None, "age": None, "spacing": None, "shape": None}


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Writes a copy of the kit with our own words in place of its prompts."""
    folder = tmp_path / "kit" / "src" / "deeptumorvqa" / "data"
    folder.mkdir(parents=True)
    (folder / "prompt.py").write_text(CODE)
    return tmp_path / "kit"


def kit_file(kit: Path) -> Path:
    return kit / "src" / "deeptumorvqa" / "data" / "prompt.py"


def write_rows(root: Path, rows: Sequence[Mapping[str, object]], name: str = "benchmark/test_qa.json") -> None:
    """Writes a table and a tiny scan for each row's `image_id`."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(json.dumps({"version": "2.0", "questions": rows}), "utf-8")
    for scan in {str(row["image_id"]) for row in rows}:
        (root / scan).mkdir(exist_ok=True)
        hu_IJK = np.random.default_rng(int(scan[-1])).integers(-100, 200, (8, 8, 4)).astype(np.int16)
        write_nifti(root / scan / "ct.nii.gz", hu_IJK, np.diag([0.8, 0.8, 2.5, 1.0]))


def made(tmp_path: Path, kit: Path, rows: Sequence[Mapping[str, object]]) -> Prepared:
    write_rows(tmp_path / "raw", rows)
    out = tmp_path / "prepared"
    arguments = ["prepare", "ctlesionvqa", "--from", str(tmp_path / "raw"), "--out", str(out), "--prompts", str(kit)]
    assert main(arguments) == 0
    return open_prepared(out)


def asked(prepared: Prepared, *, shown: ShownAs = PLAIN, conditions: Sequence[Condition] = ("image",)) -> list[Request]:
    words = with_prepared_prompts(find_benchmark("ctlesionvqa"), prepared, shown=shown)
    plan = plan_visits(prepared.groups("test"), words, answer_format="letter", conditions=conditions)
    return [request for visits in plan for visit in visits for request in visit.requests]


def said(requests: Sequence[Request]) -> dict[str, str]:
    """Returns the user turns by the kind of answer that they ask for."""
    return {scenario(request.question): request.prompt.user for request in requests}


def test_each_way_through_the_code_is_a_template(kit: Path) -> None:
    found = read(kit)
    assert found["3d_volume"] == "Look at a scan."
    assert found["2d_video"] == "Watch a clip."
    assert found["multiple choice"] == "Be brief.\n\n{shown}\n{question}\nA letter, please."
    assert found["numeric + sex + age + spacing"] == (
        "Be brief.\n\n{shown}\nOf a {sex}; of {age}.\nGrid {spacing}/{shape}.\n{question}\nA number."
    )
    assert found["binary + age + scanner"] == "Be brief.\n\n{shown}\nOf of {age}; in a {scanner}.\n{question}\nYes/no."
    assert found["categorical + contrast"] == found["categorical"]
    assert found["2d_image"] == "One slice."
    assert found["agent: multiple choice"] == "Use tools.\n\n{shown}\n{question}\nA letter, please."
    assert len(found) == 3 + 2 * 6 * 16


def test_folders_of_the_kit_give_the_same(kit: Path) -> None:
    inside = kit / "src" / "deeptumorvqa"
    assert read(kit) == read(inside.parent) == read(inside) == read(inside / "data")


def test_rows_are_asked_as_the_kit_asks_them(kit: Path, tmp_path: Path) -> None:
    """Cells are as Python prints them, with the blanks and odd spacing of options; no gap is filled twice."""
    prepared = made(tmp_path, kit, [ROW, ROW | YES_NO, ROW | NOBODY, ROW | NOBODY | PHRASE])
    assert prepared.manifest.prompts.startswith("official, sha256 ")
    requests = asked(prepared)
    assert {request.prompt.system for request in requests} == {"Be brief."}
    about, grid = "Look at a scan.\nOf a F; of 61.0.", "Grid [0.8, 0.8, 2.5]/(8, 8, 4)."
    assert said(requests) == {
        "numeric + sex + age + spacing": f"{about}\n{grid}\nHow large is the liver?\nA number.",
        "multiple choice + sex + age + spacing": f"{about}\n{grid}\n{ROW['mc_question']}\nA letter, please.",
        "binary + sex + age": f"{about}\n Is a PDAC {{sex}} there?\n\nYes/no.",
        "numeric": "Look at a scan.\nHow large is the liver?\nA number.",
        "multiple choice": f"Look at a scan.\n{ROW['mc_question']}\nA letter, please.",
        "categorical": "Look at a scan.\nWhich kind?\nA phrase.",
    }
    expected = {scenario(request.question): (request.prompt.choices, request.prompt.target) for request in requests}
    assert expected["multiple choice"] == (("A", "B", "C"), "A")
    assert expected["binary + sex + age"] == (("yes", "no"), "yes")
    assert expected["numeric"] == ((), "1293.7")


def test_a_csv_prints_its_cells_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    names = [name for name in ROW if name not in ("qid", "mc_question", "correct_option")]
    cells = [
        "BDMAP_00000001",
        "[0.8 0.8 2.5 ]",
        "",
        "nan",
        "061",
        "How large?",
        "3 cm³",
        "liver",
        "",
        "M",
        "organ volume measurement",
    ]
    (tmp_path / "train" / "train_qa.csv").write_text(",".join(names) + "\n" + ",".join(cells) + "\n", "utf-8")
    (tmp_path / "BDMAP_00000001").mkdir()
    (tmp_path / "BDMAP_00000001" / "ct.nii.gz").touch()
    (question,) = find_source("ctlesionvqa").read(tmp_path, 0, tmp_path).questions
    assert question.printed == {
        "layout": "{question}",
        "sex": "nan",
        "age": "061",
        "spacing": "[0.8 0.8 2.5 ]",
        "shape": "",
    }


def test_the_clip_is_announced_where_a_model_is_shown_one(kit: Path, tmp_path: Path) -> None:
    prepared = made(tmp_path, kit, [ROW | NOBODY | PHRASE])
    assert said(asked(prepared, shown=ShownAs("video"))) == {"categorical": "Watch a clip.\nWhich kind?\nA phrase."}
    assert said(asked(prepared, shown=ShownAs("slice"))) == {"categorical": "One slice.\nWhich kind?\nA phrase."}
    assert said(asked(prepared, shown=ShownAs("slices"))) == said(asked(prepared))


def test_an_agent_is_asked_behind_its_own_system_turn_in_the_words_for_a_slice(kit: Path, tmp_path: Path) -> None:
    """The kit announces a slice to every agent, in whatever form a CT is sent."""
    prepared = made(tmp_path, kit, [ROW, ROW | NOBODY | PHRASE])
    ways: tuple[VolumesAs | None, ...] = (None, "video", "slices")
    for way in ways:
        requests = asked(prepared, shown=ShownAs(way, agent=True), conditions=("image", "text_only"))
        assert {request.prompt.system for request in requests} == {"Use tools."}
        assert said(requests)["categorical"] == "One slice.\nWhich kind?\nA phrase."
        assert said(requests)["multiple choice + sex + age + spacing"] == (
            f"One slice.\nOf a F; of 61.0.\nGrid [0.8, 0.8, 2.5]/(8, 8, 4).\n{ROW['mc_question']}\nA letter, please."
        )


def test_prompts_without_words_for_agents_are_refused_for_an_agent(kit: Path, tmp_path: Path) -> None:
    prepared = made(tmp_path, kit, [ROW | NOBODY | PHRASE])
    file = prepared.root / "prompts.json"
    templates = {name: text for name, text in json.loads(file.read_text("utf-8")).items() if "agent" not in name}
    file.write_text(json.dumps(templates), "utf-8")
    manifest = replace(prepared.manifest, prompts=wording_name(templates))
    with pytest.raises(ValueError, match="its official prompts have no words for agents"):
        asked(replace(prepared, manifest=manifest), shown=ShownAs(agent=True))


@pytest.mark.parametrize(
    ("way", "agent", "system", "shown", "pictures"),
    [("video", "false", "Be brief.", "Watch a clip.", 4), ("slice", "true", "Use tools.", "One slice.", 1)],
)
def test_a_served_model_is_told_what_it_is_sent_behind_a_system_turn(
    kit: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    agent: str,
    system: str,
    shown: str,
    pictures: int,
) -> None:
    monkeypatch.setenv("MEDTUNE_TEST_KEY", KEY)
    prepared = made(tmp_path, kit, [ROW | NOBODY | PHRASE])
    with serving() as server:
        server.reply = lambda body: completion("cyst")
        endpoint = {"base_url": server.base_url, "model": "answerer", "key_env": "MEDTUNE_TEST_KEY",
                    "cache": tmp_path / "cache", "volumes_as": way, "agent": agent}  # fmt: skip
        settings = [f"model.endpoint.{name}={value}" for name, value in endpoint.items()]
        settings += ["data.benchmark=ctlesionvqa", f"data.root={prepared.root}", "log.wandb=disabled"]
        settings += ["eval.conditions=[image]", "model.answer_format=letter"]
        assert main(["eval", "endpoint_fetal_gauge", "--out", str(tmp_path / "run"), "--set", *settings]) == 0
        (body,) = server.bodies
    assert body["messages"][0] == {"role": "system", "content": system}
    *images, text = body["messages"][1]["content"]
    assert text["text"] == f"{shown}\nWhich kind?\nA phrase."
    assert len(images) == pictures


def test_conditions(kit: Path, tmp_path: Path) -> None:
    """The prompt is the same without the image; reordered options keep the order of letters; no organ is named."""
    prepared = made(tmp_path, kit, [ROW])
    image, *others = (
        {request.question.id: request for request in asked(prepared, conditions=[each])}
        for each in ("image", "text_only", "permuted_options")
    )
    blind, permuted = others
    assert {id_: request.prompt for id_, request in blind.items()} == {id_: each.prompt for id_, each in image.items()}
    (moved,) = permuted.values()
    first, second, third = moved.question.options
    assert f"How large is the liver? A: {first} B: {second}  C: {third} \n" in moved.prompt.text
    assert moved.question.options != image[moved.question.id].question.options
    words = with_prepared_prompts(find_benchmark("ctlesionvqa"), prepared)
    with pytest.raises(ValueError, match="has no official prompt for the condition 'with_anatomy'"):
        check_conditions(prepared.groups("test"), words, ["with_anatomy", "without_anatomy"])


def test_v1_is_asked_in_our_words_and_named(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {("question_id" if name == "qid" else name): value for name, value in ROW.items()}
    write_rows(tmp_path / "raw", [other | {"image_id": "BDMAP_00000002"}], "v1_test.json")
    prepared = made(tmp_path, kit, [ROW])
    assert prepared.manifest.prompts.startswith("official for 2 scenarios, ours for 1: not of v2; sha256 ")
    assert "asked in our words, not the official ones: not of v2 (there is no template: 2 questions)" in (
        capsys.readouterr().out
    )
    ours = find_benchmark("ctlesionvqa").render
    requests = [each for each in asked(prepared) if scenario(each.question) == "not of v2"]
    assert len(requests) == 2 + 1  # Of the multiple choice the likelihoods too.
    assert all(each.prompt == ours(each.question, "letter") for each in requests)


def test_only_v1_is_refused(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_example("ctlesionvqa", tmp_path / "raw")
    out = tmp_path / "prepared"
    arguments = ["prepare", "ctlesionvqa", "--from", str(tmp_path / "raw"), "--out", str(out), "--prompts", str(kit)]
    assert main(arguments) == 1
    message = capsys.readouterr().err
    assert "ask none of the scenarios: not of v2 (there is no template: " in message
    assert "leave --prompts out" in message
    assert not out.exists()


def test_every_output_names_the_prompts(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [ROW | {"image_id": f"BDMAP_{number:08d}"} for number in range(3)]
    prepared = made(tmp_path, kit, [*rows, *(row | YES_NO for row in rows)])
    name, run = prepared.manifest.prompts, tmp_path / "run"
    assert name.startswith("official, sha256 ")
    settings = [f"data.root={prepared.root}", "log.wandb=disabled", "eval.conditions=[image,text_only]"]
    arguments = ["eval", "nano_ct_lora", "--out", str(run), "--set", *settings]
    assert main([*arguments, "model.answer_format=text"]) == 1
    assert "official prompts, which ask for an answer as letter" in capsys.readouterr().err
    assert main([*arguments, "model.answer_format=letter"]) == 0
    assert f"Prompts: {name}." in capsys.readouterr().out
    assert json.loads((run / "results.json").read_text())["prompts"] == name
    assert name in (run / "report.html").read_text("utf-8")
    predictions = run / "zero_shot" / "predictions.jsonl"
    arguments = ["score", "ctlesionvqa", "--predictions", str(predictions), "--questions", str(prepared.root)]
    assert main(arguments) == 0
    assert json.loads((predictions.parent / "scores.json").read_text())["prompts"] == name


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("SYSTEM_PROMPT_VQA", "SYSTEM", "wanted a text SYSTEM_PROMPT_VQA, there is none"),
        ("def build_prompt(q, input_mode, fmt)", "def prompt(q)", "wanted a function build_prompt, there is none"),
        ("_modality_blurb", "_blurb", "wanted a function _modality_blurb, there is none"),
        ('"2d_video"', '"clip"', "_modality_blurb does not say what 3d_volume, 2d_video, 2d_image are"),
        ('"2d_image"', '"cut"', "_modality_blurb does not say what 3d_volume, 2d_video, 2d_image are"),
        ("SYSTEM_PROMPT_AGENT", "AGENT", "wanted a text SYSTEM_PROMPT_AGENT, there is none"),
        ('q["question"]', '"What?"', "wanted build_prompt to say first what is shown, and to ask the question"),
        ("[_modality_blurb(input_mode), _about(q)]", "[_about(q)]", "for 'multiple choice' it does not"),
        ('"; ".join(parts)', '"; ".join(sorted(parts))', r"line \d+ is not understood: sorted\(parts\)"),
        ('    return f"Grid', '    return _scan(q)\n    f"Grid', r"line \d+ is not understood: def build_prompt"),
        ("import nowhere", "import (", "no Python that could be read"),
    ],
)
def test_a_changed_kit_is_refused_by_file_and_place(kit: Path, before: str, after: str, message: str) -> None:
    assert before in CODE
    kit_file(kit).write_text(CODE.replace(before, after))
    with pytest.raises(ValueError, match=message) as caught:
        read(kit)
    assert str(kit_file(kit)) in str(caught.value)


def test_a_kit_with_other_kinds_of_answers_is_refused(kit: Path) -> None:
    metrics = kit / "src" / "deeptumorvqa" / "eval" / "metrics.py"
    metrics.parent.mkdir()
    metrics.write_text(
        'SUBTYPE_ANSWER_TYPE: dict[str, str] = {"fatty liver": "categorical", "lesion counting": "numeric"}'
    )
    assert read(kit)
    metrics.write_text('SUBTYPE_ANSWER_TYPE = {"fatty liver": "binary", "lesion counting": "numeric"}')
    with pytest.raises(ValueError, match=r"metrics\.py: SUBTYPE_ANSWER_TYPE has other kinds .* for fatty liver\."):
        read(kit)
    metrics.write_text("SUBTYPE_ANSWER_TYPE = made()")
    with pytest.raises(ValueError, match=r"metrics\.py: wanted a dict SUBTYPE_ANSWER_TYPE"):
        read(kit)


def test_a_wrong_folder_is_refused_before_anything_is_read(
    kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(kit / "src")
    out = tmp_path / "prepared"
    arguments = ["prepare", "ctlesionvqa", "--from", str(tmp_path), "--out", str(out), "--prompts"]
    assert main([*arguments, str(kit)]) == 1
    message = capsys.readouterr().err
    assert f"{kit}: wanted prompt.py of DeepTumorVQA's evaluation kit" in message
    assert "https://github.com/Schuture/DeepTumorVQA, branch v2" in message
    assert main([*arguments, str(kit / "nowhere")]) == 1
    assert "there is no such folder of prompts; check --prompts" in capsys.readouterr().err


def test_questions_of_other_sources_are_not_of_v2() -> None:
    assert scenario(Question("q", "m", "?", (), "x", "text", "p", {"subtype": "fatty liver"})) == "not of v2"
