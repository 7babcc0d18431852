"""`medtune export`: writes a run's model into a folder of its own, with merged adapters and a model card."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from medtune.benchmarks import find_benchmark
from medtune.eval.data_label import UNKNOWN, DataLabel
from medtune.eval.report.markdown import banner_lines, escaped, table_lines
from medtune.eval.report.result_tables import gain_table
from medtune.eval.report.run_data import RunData, read_run
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.weights.export import merge_adapters, write_exported
from medtune.models.weights.hub import terms_of
from medtune.trainer.experiment.load_model import load_as_left
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe

CARD = "README.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune export`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="The run folder whose model is exported.")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="The folder to write, which must be empty or new."
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune export`: writes the run's model and returns 0.

    Raises:
        FileExistsError: The folder to write is not empty.
        FileNotFoundError: The run or its weights are missing.
        ValueError: The weights do not fit the recipe, or a file of the run is broken.
    """
    return export_run(options.run, options.out)


def export_run(root: Path, out: Path) -> int:
    """Writes the model of a run into `out`, prints how to load it and returns 0.

    Raises:
        FileExistsError: `out` is not empty.
        FileNotFoundError: The run or its weights do not exist.
        ValueError: The weights do not fit the recipe, or a file of the run is broken.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} is not empty; name another folder with --out")
    folder = RunFolder(root)
    recipe, assembled = load_as_left(folder, torch.device("cpu"))
    label = folder.recorded_label()
    num_merged = merge_adapters(assembled.model)
    results = read_run(root) if folder.results.is_file() else None
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        write_exported(
            assembled,
            unfinished,
            name=recipe.model.name,
            base_weights=recipe.model.weights,
            about=label.facts(),
        )
        entry = zoo_entry(recipe.model.name, recipe.model.weights)
        card = model_card(recipe, entry, results, label=label, provenance=assembled.provenance, name=out.name)
        (unfinished / CARD).write_text(card, "utf-8")
        if out.exists():
            out.rmdir()
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    size_mb = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    print(f"{out}: {num_merged} adapters merged, {size_mb:.0f} MB")
    print(f"load it with: --set model.name={recipe.model.name} model.weights={out}")
    return 0


def model_card(
    recipe: Recipe,
    entry: ZooEntry,
    results: RunData | None,
    *,
    label: DataLabel,
    provenance: dict[str, str],
    name: str,
) -> str:
    """Returns the model card in Markdown: a description, the results, the origin of the parts, and the terms of use."""
    benchmark = find_benchmark(recipe.data.benchmark)
    lines = [
        "---",
        "library_name: medtune",
        "tags: [medical, vision-language]",
        "---",
        "",
        f"# {escaped(name)}",
        "",
        f"{escaped(entry.title)}, tuned with medtune on {escaped(benchmark.title)}. For research only; it is no "
        "medical device, and no decision about a patient may be based on its replies.",
        "",
        *banner_lines(label.banners()),
        "## Results",
        "",
        *_results(results),
        "## Where it comes from",
        "",
        *(f"- {group}: {escaped(text)}" for group, text in provenance.items()),
        *_origin(results),
        "",
        "## Terms",
        "",
        f"- Weights that it was made from: {escaped(_licence(recipe, entry))}",
        f"- Data that it was tuned on: {escaped(benchmark.licence)}. Find out what this licence asks of a model that "
        "was tuned on the data before you pass the model on.",
        "- The weights may reveal parts of the data that they were tuned on.",
        "",
        "## Use",
        "",
        f"    medtune eval RECIPE --set model.name={recipe.model.name} model.weights=THIS_FOLDER",
        "",
        "## Recipe",
        "",
        *(f"    {line}" for line in recipe_to_yaml(recipe).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _results(run: RunData | None) -> list[str]:
    if run is None:
        return ["None: the run was not evaluated.", ""]
    return [
        f"{escaped(run.results.benchmark)} {escaped(run.results.benchmark_version)}, "
        f"split {escaped(str(run.setting('eval', 'split')))}; prompts: {escaped(run.label.prompts)}.",
        "",
        *table_lines(gain_table(run)),
    ]


def _origin(run: RunData | None) -> list[str]:
    if run is None:
        return []
    known = {"medtune": run.environment.medtune, "git_commit": run.environment.git_commit}
    versions = ", ".join(f"{name} {version}" for name, version in known.items() if version)
    return [
        f"- recipe: {escaped(run.results.recipe or UNKNOWN)}; {versions}",
        f"- data hash: {escaped(run.results.data_hash)}",
    ]


def _licence(recipe: Recipe, entry: ZooEntry) -> str:
    """Returns the licence of the weights, which are the zoo's or those that the recipe names."""
    where = recipe.model.weights
    if where is None or (entry.hub is not None and where == entry.hub.repo_id):
        return entry.licence
    terms = terms_of(where, recipe.model.revision)
    if terms is not None and terms.licence is not None:
        return terms.licence
    return f"that of {recipe.model.name} is {entry.licence}; the card of the weights that it was made from names none"
