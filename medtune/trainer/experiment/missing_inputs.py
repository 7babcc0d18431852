"""Finds what a run of a recipe lacks: data and weights on this machine, or a model that its strategy can divide."""

from pathlib import Path

from medtune.benchmarks import find_benchmark, find_source
from medtune.data import catalog
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Model
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.weights.export import is_exported
from medtune.models.weights.hub import gate_advice, kept_weights, refuse_revision, terms_of
from medtune.trainer.recipe.schema import Recipe


def missing_data(recipe: Recipe, benchmark: Benchmark) -> str | None:
    """Returns instructions for making the prepared folders that are missing; None if none is missing."""
    asked = [(recipe.data.root, "data.root", recipe.data.benchmark, benchmark)]
    asked += [
        (learnt.root, "data.mixture", learnt.benchmark, find_benchmark(learnt.benchmark))
        for learnt in recipe.data.mixture
    ]
    said = [_how_to_make(*each) for each in asked if not each[0].is_dir()]
    return "\n".join(dict.fromkeys(said)) or None


def _how_to_make(root: Path, field: str, name_of_benchmark: str, benchmark: Benchmark) -> str:
    lines = [f"prepared data: there is no folder {root} ({field}). Make it with one of"]
    for name in benchmark.sources:
        if name not in catalog.names(catalog.SOURCES):
            lines.append(f"     (the source {name}: medtune cannot prepare its files yet)")
            continue
        read_from = find_source(name)
        files = "" if read_from.provenance == "synthetic" else " --from FOLDER"
        lines.append(f"     medtune prepare {name_of_benchmark} --source {name}{files} --out {root}")
        where = "simulated, no files needed" if not files else f"FOLDER: {read_from.url}"
        lines.append(f"       {read_from.title}; {where}; licence: {read_from.licence}")
    return "\n".join(lines)


def cannot_divide(model: Model, recipe: Recipe) -> str | None:
    """Returns why a model cannot be trained under a strategy that divides the weights; None if it can, or need not."""
    if not isinstance(model, GenericVlm) or not recipe.train.divides_weights:
        return None
    return (
        f"train.strategy is {recipe.train.strategy} and {recipe.model.weights or recipe.model.name} is read by the "
        "generic entry, which makes a pass for each shape of images: the devices would make different numbers of "
        "passes and wait for one another for ever. Take train.strategy=deepspeed_stage_2"
    )


def missing_weights(recipe: Recipe, entry: ZooEntry) -> str | None:
    """Returns instructions for getting the pretrained weights; None if they are present or need no download."""
    wanted = recipe.model.weights or (entry.hub.repo_id if entry.hub else None)
    revision = recipe.model.revision
    if recipe.model.language is None:
        refuse_revision(wanted, revision)
    if wanted is not None and is_exported(wanted):
        return None
    if wanted is None and entry.folder is not None:
        return (
            f"weights: {recipe.model.name} is read from a local folder, which model.weights has to name\n"
            f"     it holds {entry.folder}: --set model.weights=/path/to/folder"
        )
    if wanted is None or kept_weights(wanted, entry.files, revision=revision) is not None:
        return None
    if entry.folder is not None:
        return f"weights: {wanted} (model.weights) is not there or not whole; it has to hold {entry.folder}"
    pinned = "" if revision is None else f" --revision {revision}"
    return (
        f"weights: {wanted} is neither a local folder nor in the hub's cache.{_terms(wanted, revision, entry)}\n"
        f"     hf download {wanted}{pinned}    where the hub can be reached, or\n"
        "     copy the folder with all its files from another machine and\n"
        "     say where: --set model.weights=/path/to/folder"
    )


def _terms(wanted: str, revision: str | None, entry: ZooEntry) -> str:
    said = terms_of(wanted, revision)
    own = entry.hub if entry.hub is not None and entry.hub.repo_id == wanted else None
    licence = said.licence if said is not None and said.licence else entry.licence if own is not None else None
    gated = said.gated if said is not None and said.gated is not None else own is not None and own.gated
    return (f" Licence: {licence}." if licence else "") + (f" {gate_advice(wanted)}" if gated else "")
