"""Puts a recipe's model in front of its benchmark: the one evaluation before, during and after training."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from medtune.data.prepared.folder import Prepared
from medtune.data.types import Condition, MediaGroup, Prediction, Question, Reading, Split
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import ONCE, evaluate
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import DataLabel, label_of
from medtune.eval.judge.verdicts import with_verdicts
from medtune.eval.predictions.files import replace_file
from medtune.eval.predictions.shards import MERGED
from medtune.eval.results.build import scores_file
from medtune.eval.results.typed_json import write_document
from medtune.eval.scoring.parse_replies import write_parsed
from medtune.eval.scoring.score import PhaseScores, score_phase
from medtune.models.answering import LocalAnswerer
from medtune.models.endpoint.served import Served, open_answerer
from medtune.models.tuning.precision import precise
from medtune.models.vlm import Assembled
from medtune.trainer.experiment.strategies import barrier
from medtune.trainer.recipe.schema import Recipe


@dataclass(frozen=True)
class Experiment:
    """What is evaluated on, the same at every phase of a run.

    Attributes:
        rank: Of this process.
        unofficial_training: As in `DataLabel`.
    """

    recipe: Recipe
    benchmark: Benchmark
    prepared: Prepared
    device: torch.device
    rank: int
    world_size: int
    unofficial_training: str = ""

    @property
    def label(self) -> DataLabel:
        """What every output says about the data."""
        return label_of(
            self.prepared.manifest, prompts=self.benchmark.wording, unofficial_training=self.unofficial_training
        )


def limited(groups: Sequence[MediaGroup], *, questions: int | None, seed: int) -> tuple[MediaGroup, ...]:
    """Returns as many groups, drawn with the seed, as hold about `questions` questions; all of them for None.

    Their order is that of `groups`. A group is never cut, so the last one may go over the number.
    """
    if questions is None:
        return tuple(groups)
    chosen: set[int] = set()
    held = 0
    for index in np.random.default_rng(seed).permutation(len(groups)).tolist():
        if held >= questions:
            break
        chosen.add(index)
        held += len(groups[index].questions)
    return tuple(groups[index] for index in sorted(chosen))


def evaluate_phase(
    experiment: Experiment,
    model: Assembled | Served,
    groups: Sequence[MediaGroup],
    *,
    out_dir: Path,
    conditions: Sequence[Condition],
    title: str,
    repeats: Mapping[Condition, int] = ONCE,
) -> PhaseScores:
    """Answers the groups' questions into `out_dir` and scores them; all ranks take part and get the scores."""
    predictions = answer_groups(
        experiment,
        model,
        groups,
        out_dir=out_dir,
        readings=experiment.recipe.eval.readings,
        conditions=conditions,
        title=title,
        repeats=repeats,
    )
    questions = [question for group in groups for question in group.questions]
    # A run that was judged and is then resumed keeps its verdicts.
    predictions = with_verdicts(predictions, out_dir / MERGED, experiment.benchmark)
    scores = score_phase(
        questions,
        predictions,
        experiment.benchmark,
        train=train_questions(experiment.prepared),
        parser=primary_parser(experiment.recipe, experiment.benchmark),
    )
    if experiment.rank == 0:
        write_parsed(out_dir / "parsed.jsonl", questions, predictions, experiment.benchmark)
        write_document(out_dir / "scores.json", scores_file(scores, experiment.label))
    barrier()
    return scores


def answer_groups(
    experiment: Experiment,
    model: Assembled | Served,
    groups: Sequence[MediaGroup],
    *,
    out_dir: Path,
    readings: Sequence[Reading],
    conditions: Sequence[Condition],
    title: str,
    repeats: Mapping[Condition, int] = ONCE,
) -> list[Prediction]:
    """Answers the groups' questions into `out_dir`; all ranks take part and get all answers."""
    with _answerer(experiment, model) as answerer, _progress(title, shown=experiment.rank == 0) as on_group:
        return evaluate(
            answerer,
            groups,
            experiment.benchmark,
            answer_format=experiment.recipe.model.answer_format,
            out_dir=out_dir,
            readings=readings,
            conditions=conditions,
            seed=experiment.recipe.train.seed,
            repeats=repeats,
            rank=experiment.rank,
            world_size=experiment.world_size,
            barrier=barrier,
            on_group=on_group,
        )


@contextlib.contextmanager
def _answerer(experiment: Experiment, model: Assembled | Served) -> Iterator[Answerer]:
    options = experiment.recipe.eval
    if isinstance(model, Served):
        with open_answerer(
            model,
            max_new_tokens=options.max_new_tokens,
            say=lambda text: print(text, flush=True),
        ) as answerer:
            yield answerer
        return
    was_training = model.model.training
    model.model.eval()
    yield LocalAnswerer(
        model,
        device=experiment.device,
        batch_tokens=options.batch_tokens,
        batch_size=options.batch_size,
        max_new_tokens=options.max_new_tokens,
        precise=precise(experiment.recipe.train.precision, experiment.device),
        temperature=options.temperature,
        seed=experiment.recipe.train.seed,
    )
    model.model.train(was_training)


def train_questions(prepared: Prepared) -> tuple[Question, ...]:
    """Returns the train split, which the majority and prior baselines learn from; empty where there is none."""
    return prepared.questions("train")


def primary_parser(recipe: Recipe, benchmark: Benchmark) -> str:
    """Returns the name of the parser that `overall` goes by."""
    if recipe.eval.parser is not None:
        return recipe.eval.parser
    return "likelihood" if recipe.eval.readings[0] == "likelihood" else next(iter(benchmark.parsers))


def groups_of(prepared: Prepared, split: Split, *, questions: int | None, seed: int) -> tuple[MediaGroup, ...]:
    """Returns the groups of a split, or about as many as hold `questions` questions.

    Raises:
        ValueError: The split is empty.
    """
    groups = limited(prepared.groups(split), questions=questions, seed=seed)
    if not groups:
        raise ValueError(f"{prepared.root}: the split {split!r} is empty; prepare the folder with patients in it")
    return groups


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file through a temporary name."""
    replace_file(path, [json.dumps(content, indent=1).encode() + b"\n"])


@contextlib.contextmanager
def _progress(title: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    with tqdm(desc=title, unit="image", disable=not shown, file=sys.stderr, mininterval=1.0) as bar:

        def on_group(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield on_group
