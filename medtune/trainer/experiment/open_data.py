"""Opens the data of a recipe: the prepared folder, its benchmark and the training sets, and checks that they fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medtune.data.prepared.read import Prepared
from medtune.data.types import Question, Split
from medtune.eval.asking.conditions import CONDITIONS, check_conditions
from medtune.eval.benchmark import Benchmark
from medtune.trainer.experiment.evaluation_only import whole_test
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.experiment.prepared_data import limited
from medtune.trainer.recipe.published_protocol import as_published, primary_parser, with_readings
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.mixture import TrainingSet, open_training_sets
from medtune.trainer.training.validation.watched import check_early_stopping


@dataclass(frozen=True, slots=True)
class _Asked:
    split: Split
    questions: Sequence[Question]
    drawn_by: str

    @property
    def name(self) -> str:
        drawn = f" that {self.drawn_by} draws" if self.drawn_by else ""
        return f"the {len(self.questions):,} questions of the split {self.split!r}{drawn}"


def check_scored(
    recipe: Recipe, prepared: Prepared, benchmark: Benchmark, *, parser: str, training: bool, limit: int | None
) -> None:
    """Refuses a recipe whose answers would have no primary score: at the end, or in a validation during training.

    Args:
        recipe: The recipe, with the readings that it asks for.
        prepared: The folder with the questions; no split that is needed is empty.
        benchmark: The benchmark for the questions of the evaluated split.
        parser: The parser whose answers the primary score counts.
        training: Whether the model is trained, and therefore validated.
        limit: About how many questions of each split are used; None uses all.
    """
    options, seed = recipe.eval, recipe.train.seed
    asked = [_drawn(prepared, options.split, options.questions, "eval.questions", limit=limit, seed=seed)]
    if training:
        asked.append(_drawn(prepared, "val", options.val_questions, "eval.val_questions", limit=limit, seed=seed))
    for each in asked:
        covered = [question for question in each.questions if benchmark.primary_metric.covers(question)]
        if not covered:
            way = "Raise that number" if each.drawn_by else "Prepare the folder so that each split has some"
            raise ValueError(
                f"{prepared.root}: none of {each.name} is one that the primary metric {benchmark.primary!r} is about. "
                f"{way}"
            )
        _check_parser(recipe, covered, parser, each)
        if training and each.split == "val" and _waits_for_judge(benchmark, covered):
            raise ValueError(
                f"{prepared.root}: the primary metric {benchmark.primary!r} of all of {each.name} needs a judge, who "
                "has no part in training, so that no checkpoint could be chosen. Put questions with options into the "
                "split val, or train with another benchmark"
            )


def _check_parser(recipe: Recipe, covered: Sequence[Question], parser: str, asked: _Asked) -> None:
    readings = recipe.eval.known_readings
    named = f"eval.parser is {parser!r}" if recipe.eval.parser else f"the primary parser is {parser!r}"
    has_options = [bool(question.options) for question in covered]
    if parser.startswith("likelihood"):
        if "likelihood" not in readings:
            raise ValueError(f"{named} and eval.readings is {list(readings)}: add likelihood to the readings")
        if not any(has_options):
            raise ValueError(
                f"{named} and eval.readings is {list(readings)}, but none of {asked.name} that count has options whose "
                "likelihood could be read. Set eval.readings=[generation], or leave it out"
            )
    elif "generation" not in readings and any(has_options):
        raise ValueError(
            f"{named}, which reads replies, and eval.readings is {list(readings)}, so that questions with options "
            "would have none and count as wrong: add generation to the readings, or leave eval.parser out"
        )


def _waits_for_judge(benchmark: Benchmark, covered: Sequence[Question]) -> bool:
    judging = benchmark.judging
    return judging is not None and all(judging.is_needed(question) for question in covered)


def _drawn(
    prepared: Prepared, split: Split, questions: int | None, field: str, *, limit: int | None, seed: int
) -> _Asked:
    wanted = [(number, name) for number, name in ((limit, "--limit"), (questions, field)) if number is not None]
    everything = prepared.questions(split)
    least, drawn_by = min(wanted, default=(len(everything), ""))
    if least >= len(everything):
        return _Asked(split, everything, "")
    groups = limited(prepared.groups(split), questions=least, seed=seed)
    return _Asked(split, [question for group in groups for question in group.questions], drawn_by)


class OpenedData(NamedTuple):
    """The opened data of a recipe.

    Attributes:
        recipe: The recipe, with the benchmark's published protocol filled in if it asks for that, and with readings
            that fit the questions.
        prepared: The prepared folder that is evaluated on.
        benchmark: The benchmark with the prompts that the folder was prepared with.
        training_sets: The prepared folders that the model is trained on; empty if nothing is trained.
    """

    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark
    training_sets: Sequence[TrainingSet]


def open_data(recipe: Recipe, *, training: bool, limit: int | None = None) -> OpenedData:
    """Opens the prepared folder that a recipe evaluates on and, if `training` is set, its training sets.

    No model is loaded.

    Args:
        recipe: The recipe.
        training: Whether the model is trained.
        limit: About how many questions of each split are used; None uses all.
    """
    prepared, benchmark = open_for_model(recipe.data.root, recipe.data.benchmark, recipe.model)
    asked = prepared.questions(recipe.eval.split)
    benchmark = benchmark.for_part(asked)
    recipe = with_readings(as_published(recipe, benchmark), asked)
    check_fit(recipe, prepared, benchmark, training=training)
    parser = primary_parser(recipe, benchmark)
    check_scored(recipe, prepared, benchmark, parser=parser, training=training, limit=limit)
    if training:
        check_early_stopping(recipe, benchmark)
    training_sets = open_training_sets(recipe, prepared, benchmark) if training else ()
    return OpenedData(recipe, prepared, benchmark, training_sets)


def check_fit(recipe: Recipe, prepared: Prepared, benchmark: Benchmark, *, training: bool) -> None:
    """Refuses a recipe whose settings do not fit its prepared folder and benchmark.

    Checked are the answer format, the parser, the conditions, and that no needed split is empty. Training needs the
    splits train and val; with a mixture, train comes from the mixture.
    """
    official = benchmark.official if prepared.templates is not None else None
    if official is not None and official.answer_format != recipe.model.answer_format:
        raise ValueError(
            f"{prepared.root} holds {official.of} prompts, which ask for an answer as {official.answer_format}; "
            f"model.answer_format is {recipe.model.answer_format}"
        )
    known = [*benchmark.parsers, "likelihood", "likelihood_per_token"]
    if primary_parser(recipe, benchmark) not in known:
        raise ValueError(f"eval.parser is {recipe.eval.parser!r}; there are: {', '.join(known)}")
    learnt: tuple[Split, ...] = ("val",) if recipe.data.mixture else ("train", "val")
    needed: tuple[Split, ...] = (*learnt, recipe.eval.split) if training else (recipe.eval.split,)
    for split in needed:
        if prepared.num_questions(split) == 0:
            why = whole_test(prepared) or "Prepare the folder with more patients"
            otherwise = "To evaluate only, use `medtune eval`" if training else "Or choose another eval.split"
            raise ValueError(f"{prepared.root}: the split {split!r} is empty. {why}. {otherwise}")
    if set(recipe.eval.conditions) - set(CONDITIONS):
        check_conditions(prepared.groups(recipe.eval.split), benchmark, recipe.eval.conditions)
