"""U2-Bench's official prompts as they are sent: every scenario of the released tables, the paper's files, the kit's."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.u2_bench.official.prompts import read, scenario
from medtune.benchmarks.u2_bench.tasks_and_sets import CLASSIFICATION, DETECTION, OPTIONS, TASKS
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import Condition
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.trainer.commands.cli import main
from tests.eval.answerers import Oracle
from tests.eval.asking.prompts_files import prompts_file
from tests.examples import write_example
from tests.examples.u2_bench import image_cell

PLACES = {
    **{f"LL {dataset}": "A lesion of {anatomy}?" for dataset in TASKS["LL"]},
    **{f"OD {dataset}": "Of {anatomy}: {seg_channel_name}?" for dataset in TASKS["OD"]},
    "KD 48": "Where is {kp||some valve}?",
}
"""What the kit has in code, in words of this test."""
CODE = {
    "image_seg.py": """
class ImageSegDataset:
    def build_prompt(self, line, task_type):
        hint = line['hint'] if 'hint' in line else None
        prompt = ''
        if hint is not None:
            prompt += f'{hint}.'
        if self.dataset_name in ['04', '17', '23', '32', '64']:
            prompt += f"A lesion of {anatomy}?"
        elif self.dataset_name == '48':
            kp = "some valve"
            prompt += "Where is "
            prompt += f"{kp}?"
        else:
            prompt += f"Of {anatomy}: {seg_channel_name}?"
        return open('/nowhere')
""",
    "image_report.py": """
def build_prompt(self, line, task_type):
    prompt = ""
    if self.dataset_name == "39":
        prompt += f"Report on {anatomy}.\\n"
    else:
        prompt += "Describe it."
        if self.dataset_name == "10":
            prompt += " For instance: a head."
""",
}
PAPER = {
    "u2_01_fetal_view_dataset10.txt": ["VRA 10"],
    "u2_02_heart_view_dataset18.txt": ["VRA 18"],
    "u2_03_kl_grading_dataset28.txt": ["DD 28_1"],
    "u2_04_birads_dataset40.txt": ["DD 40"],
    "u2_05_fetal_abdomen_dataset50.txt": ["VRA 50"],
    "u2_06_breast_classification.txt": ["DD 21", "DD 23", "DD 66"],
    "u2_07_thyroid_classification.txt": ["DD 32", "DD 70"],
    "u2_08_skin_dataset25.txt": ["DD 25"],
    "u2_09_pancreas_dataset42.txt": ["DD 42"],
    "u2_10_pcos_abnormal_dataset74.txt": ["DD 74is_normal"],
    "u2_11_pcos_visible_dataset74.txt": ["VRA 74is_visible"],
    "u2_12_fetal_plane_dataset03.txt": ["VRA 03"],
    "u2_13_thyroid_plane_dataset37.txt": ["VRA 37"],
    "u2_14_fetal_landmarks_dataset53.txt": ["VRA 53"],
    "u2_15_carotid_dataset69.txt": ["VRA 69"],
    "u2_16_anatomy_classification.txt": ["VRA anatomy"],
    "u2_17_knee_classification.txt": ["VRA 28"],
    "u2_21_caption_generation.txt": ["CG 10", "CG 44"],
    "u2_22_report_generation.txt": ["RG 39"],
}
"""Which of the paper's files asks which scenarios; its files of places name one organ each and ask none."""


def _row(task: str, dataset: str) -> dict[str, str]:
    answer = {
        "LL": {"gt_bbox": '{"nodule": [0.2, 0.5, 0.1, 0.1]}'},
        "OD": {"gt_bbox": '{"organ_box": [0.2, 0.5, 0.1, 0.1]}', "seg_channel_name": "Left_Organ"},
        "KD": {"keypoints": '{"mv_Inner": [0.2, 0.5]}'},
        "CVE": {"measurement": '{"it": 40.5}'},
        "RG": {"report": "An even liver."},
        "CG": {"caption": "A plane."},
    }
    if task in CLASSIFICATION:
        answer[task] = {"class_label": OPTIONS[task, dataset][0], "options": str(list(OPTIONS[task, dataset]))}
    return {"anatomy_location": f"The_Organ of {dataset}", **answer[task]}


