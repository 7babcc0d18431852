"""Says what each row of a study needs, without fetching anything: data, weights, prompts, memory, cards and costs."""

import os
from collections.abc import Iterator
from pathlib import Path

from medtune.benchmarks import find_source
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import zoo_entry
from medtune.models.endpoint.settings import Endpoint
from medtune.trainer.experiment.open_data import missing_weights
from medtune.trainer.plan.devices import GB, Devices
from medtune.trainer.plan.plan import Planner, Sizes
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.studies.study import FULL, OpenedStudy, StudyRow, StudySet, data_given, recipe_of

CARDS_GB = (24.0, 48.0, 80.0, 141.0)
"""The memory of usual cards, in GB."""
_SIXTEEN_BITS = 2


def requirements_text(opened: OpenedStudy, *, data: Path | None) -> str:
    """Returns what each row needs, as text. The memory is that before anything passes through the model."""
    lines = [f"{opened.title}", f"scale {opened.scale}, {len(opened.rows)} rows, {opened.study.seeds} runs each", ""]
    if len(opened.sets) > 1:
        lines += [
            "every row is asked",
            *(f"  {each.benchmark.title}: {said}" for each, said in _sets_with_data(opened, data)),
            "",
        ]
    for row in opened.rows:
        compared = f", compared with {row.published}" if row.published not in (None, row.name) else ""
        lines += [f"{row.name}{compared}", *(f"  {name:<9}{said}" for name, said in _of_row(opened, row, data)), ""]
    for each in opened.sets:
        of = f" of {each.benchmark.title}" if len(opened.sets) > 1 else ""
        lines += [f"licence of the questions and media{of}: {each.benchmark.licence}"]
        lines += [f"prompts{of}: {_prompts(each.benchmark)}"]
    lines += [
        f"published cells of {name}: read from its own release in {kit}, {'here' if kit.is_dir() else 'not here'}"
        for name, kit in opened.study.kits.items()
    ]
    if opened.scale == FULL:
        lines += [f"no row fills {name}: {why}" for name, why in opened.study.left_out.items()]
        lines += [f"to fetch: {opened.study.fetch}"]
    return "\n".join(lines)


def _prompts(benchmark: Benchmark) -> str:
    if benchmark.official is None:
        return "ours; none are published that medtune can read"
    return "the official ones, read from the benchmark's own files (`medtune prepare --prompts`), else ours"


def _of_row(opened: OpenedStudy, row: StudyRow, data: Path | None) -> Iterator[tuple[str, str]]:
    if row.recipe is None:
        paths = [path for each in row.predictions.values() for path in each] or [path for path in (row.masks,) if path]
        there = "here" if all(path.exists() for path in paths) else "not here"
        if len(opened.sets) == 1:
            yield from (("data", said) for _, said in _sets_with_data(opened, data))
        yield "answers", f"{'masks' if row.masks else 'predictions'} in {', '.join(map(str, paths))}: {there}"
        return
    yield "recipe", str(row.recipe)
    recipe = recipe_of(opened, row, opened.sets[0])
    if len(opened.sets) == 1:
        yield "data", _data_said(opened, opened.sets[0], data or recipe.data.root)
    if recipe.model.endpoint is not None:
        yield from _of_server(recipe.model.endpoint)
        return
    yield from _of_model(recipe)


def _of_server(served: Endpoint) -> Iterator[tuple[str, str]]:
    """Yields the name of a served model, where it is asked and with which key, and what that may cost."""
    yield "served", f"{served.model} at {served.base_url}"
    key = served.key_env
    if key is None:
        yield "key", "none is sent"
    else:
        yield "key", f"in the variable {key}, which is {'set' if os.environ.get(key) else 'not set here'}"
    if not served.has_prices:
        yield (
            "costs",
            "no price is set: the server is free, or give usd_per_million_input_tokens, its twin for output, max_usd",
        )
        return
    prices = f"{served.usd_per_million_input_tokens:g} USD for a million tokens sent, "
    prices += f"{served.usd_per_million_output_tokens:g} USD for a million answered"
    cap = "no cap" if served.max_usd is None else f"at most {served.max_usd:g} USD (model.endpoint.max_usd)"
    yield "costs", f"{cap}; {prices}"


def _sets_with_data(opened: OpenedStudy, data: Path | None) -> Iterator[tuple[StudySet, str]]:
    for each in opened.sets:
        yield each, _data_said(opened, each, data_given(opened, each, data) or each.data)


def _data_said(opened: OpenedStudy, of: StudySet, root: Path) -> str:
    if opened.simulated is not None:
        return f"simulated by {opened.simulated.source}, no files needed"
    if root.is_dir():
        return f"{root}, here"
    sources = [find_source(name) for name in of.benchmark.sources]
    source = next((each for each in sources if each.provenance != "synthetic"), sources[0])
    return f"{root}: not here; {source.title}, {source.url}, licence: {source.licence}"


def _of_model(recipe: Recipe) -> Iterator[tuple[str, str]]:
    entry = zoo_entry(recipe.model.name, recipe.model.weights)
    missing = missing_weights(recipe, entry)
    yield "weights", f"{entry.title}; licence: {entry.licence}; {'not here' if missing else 'here'}"
    cards, named = recipe.train.world_size, recipe.model.weights
    if named is not None and not Path(named).is_dir() and not (entry.hub and entry.hub.repo_id == named):
        yield "size", f"that of {named}, whose configuration is not here; the run needs {cards} card(s)"
        return
    try:
        least_gb = Planner(entry, Sizes()).least(recipe, Devices(cards, "card", CARDS_GB[-1])) / GB
        parameters = sum(each.numel() for each in entry.skeleton(recipe.model).parameters())
    except (OSError, ValueError) as error:
        yield "memory", f"not known before the configuration is here: {error}"
        return
    fitting = next((f"; a card of {card:.0f} GB" for card in CARDS_GB if card > least_gb), "; no usual card")
    yield "size", f"{parameters / 1e9:.2f} billion parameters, {parameters * _SIXTEEN_BITS / GB:.1f} GB in 16 bits"
    yield "memory", f"{cards} x at least {least_gb:.1f} GB{fitting}"
