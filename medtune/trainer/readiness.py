"""What a recipe needs that is not on this machine, and the way to it."""

from __future__ import annotations

from medtune.data.source import source
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import ZooEntry
from medtune.models.transformers_vlm.loading import kept_weights
from medtune.trainer.recipe import Recipe


def missing_data(recipe: Recipe, judged_by: Benchmark) -> str | None:
    """Returns how to make the prepared folder, None where it is there."""
    root = recipe.data.root
    if root.is_dir():
        return None
    lines = [f"prepared data: there is no folder {root} (data.root). Make it with one of"]
    for name in judged_by.sources:
        read_from = source(name)
        files = "" if read_from.provenance == "synthetic" else " --from FOLDER"
        lines.append(f"     medtune prepare {recipe.data.benchmark} --source {name}{files} --out {root}")
        where = "simulated, no files needed" if not files else f"FOLDER: {read_from.url}"
        lines.append(f"       {read_from.title}; {where}; licence: {read_from.licence}")
    return "\n".join(lines)


def missing_weights(recipe: Recipe, entry: ZooEntry) -> str | None:
    """Returns how to get pretrained weights; None where they are here or come by themselves."""
    wanted = recipe.model.weights or (entry.hub.repo_id if entry.hub else None)
    if wanted is None or kept_weights(wanted) is not None:
        return None
    gate = ""
    if entry.hub is not None and entry.hub.repo_id == wanted and entry.hub.gated:
        gate = " It is gated: accept its licence on the hub and log in with `hf auth login` first."
    return (
        f"weights: {wanted} is neither a local folder nor in the hub's cache.{gate}\n"
        f"     hf download {wanted}    where the hub can be reached, or\n"
        "     copy the folder (config.json, *.safetensors, tokenizer and preprocessor files) from another machine and\n"
        "     say where: --set model.weights=/path/to/folder"
    )
