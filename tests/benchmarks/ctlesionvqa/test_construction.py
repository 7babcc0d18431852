"""Metadata, questions and the oracle from CT and masks: against known truth, a real CT, and what goes wrong."""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.ctlesionvqa.construction.cases import read_facts
from medtune.benchmarks.ctlesionvqa.construction.facts import HYPER, HYPO, Facts, from_json, to_json
from medtune.benchmarks.ctlesionvqa.construction.mask_names import known_name, masks_of_case, named_files
from medtune.benchmarks.ctlesionvqa.construction.oracle import report
from medtune.benchmarks.ctlesionvqa.construction.programs import run
from medtune.benchmarks.ctlesionvqa.construction.questions import PROGRAM, questions
from medtune.benchmarks.ctlesionvqa.construction.subtypes_asked import (
    PRESETS,
    SUBTYPES,
    every_question,
    preset,
    templates,
)
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom import (
    SimulatedPatient,
    draw,
    lesion_masks,
    measured,
    write_patient,
)
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.anatomy import draw_builds
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.lesions import ADJECTIVES, SITES, draw_findings
from medtune.benchmarks.ctlesionvqa.sources.ct_phantom.shapes import SIZE, SPACING_MM
from medtune.data.media.volumes.formats.nifti import nifti_affine, read_nifti_labels, write_nifti
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS, Question
from medtune.eval.predictions.files import read_predictions
from medtune.eval.scoring.score_prepared import score_prepared
from medtune.trainer.commands.cli import main
from tests.eval.answers import generated
from tests.soak import in_suites

VOXEL_CM = SPACING_MM / 10
Change = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]


def cohort(number: int, seed: int) -> list[SimulatedPatient]:
    """Returns simulated patients about whom every subtype is asked."""
    found = draw_findings(number, np.random.default_rng([seed, 0]), clear=True)
    builds = draw_builds(number, np.random.default_rng([seed, 2]))
    return [
        SimulatedPatient(each, build, seed, index)
        for index, (each, build) in enumerate(zip(found, builds, strict=True))
    ]


def holds_the_truth(subject: SimulatedPatient) -> Facts:
    """Checks every measured lesion of a simulated patient against what was drawn."""
    drawn = draw(subject)
    facts = measured(f"case-{subject.seed}-{subject.number}", drawn)
    assert not facts.wrong
    assert from_json(json.loads(json.dumps(to_json(facts)))) == facts
    for site in SITES:
        true = sorted((each for each in drawn.lesions if each.site == site), key=lambda each: -each.solid.radii_mm[0])
        lesions = list(facts.of_kind(site, "lesion"))
        assert len(lesions) == len(true), site
        total = sum(each.volume_cm3 for each in lesions)
        marked = np.count_nonzero(drawn.scan.masks.get(f"{ADJECTIVES[site]}_lesion", np.zeros(1)))
        assert total == pytest.approx(marked * SPACING_MM**3 / 1000)
        centres = [[mm / SPACING_MM + (n - 1) / 2 for mm, n in zip(x.solid.centre, SIZE, strict=True)] for x in true]
        costs = [
            [abs(f.slice - 1 - c[2]) + abs(f.volume_cm3 - x.volume_cm3) + 3 * (f.place != x.place) for f in lesions]
            for x, c in zip(true, centres, strict=True)
        ]
        for row, column in zip(*linear_sum_assignment(np.array(costs).reshape(len(true), len(true))), strict=True):
            each, centre, found = true[row], centres[row], lesions[column]
            assert found.long_cm == pytest.approx(each.diameter_mm / 10, abs=VOXEL_CM)
            assert found.volume_cm3 == pytest.approx(each.volume_cm3, abs=0.3 + 0.3 * each.volume_cm3)
            assert found.slice - 1 == pytest.approx(centre[2], abs=1.0)
            assert found.place == each.place
            assert found.attenuation == (HYPER if each.is_bright else HYPO)
            for name in lesion_masks(each):
                kind = name.split("_")[1]
                kind = kind.upper() if kind in ("pdac", "pnet") else kind
                assert facts.of_kind(site, kind)
    tumors = [each for each in drawn.lesions if each.site == "pancreas" and each.kind == "tumor"]
    if tumors:
        stage, size = (
            str(run("stage(largest(lesions(pancreas, tumor)))", facts)[0]),
            max(each.diameter_mm for each in tumors),
        )
        at_most, at_least = (f"T{1 + sum(size + by > end for end in (20, 40))}" for by in (SPACING_MM, -SPACING_MM))
        assert stage == "T4" or at_least <= stage <= at_most
    return facts


