"""Tests CTLesionVQA's official prompts of version 2: sent as they are written, and named in every output."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.ctlesionvqa import scenario
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Condition, Question, Request, VolumesAs
from medtune.eval.asking.conditions import check_conditions
from medtune.eval.asking.official_prompts import ShownAs, wording_name
from medtune.eval.asking.plan import plan_visits
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.trainer.commands.cli import main
from tests.eval.asking.prompts_files import prompts_file
from tests.examples import write_example
from tests.models.endpoint.chat_server import KEY, completion, serving

WAYS = {"3d_volume": "Look at a scan.", "2d_video": "Watch a clip.", "2d_image": "One slice."}
ABOUT, GRID = "Of a {sex}; of {age}.\n", "Grid {spacing}/{shape}.\n"
_KINDS = {
    "multiple choice": "A letter, please.",
    "numeric": "A number.",
    "binary": "Yes/no.",
    "categorical": "A phrase.",
}
ASKED = {
    f"{kind}{facts}": f"{{shown}}\n{about}{{question}}\n{how}"
    for kind, how in _KINDS.items()
    for facts, about in (("", ""), (" + sex + age", ABOUT), (" + sex + age + spacing", ABOUT + GRID))
    if "spacing" not in facts or kind in ("multiple choice", "numeric")
}
TEMPLATES = {
    **WAYS,
    **{name: f"Be brief.\n\n{text}" for name, text in ASKED.items()},
    **{f"agent: {name}": f"Use tools.\n\n{text}" for name, text in ASKED.items()},
}
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
    """Writes the kit's prompts, with our own words in their place."""
    return prompts_file(tmp_path / "prompts.yaml", TEMPLATES)


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


def test_the_templates_of_the_kit_have_names(kit: Path) -> None:
    official = find_benchmark("ctlesionvqa").official
    assert official is not None
    assert len(official.names) == 3 + 2 * 6 * 16
    assert set(TEMPLATES) < set(official.names)
    assert "agent: numeric + sex + age + scanner + contrast + spacing" in official.names


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
        "BDMAP_00000001", "[0.8 0.8 2.5 ]", "", "nan", "061", "How large?", "3 cm³", "liver", "", "M",
        "organ volume measurement",
    ]  # fmt: skip
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


def test_questions_of_other_sources_are_not_of_v2() -> None:
    assert scenario(Question("q", "m", "?", (), "x", "text", "p", {"subtype": "fatty liver"})) == "not of v2"


Capture = pytest.CaptureFixture[str]


def _rows() -> list[dict[str, object]]:
    """Returns twelve rows of version 2 about four scans."""
    rows: list[dict[str, object]] = []
    for number in range(12):
        volume = 1000 + 10 * number
        rows.append(
            {
                "qid": f"bench_{number:05d}",
                "image_id": f"BDMAP_{number % 4:08d}",
                "question": "How large is the liver?",
                "answer": f"{volume} cm³",
                "mc_question": f"How large is the liver? A: 1 cm³ B: {volume} cm³ C: 2000 cm³",
                "correct_option": "B",
                "organ": "liver",
                "question_type": "Measurement",
                "question_subtype": "organ volume measurement",
            }
        )
    return rows


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("v2")
    (folder / "raw" / "benchmark").mkdir(parents=True)
    (folder / "raw" / "benchmark" / "test_qa.json").write_text(json.dumps({"questions": _rows()}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        source = find_source("ctlesionvqa")
        return prepare(source, benchmark="ctlesionvqa", root=folder / "raw", out=folder / "prepared", media="left out")


def _results(row: Mapping[str, object], reply: object) -> dict[str, object]:
    names = ("qid", "image_id", "question_subtype", "question_type", "correct_option", "answer")
    return {**{name: row[name] for name in names}, "raw_output": reply, "pred_answer": reply}


def _score(prepared: Prepared, file: Path, *extra: str) -> int:
    return main(["score", "ctlesionvqa", "--predictions", str(file), "--questions", str(prepared.root), *extra])


@pytest.mark.parametrize(("kind", "reply"), [("multi_choice", "correct_option"), ("free_text", "answer")])
def test_results_in_any_order(prepared: Prepared, tmp_path: Path, kind: str, reply: str) -> None:
    file = tmp_path / "vqa.json"
    results = [_results(row, row[reply]) for row in _rows()[::-1]]
    file.write_text(json.dumps({"metrics": {}, "n_processed": len(results), "results": results}))
    assert _score(prepared, file, "--only", f"format={kind}") == 0
    overall = json.loads((tmp_path / "scores.json").read_text())["overall"]
    assert (overall["value"], overall["n"]) == (1.0, 12)


def test_results_of_other_rows_are_refused(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "vqa.json"
    file.write_text(json.dumps({"results": [_results({**row, "qid": f"other {row['qid']}"}, "x") for row in _rows()]}))
    assert _score(prepared, file, "--only", "format=free_text") == 1
    assert "nothing was scored" in capsys.readouterr().err


def test_the_format_has_to_be_said(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "vqa.json"
    file.write_text(json.dumps({"results": [_results(row, "B") for row in _rows()]}))
    assert _score(prepared, file) == 1
    assert "Give one of --only format=free_text or --only format=multi_choice." in capsys.readouterr().err


def test_a_broken_result_is_named(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "vqa.json"
    file.write_text(json.dumps({"results": [{"qid": "bench_00000"}]}))
    assert _score(prepared, file, "--only", "format=free_text") == 1
    assert f"{file}, result 1: wanted an object with qid and pred_answer or raw_output" in capsys.readouterr().err
