"""Tests that the recipes of the CTLesionVQA paper have every number of its Tables 2 and 9."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from medtune.data.raw.source import SourceTable
from medtune.data.types import MediaKind, MediaRef, Question, Split
from medtune.models.assemble import zoo_entry
from medtune.models.nano import volume
from medtune.models.sequence.volumes import MARK, REPORT_STOP_ID
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.first_recipe import DataFacts, facts_of_table, first_recipe
from medtune.trainer.recipe.read import find_recipe, read_recipe
from medtune.trainer.recipe.schema import Recipe
from tests.trainer.conftest import Capture, Told, json_of

ROW = {
    "radfm": "RadFM",
    "m3d_llama2": "M3D (LLaMA2 / Phi-3)",
    "m3d_phi3": "M3D (LLaMA2 / Phi-3)",
    "merlin": "Merlin",
    "ct_chat": "CT-CHAT",
}
each_model = pytest.mark.parametrize("model", ROW)
OPTIMIZER = {"AdamW": "adamw", "AdamW (8-bit)": "adamw_8bit"}
PRECISION = {"FP16": "16-mixed", "BF16": "bf16-mixed"}


def _row(shared_published: Path, table: int, model: str) -> dict[str, Any]:
    rows = json_of(shared_published / f"ctlesionvqa_table{table}.json")["rows"]
    return next(dict(row) for row in rows if row["model"] == ROW[model])


def _preset(model: str) -> Recipe:
    return read_recipe(f"{model}_ctlesionvqa")


@each_model
def test_training_is_that_of_table_9(model: str, shared_published: Path) -> None:
    row, recipe = _row(shared_published, 9, model), _preset(model)
    train, learning = recipe.train, [how for how in recipe.model.tuning.parts().values() if how.mode != "frozen"]
    assert {how.lr for how in learning} == {row["learning_rate"]}
    assert train.optimizer == OPTIMIZER[row["optimizer"]]
    assert train.precision == PRECISION[row["mixed_precision"]]
    assert (train.max_steps, train.epochs) == (row["training_iterations"], row["training_epochs"])
    assert train.warmup_ratio == row["warmup_ratio"]
    assert row["lr_scheduler"] == "Cosine", "the only schedule there is"
    assert train.devices == row["gpus"]
    share = train.devices if row.get("batch_remark") == "model parallel" else 1
    samples = row["per_device_batch_size"] * row["gradient_accumulation_steps"] * train.devices // share
    assert train.group_questions is not None
    assert train.batch_size * train.group_questions == samples, "the paper's sample is one question"
    assert recipe.data.workers * train.devices == row["cpu_workers"]


@each_model
def test_model_is_that_of_table_2(model: str, shared_published: Path) -> None:
    row, recipe = _row(shared_published, 2, model), _preset(model)
    vision, projector, language = recipe.model.tuning.parts().values()
    assert (vision.mode != "frozen", projector.mode != "frozen") == (row["vision_tuned"], row["projector_tuned"])
    assert {how.lr for how in (projector, language)} == {row["learning_rate"]}
    kind = row["llm_tuning"]
    assert language.mode == kind["kind"].lower()
    if language.mode == "lora":
        assert language.lora.r == kind["r"]
    parts = zoo_entry(recipe.model.name).variants[recipe.model.variant or ""]
    prepared: Any = parts.transform
    size = (prepared.in_plane, prepared.in_plane, prepared.depth) if model == "radfm" else prepared.size
    wanted = row["input_size_voxels"]
    assert list(size) == ([wanted[2], *wanted[:2]] if model.startswith("m3d") else wanted)
    if row["ct_spacing"] == "direct resize":
        assert not hasattr(prepared, "spacing_mm")
    else:
        assert list(prepared.spacing_mm) == row["ct_spacing"]
    tokenizer = volume.tokenizer()
    if model == "merlin":
        # The release's tokenizer has a token for the mark, and its reports end with a token of a high number.
        tokenizer.add_tokens([MARK, *(f"<more {number}>" for number in range(REPORT_STOP_ID))])
    laid = parts.template(tokenizer).layout("how large is it?", "3 cm")
    tags = 2 if model == "radfm" else 0  # that stand around its visual tokens
    assert [span.stop - span.start - tags for span in laid.media_spans] == [row["visual_tokens_per_image"]]


@each_model
def test_public_code_stands_beside_it(model: str) -> None:
    paper, public = _preset(model), read_recipe(f"{model}_ctlesionvqa_public")
    assert public != paper
    assert public.model.name == paper.model.name
    last = public.stages[-1]
    adapters = {
        "m3d_llama2": (16, 32, 0.05),
        "m3d_phi3": (16, 32, 0.05),
        "merlin": (512, 16, 0.1),
        "ct_chat": (128, 256, 0.05),
    }
    if model in adapters:
        lora = last.tuning.language.lora
        assert (lora.r, lora.alpha, lora.dropout) == adapters[model]
    else:
        assert {how.mode for how in last.tuning.parts().values()} == {"full"}
    lengths = {"m3d_llama2": [3, 4], "m3d_phi3": [3, 5], "ct_chat": [1, 10]}
    assert [stage.epochs for stage in public.stages] == lengths.get(model, [None])
    rates = {
        "m3d_llama2": [1e-4, 5e-5],
        "m3d_phi3": [1e-4, 5e-5],
        "merlin": [1e-4],
        "radfm": [5e-6],
        "ct_chat": [1e-3, 2e-5],
    }
    assert [stage.tuning.projector.lr for stage in public.stages] == rates[model]


@pytest.mark.parametrize("name", [f"{model}_ctlesionvqa{kind}" for model in ROW for kind in ("", "_public")])
def test_header_says_that_it_was_not_run(name: str) -> None:
    expected = next(line for line in find_recipe(name).read_text().splitlines() if line.startswith("# Expected:"))
    assert "not yet run" in expected


PLANNED = ("radfm_ctlesionvqa", "merlin_ctlesionvqa", "m3d_phi3_ctlesionvqa_public")


@pytest.mark.parametrize("name", PLANNED)
def test_show_has_the_questions_of_a_group(name: str, shown: Told) -> None:
    assert "group_questions: 4" in shown(main(["show", name]))


# What is missing is listed in tests/trainer/experiment/test_refusals.py, and a table of a machine is in test_plan.py.
@pytest.mark.soak
@pytest.mark.parametrize("name", PLANNED)
def test_validate_plans_and_says_what_is_missing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", name, "--devices", "4xA6000-48GB"]) == 1
    said = capsys.readouterr().out
    assert "prepared data: there is no folder prepared/ctlesionvqa" in said
    assert "billion parameters" in said
    assert ("which model.weights has to name" in said) == name.startswith("radfm")
    assert ("hf download" in said) != name.startswith("radfm")


@pytest.mark.soak
@pytest.mark.parametrize("name", PLANNED)
def test_validate_without_weights_plans_and_asks_for_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", name, "--no-weights", "--devices", "4xA6000-48GB"]) == 1
    said = capsys.readouterr().out
    assert "prepared data: there is no folder prepared/ctlesionvqa" in said
    assert "billion parameters" in said
    assert "hf download" not in said


FACTS = DataFacts(
    {"train": 400, "val": 50, "test": 60},
    train_groups=200,
    closed=510,
    open=0,
    kinds=frozenset({"image"}),
    most_items=1,
    longest_answer=0,
    about_splits="as the data say",
)


def written(facts: DataFacts, folder: Path, *, on_gpu: bool = False) -> tuple[Recipe, str]:
    text = first_recipe(facts, benchmark="vqa", root=folder / "it's", on_gpu=on_gpu, commands=["one", "two", "three"])
    file = folder / "recipe.yaml"
    file.write_text(text, "utf-8")
    return read_recipe(str(file)), text


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("kind", ["image", "video", "volume"])
def test_every_recipe_can_be_read_and_its_tuning_fits_its_model(kind: MediaKind, on_gpu: bool, tmp_path: Path) -> None:
    recipe, text = written(replace(FACTS, kinds=frozenset({kind})), tmp_path, on_gpu=on_gpu)
    assert recipe.data.root == tmp_path / "it's"
    small = {"image": "pocket", "video": "pocket_video", "volume": "pocket_ct"}[kind]
    assert recipe.model.name == ("qwen25vl_7b" if on_gpu else small)
    # The others take long, and differ in their towers alone.
    if (kind, on_gpu) in (("image", False), ("video", True)):
        apply_tuning(zoo_entry(recipe.model.name).skeleton(recipe.model), recipe.model.tuning, seed=0)
    body = text[text.index("model:") :].splitlines()
    for above, line in pairwise(body):
        if line.startswith("  ") and not line.lstrip().startswith("#"):
            assert above.lstrip().startswith("# "), line
            assert above.rstrip().endswith((".", "?"))
    assert all(f"# {word}" in text for word in ("Source:", "Command:", "Hardware:", "Expected: not yet run."))


def test_the_values_follow_the_data(tmp_path: Path) -> None:
    recipe, _ = written(FACTS, tmp_path)
    assert (recipe.train.epochs, recipe.eval.readings) == (10, ("likelihood", "generation"))
    free = replace(FACTS, closed=0, open=510, longest_answer=300)
    recipe, _ = written(free, tmp_path)
    assert recipe.eval.readings == ("generation",)
    assert recipe.eval.max_new_tokens == 128
    recipe, _ = written(replace(FACTS, open=10), tmp_path)
    assert recipe.eval.readings == ("likelihood", "generation")
    many: dict[Split, int] = {"train": 60_000, "val": 5_000, "test": 5_000}
    recipe, _ = written(replace(FACTS, questions=many, train_groups=30_000), tmp_path)
    assert (recipe.train.epochs, recipe.eval.questions) == (1, 400)
    recipe, _ = written(replace(FACTS, questions=many, train_groups=30_000), tmp_path, on_gpu=True)
    assert (recipe.train.epochs, recipe.eval.questions) == (1, None)
    recipe, _ = written(replace(FACTS, kinds=frozenset(), most_items=0), tmp_path)
    assert recipe.eval.conditions == ("image",)
    with pytest.raises(ValueError, match="no model that trains on a CPU reads both"):
        written(replace(FACTS, kinds=frozenset({"image", "volume"})), tmp_path)


def test_facts_of_raw_data() -> None:
    def question(number: int, *, options: tuple[str, ...] = ()) -> Question:
        return Question(f"q{number}", f"m{number // 2}", "?", options, "yes" if options else "a" * 40, "text", "p")

    asked = [question(number, options=("yes", "no") if number % 2 else ()) for number in range(20)]
    media = {f"m{number}": (MediaRef(Path("a.png")),) * (2 if number == 3 else 1) for number in range(10)}
    found = facts_of_table(SourceTable(asked, media))
    assert found.questions == {"train": 14, "val": 3, "test": 3}
    assert (found.train_groups, found.closed, found.open, found.most_items) == (7, 10, 10, 2)
    assert (found.longest_answer, found.about_splits[:9], found.kinds) == (40, "estimated", frozenset({"image"}))
    split = [replace(each, split="test" if number < 5 else "train") for number, each in enumerate(asked)]
    found = facts_of_table(SourceTable(split, media))
    assert found.questions == {"train": 15, "val": 0, "test": 5}
    assert found.about_splits == "as the data say; `prepare` draws val out of train"
    with pytest.raises(ValueError, match="no question can be read from these data"):
        facts_of_table(SourceTable([], {}))