def test_facts_are_those_that_were_drawn() -> None:
    for subject in cohort(12, seed=1):
        holds_the_truth(subject)


@pytest.mark.slow
@pytest.mark.soak
def test_facts_of_a_cohort_are_those_that_were_drawn_and_every_subtype_arises() -> None:
    cases = [holds_the_truth(subject) for seed in (2, 3) for subject in cohort(120, seed)]
    for name in PRESETS:
        asked = one_right_answer(cases, name)
        said: dict[str, set[str]] = defaultdict(set)
        for question in asked:
            said[question.facets["subtype"]].add(question.answer)
        assert set(said) == set(SUBTYPES)
        assert not {each for each, answers in said.items() if len(answers) < 2}
        assert said["bilateral kidney asymmetry"] == {"Left kidney", "Right kidney", "Equal"}


def one_right_answer(cases: list[Facts], rules: str) -> list[Question]:
    """Checks that the options hold the truth once, and no other answer that the program would give."""
    asked = questions(cases, preset(rules), seed=0)
    by_name = {facts.name: facts for facts in cases}
    for question in asked:
        assert len(set(question.options)) == len(question.options)
        if question.options:
            assert question.options.count(question.answer) == 1
        facts = by_name[question.media_id]
        if question.facets[PROGRAM].startswith("neighbour("):
            touched = str(run(question.facets[PROGRAM].replace("neighbour(", "touched("), facts)[0]).split("|")
            assert len(set(touched) & set(question.options)) <= 1
        answer, _ = run(question.facets[PROGRAM], facts)
        if not isinstance(answer, str) and question.options:
            numbers = [float(option.split()[0]) for option in question.options]
            assert min(numbers, key=lambda each: abs(each - float(answer))) == float(question.answer.split()[0])
    return asked


def test_options_hold_one_right_answer_at_a_drawn_place_and_of_a_drawn_rank() -> None:
    cases = [measured(f"case-{subject.number}", draw(subject)) for subject in cohort(24, seed=4)]
    asked = [question for question in one_right_answer(cases, "paper") if len(question.options) == 4]
    places = [question.options.index(question.answer) for question in asked]
    assert min(np.bincount(places, minlength=4)) > 0.18 * len(asked)
    sizes = [question for question in asked if question.facets["subtype"] == "organ volume measurement"]
    ranks = [sorted(map(float, [o.split()[0] for o in q.options])).index(float(q.answer.split()[0])) for q in sizes]
    assert min(np.bincount(ranks, minlength=4)) > 0.1 * len(ranks)


def test_each_subtype_has_ten_templates_under_every_preset() -> None:
    for name in PRESETS:
        for asked in every_question(preset(name)):
            said = templates(asked)
            assert len(set(said)) == 10
            assert not any("{" in text.replace("{depth}", "") for text in (*said, asked.program))
    with pytest.raises(ValueError, match=r"no preset 'papr'.*paper"):
        preset("papr")


def test_names_of_other_tools_are_known() -> None:
    assert known_name("IVC") is None
    named = {"inferior_vena_cava": "postcava", "gallbladder": "gall_bladder", "Liver Lesions": "liver_lesion"}
    assert {name: known_name(name) for name in named} == named
    assert known_name("cancer", ["background", "pancreas", "cancer"]) == "pancreatic_tumor"
    assert known_name("tumor", ["liver", "pancreas", "tumor"]) is None


