"""What a run learns from: one prepared folder, or a mixture of several, each asked in its own benchmark's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from medtune.benchmarks import find_benchmark
from medtune.data.media.augment import AllowedChanges, Change, allow_nothing, allowed, changed
from medtune.data.prepared.folder import Prepared
from medtune.data.types import SPLITS, Media, MediaGroup, Prompt, Question, Split, UnofficialSplit
from medtune.eval.asking.official_prompts import worded
from medtune.eval.benchmark import Benchmark
from medtune.models.media_item import unchanged
from medtune.trainer.experiment.open_data import opened
from medtune.trainer.experiment.unofficial import whole_test
from medtune.trainer.recipe.schema import DataBlock, Recipe, Stage, TrainFolder
from medtune.trainer.training.balance import Balanced
from medtune.trainer.training.sampling import AllGroups, Draw, EndlessRow, Epochs
from medtune.trainer.training.stages import training_groups

_CHANGE_SEED = 0xA06


@dataclass(frozen=True)
class TrainPart:
    """The train split of one prepared folder.

    Attributes:
        balanced: Chooses the questions of an epoch; None asks all.
        keeps: Which changes of an image its benchmark allows.
        unofficial_split: By what a set for evaluation alone was divided; None where it was not.
    """

    groups: Sequence[MediaGroup]
    render: Callable[[Question], Prompt]
    balanced: Balanced | None = None
    allowed_changes: AllowedChanges = allow_nothing
    unofficial_split: UnofficialSplit | None = None

    @property
    def epochs(self) -> Epochs:
        """Which groups each epoch goes through."""
        return self.balanced or AllGroups(len(self.groups))


@dataclass(frozen=True)
class TrainData:
    """All parts, their shares of the media groups that are drawn, and the changes that the recipe asks for.

    Attributes:
        text_only_share: Of the groups, drawn with the seed, that are learnt without their media item.
    """

    parts: Sequence[TrainPart]
    shares: Sequence[float]
    seed: int
    augment: Sequence[Change] = ()
    text_only_share: float = 0.0

    def row(self) -> EndlessRow:
        """Returns the order of all draws."""
        return EndlessRow([part.epochs for part in self.parts], shares=self.shares, seed=self.seed)

    def group(self, draw: Draw) -> MediaGroup:
        """Returns a drawn group with the questions that its epoch asks."""
        part = self.parts[draw.part]
        return part.groups[draw.group] if part.balanced is None else part.balanced.group(draw.group, draw.epoch)

    def change(self, draw: Draw, group: MediaGroup) -> Callable[[Media], Media]:
        """Returns what is done to the decoded media item of a draw: the same for a resumed run and on any device."""
        wanted = (
            set(self.augment) & allowed(group.questions, self.parts[draw.part].allowed_changes)
            if self.augment
            else set()
        )
        if not wanted:
            return unchanged
        return lambda media: changed(media, wanted, rng=np.random.default_rng([self.seed, draw.place, _CHANGE_SEED]))


def whole_part(groups: Sequence[MediaGroup], render: Callable[[Question], Prompt], *, seed: int) -> TrainData:
    """Returns all questions of some groups, unchanged."""
    return TrainData([TrainPart(groups, render)], (1.0,), seed)


def folders_of(data: DataBlock) -> tuple[TrainFolder, ...]:
    """Returns the recipe's mixture; the folder that is evaluated on where it names none."""
    return data.mixture or (TrainFolder(data.benchmark, data.root),)


def shares_of(data: DataBlock, num_groups: Sequence[int]) -> tuple[float, ...]:
    """Returns each part's share of the draws: its weight, or its number of media groups to the power 1 / temperature.

    Example:
        >>> from pathlib import Path
        >>> parts = (TrainFolder("busi", Path("a")), TrainFolder("fetal_heads", Path("b")))
        >>> shares_of(DataBlock("busi", Path("a"), mixture=parts, temperature=2.0), [900, 100])
        (0.75, 0.25)

    Source: temperature sampling as in Arivazhagan et al., arXiv 1907.05019, section 3.
    """
    weights = [part.weight for part in folders_of(data)]
    raw = [
        count ** (1 / data.temperature) if weight is None else weight
        for count, weight in zip(num_groups, weights, strict=True)
    ]
    return tuple(each / sum(raw) for each in raw)


@dataclass(frozen=True)
class Folder:
    """A folder of the mixture, opened, with the benchmark that asks its questions."""

    named: TrainFolder
    prepared: Prepared
    benchmark: Benchmark


