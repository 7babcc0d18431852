"""The training data of a run: one prepared folder, or a mixture of several, each with its own benchmark's prompts."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medtune.data.media.augment import AllowedChanges, Change, allow_nothing, augment_media, changes_allowed_by_all
from medtune.data.prepared.lookalikes import MAX_DISTANCE
from medtune.data.prepared.read import Prepared, SharedMedia, shared_content, shown_media
from medtune.data.types import Media, MediaGroup, MediaRef, Prompt, Question, Split, UnofficialSplit
from medtune.eval.benchmark import Benchmark
from medtune.models.media_reader import unchanged
from medtune.models.tuning.starting_weights import MOST_ITEMS, Lesson, repeated_texts
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.experiment.prepared_data import refuse_other_benchmark, whole_test
from medtune.trainer.recipe.schema import DataBlock, Recipe, Stage, TrainFolder
from medtune.trainer.training.sampling import AllGroups, Balanced, Draw, EndlessRow, Epochs
from medtune.trainer.training.stages import training_groups

_TRAIN: tuple[Split, ...] = ("train",)
_HELD_OUT: tuple[Split, ...] = ("val", "test")
_SHOWN = 3

_CHANGE_SEED = 0xA06
_NAMED_BY = "data.mixture says"
_LARGE_POWER = 30


def refuse_no_train(prepared: Prepared) -> None:
    if prepared.num_questions("train") == 0:
        why = whole_test(prepared)
        otherwise = f"{why}; or leave" if why else "Leave"
        raise ValueError(f"{prepared.root}: the split 'train' is empty. {otherwise} the folder out of data.mixture")


def refuse_same(learnt: Prepared, evaluated: Prepared) -> None:
    """Refuses a training set with patients or media of the evaluated val or test split, in whatever file format."""
    same = _shared(learnt, evaluated).same
    asked = (question.patient_id for split in _HELD_OUT for question in evaluated.questions(split))
    patients = {question.patient_id for question in learnt.questions("train")}.intersection(asked)
    if same or patients:
        raise ValueError(
            f"{learnt.root} would teach what {evaluated.root} asks: {len(same)} {_what(evaluated)} and "
            f"{len(patients)} patients of its train split are in the other's val or test (media are compared as "
            "decoded). Prepare both from one folder, or leave this one out"
        )


def refuse_seen_lookalikes(learnt: Prepared, evaluated: Prepared, *, allowed: bool) -> str:
    """Refuses a training set that looks like evaluated media, or says how many of them do where that is allowed.

    Media of simulations have no perceptual hash and are not compared.
    """
    seen = _shared(learnt, evaluated).alike
    if not seen:
        return ""
    train, asked, what = _media_ids(learnt, _TRAIN), _media_ids(evaluated, _HELD_OUT), _what(evaluated)
    count = f"{len(seen)} of {len(asked)} val and test {what} look like {what} of"
    if allowed:
        return f"{count} {learnt.root.name} that were trained on, by data.allow_lookalikes"
    nearest = ", ".join(f"{asked[pair.image]} and {train[pair.other]}" for pair in seen[:_SHOWN])
    images = f"perceptual hashes differ in at most {MAX_DISTANCE} of 64 bits"
    others = "perceptual hashes of their pictures differ in at most 4.5 of 64 bits on average"
    raise ValueError(
        f"{learnt.root} would teach what {evaluated.root} asks: {count} its train split "
        f"({images if what == 'images' else others}; nearest: {nearest}). Prepare both from one folder, leave this one "
        "out, or set data.allow_lookalikes=true; every output then says so"
    )


def _shared(learnt: Prepared, evaluated: Prepared) -> SharedMedia:
    return shared_content(shown_media(learnt, _TRAIN), shown_media(evaluated, _HELD_OUT))


def _media_ids(prepared: Prepared, splits: tuple[Split, ...]) -> dict[str, str]:
    groups = (group for split in splits for group in prepared.groups(split))
    return {prepared.contents[ref.path.name]: group.media_id for group in groups for ref in group.media}


def _what(prepared: Prepared) -> str:
    return f"{next(iter(prepared.kinds))}s" if len(prepared.kinds) == 1 else "media"


@dataclass(frozen=True)
class TrainingSet:
    """An opened prepared folder that a run learns from, with its benchmark."""

    named: TrainFolder  # The folder as the recipe names it, with its weight in the mixture.
    prepared: Prepared
    benchmark: Benchmark
    lookalikes: str = ""  # Says how many evaluated images look like images of its train split; "" if none does.


def open_training_sets(recipe: Recipe, prepared: Prepared, benchmark: Benchmark) -> tuple[TrainingSet, ...]:
    """Returns the opened training sets of a run, in the recipe's order."""
    found = []
    for named in folders_of(recipe.data):
        if named.root.resolve() == recipe.data.root.resolve():
            refuse_other_benchmark(prepared, named.benchmark, named_by=_NAMED_BY)
            opened = TrainingSet(named, prepared, benchmark)
        else:
            opened = TrainingSet(named, *open_for_model(named.root, named.benchmark, recipe.model, named_by=_NAMED_BY))
        found.append(_checked(opened, prepared, allow_lookalikes=recipe.data.allow_lookalikes))
    return tuple(found)