@pytest.mark.parametrize(
    "labels", [{"background": 0, "liver": 1, "cancer": 2}, {"0": "background", "1": "liver", "2": "cancer"}]
)
def test_label_maps_of_nnunet_are_read(tmp_path: Path, labels: Mapping[str, Any]) -> None:
    hu_IJK = np.full((20, 20, 10), 60, np.int16)
    drawn_IJK = np.zeros(hu_IJK.shape, np.uint8)
    drawn_IJK[2:18, 2:18, 2:8], drawn_IJK[5:9, 5:9, 4:6] = 1, 2
    for name, values in (("scan.nii.gz", hu_IJK), ("case.nii.gz", drawn_IJK)):
        write_nifti(tmp_path / name, values, np.diag([2.0, 2.0, 2.0, 1.0]))
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": labels}))
    facts = read_facts("case", tmp_path / "scan.nii.gz", masks_of_case(tmp_path, "case"))
    assert len(facts.of_kind("liver", "tumor")) == 1
    assert facts.of_kind("liver", "lesion")[0].volume_cm3 == pytest.approx(4 * 4 * 2 * 8 / 1000)
    (tmp_path / "dataset.json").unlink()
    with pytest.raises(FileNotFoundError, match="what the labels of"):
        masks_of_case(tmp_path, "case")