def _write(root: Path, name: str, *rows: Mapping[str, str]) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    image = image_cell(np.random.default_rng(len(list(root.rglob("*.tsv")))))
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, ["img_data", *rows[0]], delimiter="\t")
        writer.writeheader()
        writer.writerows({"img_data": image, **row} for row in rows)


def _prepare(raw: Path, prompts: Path) -> Prepared:
    """Prepares a folder with prompts: a file, or a folder that they are made of."""
    out = raw.with_name("prepared")
    if prompts.is_dir():
        made = raw.with_name(f"{prompts.name}.yaml")
        assert main(["prompts", "u2_bench", "--from", str(prompts), "--out", str(made)]) == 0
        prompts = made
    assert main(["prepare", "u2_bench", "--from", str(raw), "--out", str(out), "--prompts", str(prompts)]) == 0
    return open_prepared(out)


def _sent(prepared: Prepared, *conditions: Condition) -> dict[Condition, dict[str, list[str]]]:
    """Returns the texts of the prompts that are sent, by condition and scenario."""
    answerer = Oracle()
    u2 = with_prepared_prompts(find_benchmark("u2_bench"), prepared)
    out = prepared.root.with_name("run")
    ask_questions(answerer, prepared.groups("test"), u2, answer_format="text", out_dir=out, conditions=conditions)
    found: dict[Condition, dict[str, list[str]]] = {condition: {} for condition in conditions}
    for _, request in sorted(answerer.asked, key=lambda asked: asked[1].question.id):
        if request.reading == "likelihood" or not request.question.options:
            found[request.condition].setdefault(scenario(request.question), []).append(request.prompt.text)
    return found


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A released table of one row for each scenario."""
    for task, datasets in TASKS.items():
        for dataset in datasets:
            _write(tmp_path / "raw", f"{task}/{dataset}.tsv", _row(task, dataset))
    return tmp_path / "raw"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Writes the evaluation kit's prompts, with our own words in their place."""
    return prompts_file(tmp_path / "kit.yaml", {"DD 23": "Finding?", "CVE 18": "Share?", **PLACES})


def test_the_papers_prompts_are_sent_verbatim_and_our_words_ask_the_rest(shared_published: Path, whole: Path) -> None:
    folder = shared_published / "prompts"
    prepared = _prepare(whole, folder)
    wanted = {each: (folder / file).read_text("utf-8").strip() for file, those in PAPER.items() for each in those}
    sent = _sent(prepared, "image")["image"]
    assert set(sent) == {f"{task} {dataset}" for task, datasets in TASKS.items() for dataset in datasets}
    for each, text in wanted.items():
        assert sent[each] == [text.replace("{anatomy_location}", f"The_Organ of {each.split()[1]}")], each
    ours = sorted(set(sent) - set(wanted))
    assert {each.split()[0] for each in ours} == {*DETECTION, "CVE", "DD"}
    assert [each for each in ours if each.startswith("DD")] == ["DD 44", "DD 57", "DD 75"]
    u2 = find_benchmark("u2_bench")
    for question in prepared.questions("test"):
        if scenario(question) in ours:
            assert sent[scenario(question)] == [u2.render(question, "text").text]
    said = f"official for {len(wanted)} scenarios, ours for {len(ours)}: {', '.join(ours)}; sha256 "
    assert prepared.manifest.prompts.startswith(said)
    results = json.loads((prepared.root / "manifest.json").read_text("utf-8"))
    assert "asked in our words, not the official ones: CVE 18 (there is no template: 1 questions)" in results["notes"]


