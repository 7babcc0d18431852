"""Refuses training data that teach what a run asks: the same patients or images, or images that look alike."""

from __future__ import annotations

from medtune.data.prepared.lookalikes.groups import nearest_lookalikes
from medtune.data.prepared.lookalikes.perceptual_hash import MAX_DISTANCE
from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup, Split
from medtune.trainer.experiment.evaluation_only import whole_test

_HELD_OUT: tuple[Split, ...] = ("val", "test")
_SHOWN = 3


def refuse_no_train(prepared: Prepared) -> None:
    """Refuses a training set without a train split.

    Raises:
        ValueError: The train split is empty; the message says what to do.
    """
    if prepared.num_questions("train") == 0:
        why = whole_test(prepared)
        otherwise = f"{why}; or leave" if why else "Leave"
        raise ValueError(f"{prepared.root}: the split 'train' is empty. {otherwise} the folder out of data.mixture")


def refuse_same(learnt: Prepared, evaluated: Prepared) -> None:
    """Refuses a training set with patients or images of the evaluated val or test split.

    Raises:
        ValueError: The training set is refused; the message gives numbers of patients and images, and no names.
    """
    groups, held_out = learnt.groups("train"), _held_out(evaluated)
    images = {ref.path.name for g in groups for ref in g.media} & {ref.path.name for g in held_out for ref in g.media}
    patients = {g.patient_id for g in groups} & {g.patient_id for g in held_out}
    if images or patients:
        raise ValueError(
            f"{learnt.root} would teach what {evaluated.root} asks: {len(images)} images and {len(patients)} patients "
            "of its train split are in the other's val or test. Prepare both from one folder, or leave this one out"
        )


def refuse_seen_lookalikes(learnt: Prepared, evaluated: Prepared, *, allowed: bool) -> str:
    """Refuses a training set whose images look like images of the evaluated val or test split.

    Images of simulations, videos and volumes have no perceptual hash and are not compared.

    Returns:
        Words that say how many images these are, if they are allowed; "" if there are none.

    Raises:
        ValueError: There are such images and they are not allowed; the message names the nearest by their media ids,
            which are made from content.
    """
    train = {ref.path.name: g.media_id for g in learnt.groups("train") for ref in g.media}
    asked = {ref.path.name: g.media_id for g in _held_out(evaluated) for ref in g.media}
    seen = nearest_lookalikes(
        {file: look for file, look in evaluated.looks.items() if file in asked},
        {file: look for file, look in learnt.looks.items() if file in train},
    )
    if not seen:
        return ""
    count = f"{len(seen)} of {len(asked)} val and test images look like images of"
    if allowed:
        return f"{count} {learnt.root.name} that were trained on, by data.allow_lookalikes"
    nearest = ", ".join(f"{asked[pair.image]} and {train[pair.other]}" for pair in seen[:_SHOWN])
    raise ValueError(
        f"{learnt.root} would teach what {evaluated.root} asks: {count} its train split (perceptual hashes differ in "
        f"at most {MAX_DISTANCE} of 64 bits; nearest: {nearest}). Prepare both from one folder, leave this one out, or "
        "set data.allow_lookalikes=true; every output then says so"
    )


def _held_out(evaluated: Prepared) -> list[MediaGroup]:
    return [group for split in _HELD_OUT for group in evaluated.groups(split)]
