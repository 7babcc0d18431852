"""Opens the data of a recipe: the prepared folder, its benchmark and the training sets, and checks that they fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from medtune.benchmarks import OWN_QUESTIONS, find_benchmark, find_source
from medtune.data import catalog
from medtune.data.prepared.manifest import near_folder
from medtune.data.prepared.read import Prepared
from medtune.data.types import Question, Split
from medtune.eval.asking.conditions import CONDITIONS, check_conditions
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import ZooEntry
from medtune.models.contract import Model
from medtune.models.weights.export import is_exported
from medtune.models.weights.hub import gate_advice, kept_weights, refuse_revision, terms_of
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.experiment.prepared_data import limited, whole_test
from medtune.trainer.recipe.check import as_published, judge_at, primary_parser, with_readings
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.training.mixture import TrainingSet, begins_with_words, lessons_of, open_training_sets
from medtune.trainer.training.stages import check_early_stopping, with_counted_epochs

LEAST_THOUGHT = 256
"""The smallest length of a reply, in tokens, that begins with a thought; the value is our own choice."""


@dataclass(frozen=True, slots=True)
class _SplitQuestions:
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
        parser: The parser whose answers the primary score counts.
    """
    options, seed = recipe.eval, recipe.train.seed
    judgeless = training and judge_at(options, "val") is None
    asked = [_drawn(prepared, options.split, options.questions, "eval.questions", limit=limit, seed=seed)]
    if training:
        asked.append(_drawn(prepared, "val", options.val_questions, "eval.val_questions", limit=limit, seed=seed))
    for each in asked:
        metric = benchmark.primary_metric
        covered = [question for question in each.questions if metric.covers(question)]
        if not covered:
            way = "Raise that number" if each.drawn_by else "Prepare the folder so that each split has some"
            raise ValueError(
                f"{prepared.root}: none of {each.name} is one that the primary metric {benchmark.primary!r} is about. "
                f"{way}"
            )
        if not metric.is_defined_on(each.questions):
            way = "Raise that number" if each.drawn_by else "Prepare the folder so that each split has all parts"
            raise ValueError(
                f"{prepared.root}: the primary metric {benchmark.primary!r} is made of several parts, of which "
                f"{each.name} lack some. {way}"
            )
        _check_parser(recipe, covered, parser, each)
        if judgeless and each.split == "val" and _waits_for_judge(benchmark, covered):
            raise ValueError(
                f"{prepared.root}: the primary metric {benchmark.primary!r} of all of {each.name} needs a judge, who "
                "has no part in validations, so that no checkpoint could be chosen. Give eval.judge with "
                "eval.judge_at=[zero_shot,val,final], put questions with options into the split val, or train with "
                "another benchmark"
            )


def _check_parser(recipe: Recipe, covered: Sequence[Question], parser: str, asked: _SplitQuestions) -> None:
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
) -> _SplitQuestions:
    wanted = [(number, name) for number, name in ((limit, "--limit"), (questions, field)) if number is not None]
    everything = prepared.questions(split)
    least, drawn_by = min(wanted, default=(len(everything), ""))
    if least >= len(everything):
        return _SplitQuestions(split, everything, "")
    groups = limited(prepared.groups(split), questions=least, seed=seed)
    return _SplitQuestions(split, [question for group in groups for question in group.questions], drawn_by)


class OpenedData(NamedTuple):
    # The recipe, with the benchmark's published protocol filled in if it asks for that, and with readings that fit the
    # questions.
    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark  # The benchmark with the prompts that the folder was prepared with.
    # The prepared folders that the model is trained on; empty if nothing is trained.
    training_sets: Sequence[TrainingSet]


def open_data(recipe: Recipe, *, training: bool, limit: int | None = None) -> OpenedData:
    """Opens the prepared folder that a recipe evaluates on and, if `training` is set, its training sets.

    No model is loaded.
    """
    prepared, benchmark = open_for_model(
        recipe.data.root, recipe.data.benchmark, recipe.model, folds=(recipe.data.folds, recipe.data.fold)
    )
    return fitted(recipe, prepared, benchmark, training=training, limit=limit)


def fitted(
    recipe: Recipe, prepared: Prepared, benchmark: Benchmark, *, training: bool, limit: int | None = None
) -> OpenedData:
    """Returns a recipe and an opened folder with what follows for them from each other, after checking that they fit.

    The benchmark is then that of the questions which are asked, and the readings are those that these have.
    """
    options = recipe.eval
    prepared = prepared.asking(options.split, options.only, named_by="eval.only")
    asked = prepared.questions(options.split)
    drawn = _drawn(prepared, options.split, options.questions, "", limit=limit, seed=recipe.train.seed)
    benchmark = benchmark.for_part(asked, drawn=drawn.questions)
    recipe = with_readings(as_published(recipe, benchmark), asked)
    check_fit(recipe, prepared, benchmark, training=training)
    parser = primary_parser(recipe, benchmark)
    check_scored(recipe, prepared, benchmark, parser=parser, training=training, limit=limit)
    training_sets = open_training_sets(recipe, prepared, benchmark) if training else ()
    if training:
        counted = with_counted_epochs(recipe, [each.prepared for each in training_sets], limit=limit)
        check_early_stopping(counted, benchmark)
    if training and begins_with_words(recipe):
        lessons_of(recipe, training_sets, limit=limit)
    return OpenedData(recipe, prepared, benchmark, training_sets)