def test_the_kits_gaps_hold_the_cells_as_they_are_and_its_own_words_where_they_are_empty(
    kit: Path, tmp_path: Path
) -> None:
    raw = tmp_path / "raw"
    box = {"gt_bbox": '{"organ_box": [0.2, 0.5, 0.1, 0.1]}'}
    organs = [
        {"anatomy_location": " Fetal_Head", "seg_channel_name": "['Skull_A', 'B']", **box},
        {"anatomy_location": "", "seg_channel_name": "", "gt_bbox": ""},
    ]
    _write(raw, "OD/31.tsv", organs[0], organs[1])
    _write(raw, "LL/04.tsv", {"anatomy_location": "Thyroid", **box})
    keypoints = ['{"MV_inner": [0.1, 0.2], "other": [0.3, 0.4]}', "", "{'mv_inner': [0.1, 0.2]}"]
    _write(raw, "KD/48.tsv", *({"anatomy_location": "heart", "keypoints": each} for each in keypoints))
    prepared = _prepare(raw, kit)
    assert prepared.manifest.prompts.startswith("official, sha256 ")
    assert _sent(prepared, "image")["image"] == {
        "OD 31": ["Of  Fetal_Head: ['Skull_A', 'B']?", "Of nan: nan?"],
        "LL 04": ["A lesion of Thyroid?"],
        "KD 48": ["Where is MV_inner?", "Where is some valve?", "Where is some valve?"],
    }


