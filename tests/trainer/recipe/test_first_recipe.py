"""Tests the recipe that `medtune init` writes: it can be read, fits the data, and has a comment on every field."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from medtune.data.raw.source import SourceTable
from medtune.data.types import MediaKind, MediaRef, Question, Split
from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import apply_tuning
from medtune.trainer.recipe.first_recipe import DataFacts, facts_of_table, first_recipe
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

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
