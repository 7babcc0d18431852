"""What a study's file may say, and which rows of the papers' tables the shipped studies fill."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.trainer.commands.reproduce import settings_folder
from medtune.trainer.studies.study import open_study, recipe_of

STUDIES = catalog.names(catalog.STUDIES)


def written(folder: Path, **changed: Any) -> str:
    whole = {
        "sets": {"fetal_gauge": "prepared/x"},
        "tables": ["fine_tuning"],
        "work": "run",
        "fetch": "nothing",
        "rows": [{"name": "a", "recipe": "pocket_fetal_phantom_lora"}],
        **changed,
    }
    path = folder / "mine.yaml"
    path.write_text("# A study of mine.\n" + yaml.safe_dump(whole), encoding="utf-8")
    return str(path)


ROW = {"name": "a", "recipe": "pocket_fetal_phantom_lora"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tables": ["fine_tunin"]}, "no published table 'fine_tunin'. Did you mean 'fine_tuning'"),
        ({"tables": []}, "tables is empty; name published tables of fetal_gauge: main"),
        ({"rows": [ROW, ROW]}, "two rows are named 'a'"),
        ({"rows": [{**ROW, "published": "Llama"}]}, "row 'a', published: no table of the study has a row 'Llama'"),
        ({"rows": [{**ROW, "name": "a/b"}]}, "row 'a/b', name: it is that of a folder"),
        ({"rows": [{"name": "a"}]}, "row 'a': give one of recipe, predictions and masks"),
        ({"rows": [{**ROW, "recipe": "pocket_fetal"}]}, "row 'a', recipe pocket_fetal: "),
        ({"rows": [{**ROW, "recipe": "pocket_ct_lora"}]}, "pocket_ct_lora is about ctlesionvqa, the study about fetal"),
        ({"rows": [{**ROW, "set": {"train.max_step": 3}}]}, "row 'a', recipe pocket_fetal_phantom_lora: .*max_step"),
        ({"rows": [{**ROW, "parser": "official"}]}, "row 'a', parser: fetal_gauge has no parser 'official'"),
        ({"rows": [{"name": "a", "masks": "m"}]}, "row 'a', masks: no mask tells the answers of fetal_gauge"),
        ({"rows": [{"name": "a", "predictions": {"image": ["f"]}}]}, "row 'a': the column 'gain' needs answers before"),
        ({"rows": [{**ROW, "recipe": "endpoint_fetal_gauge"}]}, "row 'a', recipe: a served model is not trained"),
        ({"kits": {"fetal_gauge": "x"}}, "kits: no published cell of fetal_gauge is read from its release"),
        ({"kits": {"fetal_gaug": "x"}}, "kits: fetal_gaug is none of sets. Did you mean 'fetal_gauge'"),
        ({"seeds": 0}, "seeds is 0; wanted 1 or more"),
        ({"rows": [{**ROW, "colour": 1}]}, "colour"),
        ({"rows": [{**ROW, "billions": 0}]}, "row 'a', billions is 0; wanted more than 0"),
    ],
)
def test_a_wrong_study_is_refused_with_row_and_field(tmp_path: Path, changed: Mapping[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        open_study(written(tmp_path, **changed))


def test_a_recipe_that_cannot_fill_the_cells_is_refused(tmp_path: Path) -> None:
    row = {"name": "a", "recipe": "endpoint_u2_bench"}
    path = written(tmp_path, sets={"u2_bench": "prepared/x"}, tables=["table3"], work="eval", rows=[row])
    with pytest.raises(ValueError, match=r"eval\.conditions lack with_anatomy, without_anatomy, which columns"):
        open_study(path)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_a_scale_for_two_cores(name: str) -> None:
    opened = open_study(name, scale="pocket")
    assert opened.rows
    assert opened.simulated is not None or opened.study.scales["pocket"].data is None


def test_settings_of_a_simulation_are_written_as_its_source_reads_them(tmp_path: Path) -> None:
    simulated = open_study("ctlesionvqa_figure4", scale="pocket").simulated
    assert simulated is not None
    folder = settings_folder(simulated, tmp_path / "simulation")
    assert json.loads((folder / "phantom.json").read_text("utf-8")) == {"num_patients": 200, "every_subtype": True}
    scale = {"data": {"source": "ct_phantom", "settings": {"every_subtype": True}}, "rows": [ROW]}
    with pytest.raises(ValueError, match=r"scales\.small\.data\.settings need the number of patients"):
        open_study(written(tmp_path, scales={"small": scale}), scale="small")


def test_unknown_rows_and_scales_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(ValueError, match=r"there is no row 'b'\. There are: a"):
        open_study(path, rows=["b"])
    with pytest.raises(ValueError, match=r"there is no scale 'pocket'\. There are: full"):
        open_study(path, scale="pocket")


def test_a_recipe_lies_beside_its_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "mine_lora.yaml").write_text("extends: pocket_fetal_phantom_lora\n", encoding="utf-8")
    path = written(folder, rows=[{"name": "a", "recipe": "mine_lora.yaml"}])
    monkeypatch.chdir(tmp_path)
    (row,) = open_study(str(Path(path).relative_to(tmp_path))).rows
    assert row.recipe == "studies/mine_lora.yaml"


def test_a_value_of_a_study_can_be_set(tmp_path: Path) -> None:
    assert open_study(written(tmp_path), overrides=["seeds=3"]).study.seeds == 3


FILLED = {
    ("m3d_vqa", "closed"): (1, 2),
    ("fetal_gauge", "main"): (6, 7),
    ("fetal_gauge", "box_size"): (3, 3),
    ("fetal_gauge", "fine_tuning"): (2, 2),
    ("u2_bench", "table1"): (18, 24),
    ("u2_bench", "table2"): (12, 17),
    ("u2_bench", "table3"): (1, 1),
    ("rexsonovqa", "mcq"): (4, 4),
    ("rexsonovqa", "free"): (4, 4),
    ("rexsonovqa", "section5"): (1, 1),
    ("rexsonovqa", "figure6_mcq"): (1, 1),
    ("rexsonovqa", "figure6_free"): (1, 1),
    ("rexsonovqa", "figure7_mcq"): (1, 1),
    ("rexsonovqa", "figure7_free"): (1, 1),
    ("ctlesionvqa", "table3_multi_choice"): (5, 6),
    ("ctlesionvqa", "table3_free_text"): (5, 5),
    ("ctlesionvqa", "table4"): (8, 8),
    ("ctlesionvqa", "figure6"): (8, 8),
    ("ctlesionvqa", "youden"): (5, 5),
    ("ctlesionvqa", "table10"): (5, 5),
    ("ctlesionvqa", "table11"): (5, 5),
    ("ctlesionvqa", "table12"): (5, 5),
    ("ctlesionvqa", "table13"): (5, 5),
}
"""Of each published table: the rows that a study fills, and all that are printed."""


def test_rows_of_published_tables_that_a_study_fills() -> None:
    filled: dict[tuple[str, str], set[str]] = {}
    left_out: dict[tuple[str, str], set[str]] = {}
    for study in map(open_study, STUDIES):
        for table in study.tables:
            for name in {column.benchmark for column in table.columns}:
                key = name, table.name
                rows = {row.published for row in study.rows if row.published in table.printed}
                filled.setdefault(key, set()).update(str(row) for row in rows)
                left_out.setdefault(key, set()).update(study.study.left_out)
    counted = {}
    for benchmark in ("m3d_vqa", "fetal_gauge", "u2_bench", "rexsonovqa", "ctlesionvqa"):
        for table in find_benchmark(benchmark).published_tables():
            key = benchmark, table.name
            if not table.printed:
                continue
            counted[key] = len(filled[key]), len(table.printed)
            # Every row is filled, or the reason why not is written down.
            unexplained = {*table.printed} - filled[key] - left_out[key]
            assert unexplained == set(), (key, unexplained)
    assert counted == FILLED


def test_left_out_rows_are_rows_of_the_paper() -> None:
    for name in STUDIES:
        study = open_study(name)
        known = {row for table in study.tables for row in table.printed}
        assert {*study.study.left_out} <= known, name


def test_every_served_row_names_a_model_of_its_own_its_address_and_where_its_key_is() -> None:
    served = 0
    for study in map(open_study, STUDIES):
        asked = []
        for row in study.rows:
            endpoint = recipe_of(study, row, study.sets[0]).model.endpoint if row.recipe else None
            if endpoint is not None:
                asked.append((endpoint.base_url, endpoint.model))
                is_local = endpoint.base_url.startswith("http://localhost")
                assert endpoint.base_url.startswith("https://") or is_local, (study.name, row.name)
                assert (endpoint.key_env is None) == is_local, (study.name, row.name)
        assert len({*asked}) == len(asked), (study.name, asked)
        served += len(asked)
    assert served == 22


def test_rows_of_the_fields_sets_that_the_study_fills() -> None:
    study = open_study("field_sets")
    kit, r2gen = study.tables
    assert len(study.sets) == 8
    assert [column.benchmark for column in kit.columns] == [each.name for each in study.sets][:-1]
    assert {column.benchmark for column in r2gen.columns} == {"iu_xray"}
    filled = {row.published for row in study.rows}
    assert filled | {*study.study.left_out} == {*kit.printed, *r2gen.printed}
    assert (len(filled & {*kit.printed}), len(kit.printed), kit.num_printed) == (9, 10, 70)
