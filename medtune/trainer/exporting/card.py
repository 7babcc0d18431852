"""Writes the model card of an export: results, origin, proof, readers, terms and the recipe."""

import re
from pathlib import Path

from medtune.benchmarks import find_benchmark
from medtune.eval.data_label import UNKNOWN, DataLabel
from medtune.eval.report.result_tables import gain_table
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import banner_lines, escaped, table_lines
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.weights.adapters.write import Base, usage
from medtune.models.weights.hub import terms_of
from medtune.trainer.experiment.load_model import adapter_base
from medtune.trainer.exporting.write import Written
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.recipe.schema import Recipe

_PATH = re.compile(r"(?<![\w:/.])(?:~?/|[A-Za-z]:\\)(?:[^\s'\",\[\]]*[/\\])?(?P<name>[^\s'\",\[\]/\\]+)")


def model_card(written: Written, results: RunData | None, *, label: DataLabel, folder: Path, name: str) -> str:
    """Returns the model card in Markdown. Of paths on this machine it has the last name only.

    Args:
        written: What was exported.
        results: The results of the run; None where it was not evaluated.
        label: The label of the run's data.
        folder: The folder as it is written.
        name: The name that the folder will have.
    """
    recipe = written.recipe
    benchmark, entry = find_benchmark(recipe.data.benchmark), zoo_entry(recipe.model.name, recipe.model.weights)
    base = adapter_base(recipe)
    is_adapter = (folder / "adapter_config.json").is_file()
    lines = [
        *_front_matter(written, base, is_adapter=is_adapter),
        f"# {escaped(name)}",
        "",
        f"{escaped(entry.title)}, tuned with medtune on {escaped(benchmark.title)}. For research only; it is no "
        "medical device, and no decision about a patient may be based on its replies.",
        "",
        *banner_lines(label.banners()),
        "## Results",
        "",
        *_results(results),
        "## Proof",
        "",
        *_proof(written),
        "",
        "## Who reads it",
        "",
        *(f"- {escaped(line)}" for line in written.read_by),
        "",
        "## Where it comes from",
        "",
        f"- base model: {escaped(without_paths(base.name))}, revision {base.revision or 'not pinned'}",
        *(f"- {group}: {escaped(without_paths(text))}" for group, text in written.provenance.items()),
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
        *_use(written, base, folder, is_adapter=is_adapter),
        "",
        "## Recipe",
        "",
        *(f"    {line}" for line in without_paths(recipe_to_yaml(recipe)).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def without_paths(text: str) -> str:
    """Returns a text in which each absolute path is replaced by its last name.

    Example:
        >>> without_paths("root: /home/ann/data/busi, weights: Qwen/Qwen2.5-VL-7B-Instruct")
        'root: busi, weights: Qwen/Qwen2.5-VL-7B-Instruct'
    """
    return _PATH.sub(lambda found: found["name"], text)


def _front_matter(written: Written, base: Base, *, is_adapter: bool) -> list[str]:
    is_local = Path(base.name).is_absolute() or Path(base.name).is_dir()
    hub = [f"base_model: {base.name}"] if base.name.count("/") == 1 and not is_local else []
    relation = [f"base_model_relation: {'adapter' if is_adapter else 'finetune'}"] if hub else []
    library = "medtune" if not written.is_plain else "peft" if is_adapter else "transformers"
    return ["---", f"library_name: {library}", *hub, *relation, "tags: [medical, vision-language]", "---", ""]


def _results(run: RunData | None) -> list[str]:
    if run is None:
        return ["None: the run was not evaluated.", ""]
    return [
        f"{escaped(run.results.benchmark)} {escaped(run.results.benchmark_version)}, "
        f"split {escaped(str(run.setting('eval', 'split')))}; prompts: {escaped(run.label.prompts)}.",
        "",
        *table_lines(gain_table(run)),
    ]


def _proof(written: Written) -> list[str]:
    if written.proof is None:
        return [
            "Not proven: the folder was written without being compared with the trained model (`--no-proof`). "
            f"Its weights are {written.dtype}."
        ]
    return [f"- {escaped(sentence)}" for sentence in written.proof.sentences()]


def _use(written: Written, base: Base, folder: Path, *, is_adapter: bool) -> list[str]:
    name = written.recipe.model.name
    if is_adapter:
        shown = Base(without_paths(base.name), base.revision)
        return [
            *usage(shown, folder).splitlines()[2:],
            f"    medtune eval RECIPE --set model.name={name} model.adapter=THIS_FOLDER",
        ]
    return [f"    medtune eval RECIPE --set model.name={name} model.weights=THIS_FOLDER"]


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
    where = recipe.model.weights
    if where is None or (entry.hub is not None and where == entry.hub.repo_id):
        return entry.licence
    terms = terms_of(where, recipe.model.revision)
    if terms is not None and terms.licence is not None:
        return terms.licence
    return f"that of {recipe.model.name} is {entry.licence}; the card of the weights that it was made from names none"
