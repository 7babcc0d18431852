"""Evaluates the model of a run on servers: exports it, starts them, compares their answers, and asks the questions."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from medtune.data.types import MediaGroup, Prediction, Reading
from medtune.eval.asking.answerer import Answerer
from medtune.models.assemble import zoo_entry
from medtune.models.server.addresses import Addresses
from medtune.models.server.answering import Layouts, ServerAnswerer
from medtune.models.server.engines import ServedDtype
from medtune.models.server.process import serving
from medtune.models.transformers_vlm.families import find_family
from medtune.trainer.engine.agreement import COMPARED_QUESTIONS, Agreement, agreement
from medtune.trainer.engine.kept_export import kept_export
from medtune.trainer.engine.record import EngineRecord, refuse_other_answers, write_record
from medtune.trainer.engine.settings import EngineSettings
from medtune.trainer.experiment.asked_model import AskedModel, LoadedModel
from medtune.trainer.experiment.evaluate import answer_groups, tested_groups
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import load_model
from medtune.trainer.experiment.prepared_data import limited
from medtune.trainer.experiment.run import evaluate
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.experiment.write_json import write_json
from medtune.trainer.recipe.schema import Recipe

FOLDER = "engine"
"""The folder in the run folder with the compared answers and the output of the servers."""


@dataclass(frozen=True, slots=True)
class ModelOnServers:
    """A run's model on servers, as an `AskedModel`.

    Attributes:
        experiment: The experiment that asks.
        settings: How the model is served.
        servers: The servers.
        layouts: Writes requests as the servers are sent them.
        provenance: Where the weights and the answers come from.
    """

    experiment: Experiment
    settings: EngineSettings
    servers: Addresses
    layouts: Layouts
    provenance: Mapping[str, str]

    @contextmanager
    def answering(self) -> Iterator[Answerer]:
        """Returns a context that gives an answerer which asks the servers."""
        with self.answerer() as answerer:
            yield answerer

    def answerer(self) -> ServerAnswerer:
        """Returns the answerer."""
        most = self.experiment.recipe.eval.max_new_tokens
        return ServerAnswerer(self.settings.engine.name, self.layouts, self.servers, max_new_tokens=most)

    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns an empty mapping, because the vision tower is on the servers."""
        return {}


def refuse_recipe(recipe: Recipe, settings: EngineSettings) -> None:
    """Refuses, before anything is read, a recipe whose model no server answers for.

    Raises:
        ValueError: The engine does not serve the model, or replies would be drawn.
    """
    entry = zoo_entry(recipe.model.name, recipe.model.weights)
    types = find_family(entry.family).model_types if entry.family else (None,)
    settings.engine.refuse_model(types[0], model=recipe.model.name)
    if recipe.eval.temperature != 0:
        raise ValueError(
            f"eval.temperature is {recipe.eval.temperature:g}: a server draws other replies than this process, so that "
            "they could not be compared; set eval.temperature=0, or leave --engine out"
        )


def evaluate_on_servers(
    experiment: Experiment,
    run: RunFolder,
    settings: EngineSettings,
    export: Callable[[Path, Path], object],
    *,
    resume: bool,
) -> int:
    """Evaluates a run's model on servers and returns the exit status.

    Args:
        experiment: The evaluation, with the run's trained weights as its model.checkpoint.
        run: The run whose model is served.
        settings: How it is served.
        export: Writes the merged model of a run folder into a new folder.
        resume: Whether `experiment.folder` holds an evaluation to continue.

    Raises:
        ServerError: A server refused, read other tokens or gave no usable number, or none is left.
        ValueError: The servers do not start, do not answer like the model in this process, or the evaluation that is
            continued was begun with another engine or other weights.
    """
    exported = kept_export(run, export)
    experiment.say(f"export     {exported}")
    if resume:
        refuse_other_answers(experiment.folder.root, engine=settings.engine.name, weights=exported.name)
    dtype = served_dtype(experiment.recipe)
    record = EngineRecord(settings.engine.name, exported.name, dtype, {})
    write_record(experiment.folder.root, record)
    layouts, provenance, local = _local_answers(experiment, exported)
    with ExitStack() as stack:
        servers = stack.enter_context(_opened(experiment, settings, exported, dtype, layouts))
        model = ModelOnServers(experiment, settings, servers, layouts, provenance)
        with model.answerer() as asked:
            versions = {address: asked.protocol.version(address) for address in servers.all}
        found = _compared(experiment, model, local, dtype)
        write_record(experiment.folder.root, replace(record, versions=versions, agreement=found))
        origin = f"{settings.engine.title} {', '.join(sorted(set(versions.values())))}, {dtype}"
        said = f"{origin}; compared with the model in this process on {found.questions} questions: {found.text(dtype)}"
        experiment.say(f"answers    {said}")
        model = replace(model, provenance={**provenance, "answers": said})
        write_json(experiment.folder.weights, model.provenance)
        return evaluate(experiment, model)


