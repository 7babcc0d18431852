"""Opens the folder of a run to read its answers: without its model, and therefore without torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medtune.data.prepared.read import Prepared
from medtune.data.types import Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel, label_of
from medtune.eval.predictions.shards import stored_predictions
from medtune.trainer.experiment.prepared_data import open_with_prompts
from medtune.trainer.recipe.check import as_published, primary_parser, with_readings
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.seen import data_facts


@dataclass(frozen=True)
class FinishedRun:
    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark  # The benchmark with the prompts that the folder was prepared with.
    folder: RunFolder

    @property
    def primary_parser(self) -> str:
        """The name of the parser whose readings give the score `overall`."""
        return primary_parser(self.recipe, self.benchmark)

    @property
    def label(self) -> DataLabel:
        """The label that every output carries about the run's data."""
        return label_of(
            self.prepared.manifest, prompts=self.benchmark.wording, **self.folder.recorded_label().of_training
        )


def open_finished(root: Path, *, questions: Path | None = None) -> FinishedRun:
    """Opens a run that was started before; whether its recipe fits its data was checked when it began.

    Args:
        questions: The prepared folder of the run, if it has been moved from `data.root`; with None it is looked for.
    """
    folder = RunFolder(root)
    recipe = folder.read_recipe()
    recipe = replace(recipe, data=replace(recipe.data, root=folder.needed_data(recipe.data.root, questions=questions)))
    prepared, benchmark = open_with_prompts(
        recipe.data.root, recipe.data.benchmark, recipe.model, folds=(recipe.data.folds, recipe.data.fold)
    )
    prepared = prepared.asking(recipe.eval.split, recipe.eval.only, named_by="eval.only")
    folder.refuse_other_data(prepared.root, data_facts(prepared, (), before=folder.data_before()))
    asked = prepared.questions(recipe.eval.split)
    benchmark = benchmark.for_part(asked, drawn=answered_of(folder, asked))
    return FinishedRun(with_readings(as_published(recipe, benchmark), asked), prepared, benchmark, folder)


def answered_of(folder: RunFolder, questions: Sequence[Question]) -> Sequence[Question]:
    """Returns the questions of the split that a run was asked; all of them if it has not answered any yet."""
    ids = {key.question_id for phase in (folder.final, folder.zero_shot) for key in stored_predictions(phase)}
    return [question for question in questions if question.id in ids] if ids else questions