def check_fit(recipe: Recipe, prepared: Prepared, benchmark: Benchmark, *, training: bool) -> None:
    """Refuses a recipe whose settings do not fit its prepared folder and benchmark.

    Checked are the answer format, the parser, the conditions, and that no needed split is empty. Training needs the
    splits train and val; with a mixture, train comes from the mixture.
    """
    _check_thinking(recipe, training=training)
    if training and recipe.data.folds is not None and recipe.data.fold is None:
        raise ValueError(
            f"data.folds is {recipe.data.folds}: `medtune run` trains once for each fold; to train one of them alone, "
            "set data.fold=1"
        )
    official = benchmark.official if prepared.templates is not None else None
    if official is not None and official.answer_format != recipe.model.answer_format:
        raise ValueError(
            f"{prepared.root} holds {official.of} prompts, which ask for an answer as {official.answer_format}; "
            f"model.answer_format is {recipe.model.answer_format}"
        )
    known = [*benchmark.parsers, "likelihood", "likelihood_per_token"]
    if primary_parser(recipe, benchmark) not in known:
        raise ValueError(f"eval.parser is {recipe.eval.parser!r}; there are: {', '.join(known)}")
    by = benchmark.facets_of(prepared.questions(recipe.eval.split)) if recipe.log.facets else ()
    if unknown := sorted({*recipe.log.facets} - {*by}):
        raise ValueError(f"log.facets names {unknown[0]!r}, by which there are no scores; there are: {', '.join(by)}")
    learnt: tuple[Split, ...] = ("val",) if recipe.data.mixture else ("train", "val")
    needed: tuple[Split, ...] = (*learnt, recipe.eval.split) if training else (recipe.eval.split,)
    for split in needed:
        if prepared.num_questions(split) == 0:
            why = whole_test(prepared) or "Prepare the folder with more patients"
            otherwise = "To evaluate only, use `medtune eval`" if training else "Or choose another eval.split"
            raise ValueError(f"{prepared.root}: the split {split!r} is empty. {why}. {otherwise}")
    if set(recipe.eval.conditions) - set(CONDITIONS):
        check_conditions(prepared.groups(recipe.eval.split), benchmark, recipe.eval.conditions)


def _check_thinking(recipe: Recipe, *, training: bool) -> None:
    if recipe.model.thinking != "on":
        return
    if training:
        raise ValueError(
            "model.thinking is on: the answers of the data have no thoughts, so that training would teach to close a "
            "thought at once. Train with model.thinking=off, or with keep to learn the template's own empty thought; "
            "`medtune eval` takes on"
        )
    if "generation" in recipe.eval.known_readings and recipe.eval.max_new_tokens < LEAST_THOUGHT:
        raise ValueError(
            f"model.thinking is on and eval.max_new_tokens {recipe.eval.max_new_tokens}: replies would be cut within "
            f"their thoughts. Set eval.max_new_tokens=1024, or at least {LEAST_THOUGHT}"
        )


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
    own = root if name_of_benchmark == OWN_QUESTIONS else "prepared/mine"
    lines = [
        f"prepared data: there is no folder {root} ({field}){near_folder(root)} Correct the path, or make it with:",
        f"     medtune prepare {OWN_QUESTIONS} --from data.csv --images FOLDER --out {own}",
        "       your own table, or a folder of images: docs/your_data.md",
    ]
    if name_of_benchmark != OWN_QUESTIONS:
        lines[-1] += f"; then --set data.benchmark={OWN_QUESTIONS} data.root={own}"
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
    if not recipe.train.divides_weights:
        return None
    from medtune.models.transformers_vlm.generic.model import GenericVlm

    if not isinstance(model, GenericVlm):
        return _cannot_gather(model, recipe)
    return (
        f"train.strategy is {recipe.train.strategy} and {recipe.model.weights or recipe.model.name} is read by the "
        "generic entry, which makes a pass for each shape of images: the devices would make different numbers of "
        "passes and wait for one another for ever. Take train.strategy=deepspeed_stage_2"
    )


def _cannot_gather(model: Model, recipe: Recipe) -> str | None:
    from medtune.models.tuning.adapters import chosen_stacks

    adapted = [
        (f"model.tuning.{part}.lora.targets", name)
        for stage in recipe.stages
        for part, how in stage.tuning.parts().items()
        for root in model.part_roots[part]
        if how.mode == "lora" and recipe.train.zero_stage == 3
        for name in chosen_stacks(model, part, root, how.lora)
    ]
    if not adapted:
        return None
    return (
        f"train.strategy is {recipe.train.strategy} and {adapted[0][0]} names {adapted[0][1]}, a stack of matrices. "
        "peft changes it for the length of a pass, and ZeRO-3 cannot gather what is changed. Take train.strategy=fsdp, "
        "or deepspeed_stage_2"
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