def served_dtype(recipe: Recipe) -> ServedDtype:
    """Returns the number format that a server has to compute in to answer as this process does."""
    if recipe.model.dtype != "float32":
        return recipe.model.dtype
    narrow: dict[str, ServedDtype] = {"bf16-mixed": "bfloat16", "16-mixed": "float16"}
    return narrow.get(recipe.train.precision, "float32")


def _local_answers(experiment: Experiment, exported: Path) -> tuple[Layouts, Mapping[str, str], list[Prediction]]:
    """Returns the layouts of the model, the origin of its weights, and its own answers; the model is freed again."""
    if experiment.recipe.model.language_bits is not None:
        # Servers get the merged weights in 16 bits or more, and not the quantised ones that were trained on.
        block = replace(
            experiment.recipe.model,
            weights=str(exported),
            revision=None,
            adapter=None,
            checkpoint=None,
            language_bits=None,
        )
        experiment = replace(experiment, recipe=replace(experiment.recipe, model=block))
    model = load_model(experiment, experiment.recipe.model.checkpoint)
    if not isinstance(model, LoadedModel):
        raise ValueError("the model of the run is behind an endpoint already")
    layouts, provenance = Layouts(model.assembled), dict(model.provenance)
    answers = _answers(experiment, model, "local")
    del model
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return layouts, provenance, answers


def _compared(
    experiment: Experiment, model: ModelOnServers, local: Sequence[Prediction], dtype: ServedDtype
) -> Agreement:
    found = agreement(local, _answers(experiment, model, "served"))
    found.refuse(dtype)
    return found


def _answers(experiment: Experiment, model: AskedModel, where: str) -> list[Prediction]:
    """Returns the answers to the compared questions; log-probabilities are compared whatever the recipe reads."""
    readings: tuple[Reading, ...] = tuple(dict.fromkeys((*experiment.recipe.eval.known_readings, "likelihood")))
    return answer_groups(
        experiment,
        model,
        limited(tested_groups(experiment), questions=COMPARED_QUESTIONS, seed=experiment.recipe.train.seed),
        out_dir=experiment.folder.root / FOLDER / where,
        readings=readings,
        conditions=("image",),
        title=f"compare ({where})",
    )


@contextmanager
def _opened(
    experiment: Experiment, settings: EngineSettings, exported: Path, dtype: ServedDtype, layouts: Layouts
) -> Iterator[Addresses]:
    """Opens the servers, which are started where the settings name none."""
    if settings.addresses or settings.python is None:
        with Addresses(settings.addresses, say=experiment.say) as servers:
            yield servers
        return
    python = settings.python
    pictures = max(layouts.num_pictures(group.media) for group in tested_groups(experiment))

    def command(port: int) -> list[str]:
        return settings.engine.command(
            python, exported, port=port, dtype=dtype, pictures=pictures, further=settings.further
        )

    with (
        serving(
            command,
            devices=settings.devices,
            log_folder=experiment.folder.root / FOLDER,
            patience_s=settings.patience_s,
            say=experiment.say,
        ) as started,
        Addresses(
            [each.address for each in started],
            say=experiment.say,
            last_words={each.address: each.last_lines for each in started},
        ) as servers,
    ):
        yield servers