def _checked(learnt: TrainingSet, evaluated: Prepared, *, allow_lookalikes: bool) -> TrainingSet:
    refuse_no_train(learnt.prepared)
    if learnt.prepared is evaluated:
        return learnt
    refuse_same(learnt.prepared, evaluated)
    seen = refuse_seen_lookalikes(learnt.prepared, evaluated, allowed=allow_lookalikes)
    return replace(learnt, lookalikes=seen)


@dataclass(frozen=True)
class Member:
    """The train split of one training set, as a stage uses it."""

    groups: Sequence[MediaGroup]  # The media groups of the train split that the stage learns from.
    render: Callable[[Question], Prompt]
    balanced: Balanced | None = None  # Chooses the questions of an epoch; None asks all of them.
    # Returns the changes of an image that its benchmark allows for a question.
    allowed_changes: AllowedChanges = allow_nothing
    # The unit by which an evaluation-only data set was divided, for instance patients; None if it was not divided.
    unofficial_split: UnofficialSplit | None = None

    @property
    def epochs(self) -> Epochs:
        """The groups that each epoch goes through."""
        return self.balanced or AllGroups(len(self.groups))


@dataclass(frozen=True)
class Mixture:
    members: Sequence[Member]  # The training sets that are mixed, at least one.
    shares: Sequence[float]  # For each member, its share of the media groups that are drawn; the shares sum to 1.
    seed: int  # Seed of the order of the groups and of the changes.
    augment: Sequence[Change] = ()  # The changes that are applied to training media where the benchmark allows them.
    # The share of the groups, from 0 to 1 and drawn with the seed, that are trained on without their media item.
    text_only_share: float = 0.0

    def row(self) -> EndlessRow:
        """Returns the endless row of draws, from which all training steps take their groups."""
        return EndlessRow([member.epochs for member in self.members], shares=self.shares, seed=self.seed)

    def group(self, draw: Draw) -> MediaGroup:
        """Returns a drawn group with the questions that its epoch asks."""
        member = self.members[draw.member]
        return member.groups[draw.group] if member.balanced is None else member.balanced.group(draw.group, draw.epoch)

    def change(self, draw: Draw, group: MediaGroup) -> Callable[[Media], Media]:
        """Returns the function that changes the decoded media item of a draw.

        It depends on the seed and the place of the draw only, so a resumed run and any device give the same result.
        """
        wanted = (
            set(self.augment) & changes_allowed_by_all(group.questions, self.members[draw.member].allowed_changes)
            if self.augment
            else set()
        )
        if not wanted:
            return unchanged
        return lambda media: augment_media(
            media, wanted, rng=np.random.default_rng([self.seed, draw.place, _CHANGE_SEED])
        )


def _all(groups: Sequence[MediaGroup]) -> Sequence[MediaGroup]:
    return groups


def stage_mixture(
    recipe: Recipe,
    stage: Stage,
    training_sets: Sequence[TrainingSet],
    *,
    limit: int | None,
    keep: Callable[[Sequence[MediaGroup]], Sequence[MediaGroup]] = _all,
) -> Mixture:
    """Returns the training data of a stage, with about `limit` questions of each training set; None uses all.

    Args:
        keep: Returns the groups of a training set with those of their questions that the stage can learn.
    """
    data, seed = recipe.data, recipe.train.seed
    members = []
    for each in training_sets:
        groups = keep(training_groups(recipe, each.prepared, stage, limit=limit))
        balanced = Balanced(groups, strength=data.balance, seed=seed) if data.balance else None
        divided = each.prepared.manifest.unofficial_split
        members.append(
            Member(groups, _rendering(each.benchmark, recipe), balanced, each.benchmark.allowed_changes, divided)
        )
    if data.augment and not any(sum(num_changeable(member, data.augment).values()) for member in members):
        names = ", ".join(each.named.benchmark for each in training_sets)
        raise ValueError(
            f"data.augment is {', '.join(data.augment)}; no image of {names} may be changed so: its questions ask for "
            "places, sides, lengths or density, or the benchmark allows it for none. Leave data.augment out"
        )
    shares = shares_of(data, [len(member.groups) for member in members])
    return Mixture(members, shares, seed, data.augment, recipe.train.text_only_share)


