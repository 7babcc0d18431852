"""Writes docs/reference/sizes.md: each model's size, its licence, and what a device holds while it learns, by method.

The numbers are those of `medtune validate --no-weights`, which builds each model without values. All models take some
minutes together: `make sizes` runs it. A test counts one model anew and holds the list of names against the code.
"""

from collections.abc import Iterator
from pathlib import Path

from medtune.data import catalog
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.trainer.plan.devices import GB, Devices
from medtune.trainer.plan.plan import Plan, Planner, Sizes
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "sizes.md"
ROW_TOKENS = 1000
DEVICE = Devices(1, "a card", 80.0)
METHODS = {"LoRA": [], "QLoRA": ["model.language_bits=4"], "full": ["model.tuning.language={mode: full, lr: 1.0e-5}"]}
# Only a recipe says of which parts these are put together.
MADE_FROM_PARTS = ("parts",)
HEAD = f"""# Models, size and memory

Written by `make sizes` from the plan of `medtune validate --no-weights`; a test counts one model anew. What each
model reads, and what was verified of it, stands in [models](../models.md) and [families](../families.md).

GB that one device holds at most while it learns: one media group in a pass, rows of {ROW_TOKENS} tokens, recomputed
activations (`train.gradient_checkpointing=true`), bf16-mixed, AdamW; CUDA's own memory and fragmentation are not
counted. *LoRA* has rank 16 on all linear layers of the language model, *QLoRA* the same over weights in 4 bits, *full*
trains the whole language model; vision tower and projector are frozen. On CPUs such plans were within 15 % of what
ranks took ([memory](../memory.md)); on a GPU they were not compared. Your own recipe is planned by

    medtune validate qwen25vl_7b_vqa_lora --no-weights --devices 1xA100-80GB

**None of the models over 0.2 billion parameters was run with its real weights by us.** What is tested of each are its
code at tiny sizes against transformers' own, its full-size shapes without values, and, for releases with names of their
own, recorded values of their published code.

| model | parameters, billions | LoRA | QLoRA | full | weights |
|---|---|---|---|---|---|
"""


def names() -> list[str]:
    """Returns the models that have a size of their own, those for tests left out."""
    shown = [name for name in catalog.names(catalog.MODELS) if not name.startswith("nano_")]
    return [name for name in shown if name not in MADE_FROM_PARTS and isinstance(_entry(name), ZooEntry)]


def row(name: str) -> str:
    """Returns a model's line of the table."""
    entry = zoo_entry(name)
    planner, plans = Planner(entry, Sizes(row_tokens=ROW_TOKENS)), dict[str, Plan | str]()
    for method, settings in METHODS.items():
        try:
            recipe = _recipe(name, settings)
            plans[method] = planner.plan(recipe, DEVICE)
        except ValueError as error:
            plans[method] = f"refused: {str(error).partition(';')[0].partition('. ')[0]}"
    counted = [plan.parameters for method, plan in plans.items() if isinstance(plan, Plan) and method != "QLoRA"]
    cells = " | ".join(_cell(plan) for plan in plans.values())
    where = entry.licence if entry.hub is None else f"`{entry.hub.repo_id}`{', gated' if entry.hub.gated else ''}"
    return f"| `{name}` | {counted[0] / 1e9:.2f} | {cells} | {where} |"


def page() -> Iterator[str]:
    """Yields the page, line by line, as its numbers become known."""
    yield HEAD
    for name in names():
        yield row(name) + "\n"


def main() -> int:
    """Writes the page."""
    lines = []
    for line in page():
        print(line, end="", flush=True)
        lines.append(line)
    PAGE.write_text("".join(lines), "utf-8")
    return 0


def _recipe(name: str, settings: list[str]) -> Recipe:
    return read_recipe(
        "qwen25vl_7b_vqa_lora",
        [
            f"model.name={name}", "model.image_max_pixels=null", "train.micro_batch_size=1", "train.batch_size=1",
            "train.gradient_checkpointing=true", "train.precision=bf16-mixed", "train.devices=1", *settings,
        ],
    )  # fmt: skip


def _entry(name: str) -> object:
    return catalog.made(catalog.MODELS, name, object)


def _cell(plan: Plan | str) -> str:
    if isinstance(plan, str):
        return plan.replace("|", "\\|")
    training = [phase for phase in plan.phases if phase.name == "training"]
    note = " (activations not counted)" if plan.unknown else ""
    return f"{max(phase.total for phase in training) / GB:.1f}{note}"


if __name__ == "__main__":
    raise SystemExit(main())