def open_folders(recipe: Recipe, prepared: Prepared, benchmark: Benchmark) -> tuple[Folder, ...]:
    """Returns what a run learns from.

    Args:
        recipe: Its data block says which folders.
        prepared: What the run is evaluated on, `data.root`.
        benchmark: The benchmark of that.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: A folder has no train split, is of another benchmark than the recipe says, or shares a patient or an
            image with what the run is evaluated on.
    """
    found = []
    for named in folders_of(recipe.data):
        is_root = named.root.resolve() == recipe.data.root.resolve()
        folder = prepared if is_root else opened(named.root, recipe.model)
        check_folder(named, folder, prepared)
        benchmark = benchmark
        if not is_root:
            benchmark = worded(find_benchmark(named.benchmark), folder, volumes_as=recipe.model.shows_volumes_as)
        found.append(Folder(named, folder, benchmark))
    return tuple(found)


def train_data(recipe: Recipe, stage: Stage, folders: Sequence[Folder], *, limit: int | None) -> TrainData:
    """Returns what a stage learns from; about `limit` questions of each folder.

    Raises:
        ValueError: The stage's filter leaves nothing of a folder, or no image may be changed as the recipe asks.
    """
    data, seed = recipe.data, recipe.train.seed
    parts = []
    for folder in folders:
        groups = training_groups(recipe, folder.prepared, stage, limit=limit)
        balanced = Balanced(groups, strength=data.balance, seed=seed) if data.balance else None
        divided = folder.prepared.manifest.unofficial_split
        parts.append(
            TrainPart(groups, _rendering(folder.benchmark, recipe), balanced, folder.benchmark.allowed_changes, divided)
        )
    if data.augment and not any(sum(num_changeable(part, data.augment).values()) for part in parts):
        names = ", ".join(folder.named.benchmark for folder in folders)
        raise ValueError(
            f"data.augment is {', '.join(data.augment)}; no image of {names} may be changed so: its questions ask for "
            "places, sides, lengths or density, or the benchmark allows it for none. Leave data.augment out"
        )
    shares = shares_of(data, [len(part.groups) for part in parts])
    return TrainData(parts, shares, seed, data.augment, recipe.train.text_only_share)


def num_changeable(part: TrainPart, augment: Sequence[Change]) -> dict[Change, int]:
    """Returns in how many of a part's media groups each change leaves the answers of all questions true."""
    counts = Counter(change for group in part.groups for change in allowed(group.questions, part.allowed_changes))
    return {change: counts[change] for change in augment}


def check_folder(part: TrainFolder, folder: Prepared, evaluated: Prepared) -> None:
    """Refuses a folder of another benchmark, and one that teaches what the run is tested on.

    Raises:
        ValueError: It does; the message counts patients and images and names none.
    """
    made_for = folder.manifest.benchmark
    if made_for != part.benchmark:
        raise ValueError(
            f"{part.root} was prepared for the benchmark {made_for!r}; data.mixture says {part.benchmark!r}"
        )
    if folder.num_questions("train") == 0:
        why = whole_test(folder)
        otherwise = f"{why}; or leave" if why else "Leave"
        raise ValueError(f"{part.root}: the split 'train' is empty. {otherwise} the folder out of data.mixture")
    if folder is evaluated:
        return
    held_out: list[MediaGroup] = [
        g for split in SPLITS if split != "train" for g in evaluated.groups(cast("Split", split))
    ]
    learnt = folder.groups("train")
    images = {g.media.path.name for g in learnt} & {g.media.path.name for g in held_out}
    patients = {g.patient_id for g in learnt} & {g.patient_id for g in held_out}
    if images or patients:
        raise ValueError(
            f"{part.root} would teach what {evaluated.root} asks: {len(images)} images and {len(patients)} patients of "
            "its train split are in the other's val or test. Prepare both from one folder, or leave this one out"
        )


def described(recipe: Recipe, data: TrainData) -> str:
    """Returns the parts in words, for results and the terminal; of each folder its last name alone."""
    said = []
    for part, mine, share in zip(folders_of(recipe.data), data.parts, data.shares, strict=True):
        asked = sum(len(group.questions) for group in mine.groups)
        changeable = num_changeable(mine, data.augment).items() if data.augment else ()
        said.append(
            f"{part.benchmark} ({part.root.name}): {len(mine.groups)} groups, {asked} questions, share {share:.3f}"
            f"{''.join(f', {change} in {number}' for change, number in changeable)}"
            f"{f', unofficial split by {mine.unofficial_split}' if mine.unofficial_split else ''}"
        )
    return "; ".join(said)


def _rendering(benchmark: Benchmark, recipe: Recipe) -> Callable[[Question], Prompt]:
    return lambda question: benchmark.render(question, recipe.model.answer_format)