def begins_with_words(recipe: Recipe) -> bool:
    """Returns whether the projector is untrained and begins with the words of the train split's answers."""
    model = recipe.model
    if model.projector != "vocabulary" or model.weights is not None or model.adapter is not None:
        return False
    if not any(stage.tuning.projector.mode == "full" for stage in recipe.stages):
        raise ValueError(
            "model.projector: vocabulary begins with the words of the train split's answers, which only a trained "
            "projector keeps; set model.tuning.projector.mode to full in a stage, or name trained model.weights"
        )
    return True


def lessons_of(
    recipe: Recipe, training_sets: Sequence[TrainingSet], *, limit: int | None
) -> tuple[list[MediaRef], list[Lesson]]:
    """Returns media items of the train split, each shown alone, and their questions with options.

    Of more than MOST_ITEMS, some are taken at equal distances.
    """
    stage = recipe.stages[0]
    found = [group for each in training_sets for group in training_groups(recipe, each.prepared, stage, limit=limit)]
    alone = [group for group in found if len(group.media) == 1]
    num_kept = min(len(alone), MOST_ITEMS)
    kept = [alone[number * len(alone) // num_kept] for number in range(num_kept)]
    lessons = [
        Lesson(number, question.text, question.answer)
        for number, group in enumerate(kept)
        for question in group.questions
        if question.options
    ]
    repeated_texts(lessons)
    return [group.media[0] for group in kept], lessons


def folders_of(data: DataBlock) -> tuple[TrainFolder, ...]:
    """Returns the folders of the recipe's mixture, or the folder at `data.root` if there is no mixture."""
    return data.mixture or (TrainFolder(data.benchmark, data.root),)


def shares_of(data: DataBlock, num_groups: Sequence[int]) -> tuple[float, ...]:
    """Returns each folder's share of the draws: its weight, or its number of groups to the power 1 / temperature.

    >>> from pathlib import Path
    >>> folders = (TrainFolder("one", Path("a")), TrainFolder("other", Path("b")))
    >>> shares_of(DataBlock("one", Path("a"), mixture=folders, temperature=2.0), [900, 100])
    (0.75, 0.25)

    Source: temperature sampling as in Arivazhagan et al., arXiv 1907.05019, section 3.
    """
    weights = [folder.weight for folder in folders_of(data)]
    power = 1 / data.temperature
    # At a low temperature the powers themselves would be too large for a number.
    unit = max(num_groups) if power > _LARGE_POWER else 1
    raw = [
        (count / unit) ** power if weight is None else weight for count, weight in zip(num_groups, weights, strict=True)
    ]
    return tuple(each / sum(raw) for each in raw)


def num_changeable(member: Member, augment: Sequence[Change]) -> dict[Change, int]:
    """Returns in how many of a member's media groups each change leaves the answers of all questions true."""
    counts = Counter(
        change for group in member.groups for change in changes_allowed_by_all(group.questions, member.allowed_changes)
    )
    return {change: counts[change] for change in augment}


def described(recipe: Recipe, mixture: Mixture) -> str:
    """Returns a description of the members for results and the terminal.

    Of the path of each folder it names only the last part.
    """
    said = []
    for named, member, share in zip(folders_of(recipe.data), mixture.members, mixture.shares, strict=True):
        asked = sum(len(group.questions) for group in member.groups)
        changeable = num_changeable(member, mixture.augment).items() if mixture.augment else ()
        said.append(
            f"{named.benchmark} ({named.root.name}): {len(member.groups)} groups, {asked} questions, share {share:.3f}"
            f"{''.join(f', {change} in {number}' for change, number in changeable)}"
            f"{f', unofficial split by {member.unofficial_split}' if member.unofficial_split else ''}"
        )
    return "; ".join(said)


def _rendering(benchmark: Benchmark, recipe: Recipe) -> Callable[[Question], Prompt]:
    return lambda question: benchmark.render(question, recipe.model.answer_format)