def test_prompts_in_the_kits_code_are_read_and_the_code_does_not_run(tmp_path: Path) -> None:
    for name in ("cla_prompt.json", "mea_prompt.json"):
        (tmp_path / name).write_text("{}")
    for name, code in CODE.items():
        (tmp_path / name).write_text(code)
    found = read(tmp_path)
    assert {name: text for name, text in found.items() if name in PLACES} == PLACES
    assert found.keys() - PLACES.keys() == {"RG 39", "CG 10", "CG 44"}
    assert (found["RG 39"], found["CG 44"]) == ("Report on {anatomy}.\n", "Describe it.")
    assert found["CG 10"] == "Describe it. For instance: a head."


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("image_seg.py", "def build_prompt", "def other", r"wanted one function build_prompt, found 0"),
        ("image_seg.py", 'prompt += "Where is "', "prompt = prompt.upper()", r"line 12: build_prompt is not the kit's"),
        ("image_seg.py", "{kp}", "{secrets}", r"line 13: the prompt holds .*secrets.*, which no question knows"),
        ("image_report.py", 'self.dataset_name == "39"', "exec(line)", r"decides by 'exec\(line\)', which"),
        ("image_report.py", "prompt +=", "prompt +", r"writes nothing for the data set 39|not the kit's"),
        ("image_report.py", "def ", "def (", r"no Python file \(SyntaxError\)"),
        ("image_report.py", CODE["image_report.py"], "(" * 100_000, r"no Python file"),
    ],
)
def test_code_that_is_not_the_kits_is_named(name: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    for each in ("cla_prompt.json", "mea_prompt.json"):
        (tmp_path / each).write_text("{}")
    assert old in CODE[name]
    (tmp_path / name).write_text(CODE[name].replace(old, new))
    with pytest.raises(ValueError, match=rf"{name}.*({message})"):
        read(tmp_path)


def test_the_anatomy_ablation_opens_official_prompts_as_the_paper_does(shared_published: Path, tmp_path: Path) -> None:
    folder, raw = shared_published / "prompts", tmp_path / "raw"
    for task, dataset in (("DD", "23"), ("VRA", "37"), ("VRA", "anatomy"), ("CVE", "18")):
        _write(raw, f"{task}/{dataset}.tsv", _row(task, dataset) | {"anatomy_location": "Some_Organ"})
    prepared = _prepare(raw, folder)
    stems = (folder / "u2_23_anatomy_ablation_stems.txt").read_text("utf-8").strip().split("\n\n")
    with_, without = (stem.partition(": ")[2].removesuffix("...") for stem in stems)
    sent = _sent(prepared, "image", "with_anatomy", "without_anatomy")
    official = (folder / "u2_06_breast_classification.txt").read_text("utf-8").strip()
    rest = official.partition("\n\n")[2]
    assert sent["image"]["DD 23"] == [official]
    assert sent["with_anatomy"]["DD 23"] == [with_.replace("{anatomy}", "some organ") + "\n\n" + rest]
    assert sent["without_anatomy"]["DD 23"] == [without + "\n\n" + rest]
    thyroid = (folder / "u2_13_thyroid_plane_dataset37.txt").read_text("utf-8").strip().partition("\n\n")[2]
    assert sent["without_anatomy"]["VRA 37"] == [without + "\n\n" + thyroid]
    # There the organ is what is asked.
    assert sent["with_anatomy"]["VRA anatomy"] == sent["without_anatomy"]["VRA anatomy"] != sent["image"]["VRA anatomy"]
    assert sent["without_anatomy"]["CVE 18"] == sent["image"]["CVE 18"]
    assert "some organ" in sent["with_anatomy"]["CVE 18"][0]


def test_the_ablation_needs_both_halves_and_words_for_them(shared_published: Path, kit: Path, tmp_path: Path) -> None:
    _write(tmp_path / "raw", "DD/23.tsv", _row("DD", "23"))
    prepared = _prepare(tmp_path / "raw", shared_published / "prompts")
    with pytest.raises(ValueError, match=r"wanted with_anatomy and without_anatomy in eval\.conditions"):
        _sent(prepared, "image", "with_anatomy")
    prepared = _prepare(tmp_path / "raw", kit)
    with pytest.raises(ValueError, match="has no official prompt for the condition 'with_anatomy'"):
        _sent(prepared, "with_anatomy", "without_anatomy")


def test_broken_stems_are_named(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"prompts": [{"kind": "ablation", "file": "stems.txt"}]}')
    (tmp_path / "stems.txt").write_text("With anatomy: a {anatomy} image...\n")
    with pytest.raises(ValueError, match=r"stems\.txt: wanted lines that begin with With anatomy: and No anatomy:"):
        read(tmp_path)


Capture = pytest.CaptureFixture[str]
_TABLE = "disease_diagnosis/23.tsv"
_PART = ("--only", "task=DD", "dataset=23")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("u2")
    write_example("u2_bench", folder / "raw")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepare(find_source("u2_bench"), benchmark="u2_bench", root=folder / "raw", out=folder / "prepared")


def _replies(prepared: Prepared) -> list[dict[str, object]]:
    """Returns the kit's lines with perfect replies to a set."""
    with (prepared.root.parent / "raw" / _TABLE).open(newline="") as file:
        labels = [row["class_label"] for row in csv.DictReader(file, delimiter="\t")]
    about = {"text_content": "You are a radiologist.", "image_paths": ["x.png"], "category": "cla", "model": "m"}
    return [{"id": str(number), **about, "response": label} for number, label in enumerate(labels)]


def _write_of_result_files(folder: Path, lines: list[dict[str, object]]) -> Path:
    file = folder / "multimodal_test_results_1.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def _score(prepared: Prepared, file: Path) -> int:
    return main(["score", "u2_bench", "--predictions", str(file), "--questions", str(prepared.root), *_PART])


def test_replies_in_any_order_go_by_the_index_of_their_row(prepared: Prepared, tmp_path: Path) -> None:
    file = _write_of_result_files(tmp_path, _replies(prepared)[::-1])
    assert _score(prepared, file) == 0
    found = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text().splitlines()]
    assert len(found) == 6
    assert [row["robust"] for row in found] == [row["answer"] for row in found]


def test_lines_that_do_not_fit_are_named(prepared: Prepared, tmp_path: Path, capsys: Capture) -> None:
    file = _write_of_result_files(tmp_path, [*_replies(prepared), {"id": "99", "response": "x"}])
    assert _score(prepared, file) == 1
    assert f"{file}, line 7: its id 'DD 23 99' is no id of a row of the raw files" in capsys.readouterr().err
    given = ["--predictions", str(file), "--questions", str(prepared.root)]
    assert main(["score", "u2_bench", *given, "--only", "task=DD"]) == 1
    assert "Give the set, such as --only task=DD dataset=" in capsys.readouterr().err
    file.write_text(file.read_text()[:-20])
    assert _score(prepared, file) == 1
    assert f"{file}, line 7: broken or cut-off JSON" in capsys.readouterr().err