def test_a_real_scan_has_the_volumes_that_were_measured_and_no_lesion(shared_real: Path) -> None:
    root = shared_real / "ct_trunk"
    facts = read_facts("trunk", root / "ct.nii.gz", named_files((root / "segmentations").glob("*.nii.gz")))
    # Source: SOURCES.md of the real data, measured there.
    stated = {"liver": (1123.3, 44.3), "spleen": (261.3, 31.7), "pancreas": (22.1, -9.7)}
    stated |= {"left kidney": (138.9, 14.8), "right kidney": (188.8, 10.9)}
    for organ, (cm3, hu) in stated.items():
        assert facts.organs[organ].volume_cm3 == pytest.approx(cm3, rel=0.01)
        assert facts.organs[organ].hu_mean == pytest.approx(hu, abs=0.5)
    asked = questions([facts], preset("paper"), seed=0)
    existence = {q.facets["subtype"]: q.answer for q in asked if q.facets["subtype"].endswith("existence")}
    assert set(existence.values()) == {"No"}
    assert len(existence) == 8
    assert "No lesion in the organs" in report(facts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten simulated scans on disk, in AbdomenAtlas's layout."""
    root = tmp_path_factory.mktemp("cohort")
    for subject in cohort(10, seed=5):
        write_patient(root / f"scan_{subject.number}", subject)
    (root / "about.csv").write_text("image_id,sex,age,scanner,contrast\nscan_0,F,61,GE,Plain\n")
    return root


@pytest.fixture(scope="module")
def prepared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    out = tmp_path_factory.mktemp("out") / "prepared"
    return prepare(find_source("ct_masks"), benchmark="ctlesionvqa", root=folder, out=out)


def scored(prepared: Prepared, replies: Mapping[str, str]) -> Any:
    asked = prepared.questions("train")
    said = [generated(q, replies.get(q.id, "")) for q in asked]
    return score_prepared(prepared, asked, said, find_benchmark("ctlesionvqa")).scores


def test_true_masks_answer_all_and_a_silent_model_none(prepared: Prepared, tmp_path: Path) -> None:
    command = ["oracle", "ctlesionvqa", "--questions", str(prepared.root), "--split", "train"]
    assert main([*command, "--out", str(tmp_path / "own.jsonl"), "--metadata", str(tmp_path / "table.parquet")]) == 0
    said = {each.key.question_id: each.text or "" for each in read_predictions(tmp_path / "own.jsonl")}
    perfect = scored(prepared, said)
    values = {name: score.value for name, score in perfect.metrics["image"]["robust"].items()}
    assert values == dict.fromkeys(values, 1.0)
    assert len(values) >= 7
    silent = scored(prepared, {})
    lowest = {name: score.value for name, score in silent.metrics["image"]["robust"].items()}
    assert lowest == {name: -1.0 if name == "youden" else 0.0 for name in lowest}
    table = pq.read_table(tmp_path / "table.parquet")
    assert len(table.schema.names) == 79
    assert table.schema.field("liver volume (cm^3)").metadata == {b"unit": b"cm^3"}
    assert "IMPRESSION" in table.column("structured report")[0].as_py()


CHANGES: Mapping[str, Change] = {
    "eroded": ndimage.binary_erosion,
    "dilated": ndimage.binary_dilation,
    "shifted": lambda mask: np.roll(mask, (5, 4, 3), (0, 1, 2)),
}
"""What is done to the masks of lesions."""


@pytest.mark.parametrize("name", in_suites(CHANGES, slow=("shifted",)))
def test_worse_masks_answer_worse(
    name: str, prepared: Prepared, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in folder.glob("*/segmentations/*_lesion.nii.gz"):
        to = tmp_path / "masks" / file.parent.parent.name / file.name
        to.parent.mkdir(parents=True, exist_ok=True)
        write_nifti(to, CHANGES[name](read_nifti_labels(file) != 0).astype(np.uint8), nifti_affine(file))
    page, out = tmp_path / "page.html", tmp_path / "out.jsonl"
    command = ["oracle", "ctlesionvqa", "--questions", str(prepared.root), "--split", "train", "--report", str(page)]
    assert main([*command, "--masks", str(tmp_path / "masks"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split() for line in printed.splitlines() if "  " in line}
    assert float(rows["all"][-1]) < -0.05
    assert float(rows["largest lesion diameter"][-1]) < 0
    assert float(rows["organ volume measurement"][-1]) == 0
    assert {"<2 cm", "2-4 cm"} <= set(rows)
    assert "largest lesion diameter" in page.read_text("utf-8")


def test_a_question_is_shown_from_voxels_to_its_answer(
    prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = next(q for q in prepared.questions("train") if q.facets["subtype"] == "lesion outlier")
    page = tmp_path / "page.html"
    command = ["oracle", "ctlesionvqa", "--questions", str(prepared.root), "--split", "train", "--report", str(page)]
    assert main([*command, "--program", question.id]) == 0
    said = capsys.readouterr().out
    assert f"answer:   {question.answer}" in said
    assert "1. lesions(" in said
    assert "data:image/png;base64," in page.read_text("utf-8")
    assert main([*command, "--out", str(tmp_path / "o.jsonl")]) == 1
    assert "--report: a page is about one question (--program) or about predicted masks" in capsys.readouterr().err


def test_models_are_not_shown_masks_of_lesions(prepared: Prepared) -> None:
    by_organ = replace(prepared, by_organ=True)
    targets = {name for group in by_organ.groups("train") for ref in group.media for name in ref.target}
    assert targets
    assert not any("lesion" in name or "segment" in name for name in targets)
    for question in prepared.questions("train"):
        shown = (question.text, *question.options, question.facets["subtype"])
        assert "scan_" not in " ".join(shown)


Break = Callable[[Path], object]
"""A change of a scan's folder."""


def _moved(folder: Path, name: str, affine: NDArray[np.float64], every: int = 1) -> None:
    file = folder / "segmentations" / f"{name}.nii.gz"
    write_nifti(file, read_nifti_labels(file)[::every, ::every, ::every].astype(np.uint8), affine)


def _filled(folder: Path, name: str, like: str | None) -> None:
    file = folder / "segmentations" / f"{name}.nii.gz"
    source = folder / "segmentations" / f"{like or 'liver'}.nii.gz"
    values = read_nifti_labels(source) != 0
    write_nifti(file, (values if like else 0 * values).astype(np.uint8), nifti_affine(source))


def _far_lesion(folder: Path) -> None:
    liver = folder / "segmentations" / "liver.nii.gz"
    values = np.zeros(read_nifti_labels(liver).shape, np.uint8)
    values[2:6, 2:6, 2:6] = 1
    write_nifti(folder / "segmentations" / "liver_lesion.nii.gz", values, nifti_affine(liver))


def _unscaled(folder: Path) -> None:
    scan = folder / "ct.nii.gz"
    write_nifti(scan, (read_nifti_labels(scan) + 1024).astype(np.int16), nifti_affine(scan))


FINE = np.diag([-SPACING_MM, -SPACING_MM, SPACING_MM, 1.0])
HALF = np.diag([-2 * SPACING_MM, -2 * SPACING_MM, 2 * SPACING_MM, 1.0])
AWAY = FINE + np.array([[0, 0, 0, 9000.0]] + [[0] * 4] * 3)
BROKEN: Mapping[str, tuple[Break, str, str | None]] = {
    "half the grid": (lambda f: _moved(f, "spleen", HALF, 2), "resampled to that of the scan: spleen: 1 scans", None),
    "elsewhere": (lambda f: _moved(f, "spleen", AWAY), "this mask lies outside of the scan", ""),
    "empty": (lambda f: _filled(f, "spleen", None), "holds no voxel", "spleen"),
    "overlapping": (lambda f: _filled(f, "spleen", "liver"), "shares 100% of the smaller one", "spleen"),
    "far lesion": (_far_lesion, "lies outside of the organ's mask", "liver"),
    "not HU": (_unscaled, "is not in Hounsfield units", ""),
    "truncated": (lambda f: (f / "ct.nii.gz").write_bytes(b"no scan"), "not a whole NIfTI file", ""),
    "no organ": (lambda f: (f / "segmentations" / "spleen.nii.gz").unlink(), "without a mask: spleen: 1 scans", None),
}
"""How a scan may be wrong, what is said of it, and the organ of the reject: "" for the scan, None for a note."""


def test_what_is_wrong_costs_a_scan_or_an_organ_and_no_other(folder: Path, tmp_path: Path) -> None:
    """Eight of ten scans are wrong, each in its own way."""
    shutil.copytree(folder, tmp_path / "raw")
    for number, (change, _, _) in enumerate(BROKEN.values(), 1):
        change(tmp_path / "raw" / f"scan_{number}")
    found = prepare(
        find_source("ct_masks"), benchmark="ctlesionvqa", root=tmp_path / "raw", out=tmp_path / "out", max_rejected=0.5
    )
    organs = [organ for _, _, organ in BROKEN.values()]
    patients = {q.patient_id for split in SPLITS for q in found.questions(split)}
    assert len(patients) == 10 - organs.count("")
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text("utf-8").splitlines()]
    for row, (name, (_, reason, organ)) in enumerate(BROKEN.items(), 2):
        costs = [(each["field"] or "", each["reason"]) for each in rejects if each["row"] == row]
        if organ is None:
            assert costs == [], name
            assert any(reason in note for note in found.manifest.notes), name
        else:
            assert any(field == organ and reason in said for field, said in costs), name
            assert organ or len(costs) == 1, name
    assert {each["row"] for each in rejects} <= {*range(2, 2 + len(BROKEN))}
    assert "scan_" not in json.dumps(rejects) + "".join(found.manifest.notes)


def test_a_mask_on_half_the_grid_has_the_volume_of_the_whole_one(folder: Path, tmp_path: Path) -> None:
    scan = shutil.copytree(folder / "scan_2", tmp_path / "scan_2")
    _moved(scan, "spleen", HALF, 2)
    whole = np.count_nonzero(read_nifti_labels(folder / "scan_2" / "segmentations" / "spleen.nii.gz"))
    facts = read_facts("x", scan / "ct.nii.gz", named_files((scan / "segmentations").glob("*")))
    assert facts.organs["spleen"].volume_cm3 == pytest.approx(whole * 0.064, rel=0.05)


@pytest.mark.slow
def test_two_processes_prepare_the_same_as_one(prepared: Prepared, folder: Path, tmp_path: Path) -> None:
    prepare(find_source("ct_masks"), benchmark="ctlesionvqa", root=folder, out=tmp_path / "out", processes=2)
    by_one, by_two = (
        {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
        for root in (prepared.root, tmp_path / "out")
    )
    assert by_one == by_two
