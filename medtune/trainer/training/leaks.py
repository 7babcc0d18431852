"""Refuses training data that teach what a run asks: the same patients or media, or what looks alike."""

from medtune.data.prepared.content.shared import SharedMedia, shared_content, shown_media
from medtune.data.prepared.lookalikes.perceptual_hash import MAX_DISTANCE
from medtune.data.prepared.read import Prepared
from medtune.data.types import Split
from medtune.trainer.experiment.evaluation_only import whole_test

_TRAIN: tuple[Split, ...] = ("train",)
_HELD_OUT: tuple[Split, ...] = ("val", "test")
_SHOWN = 3


def refuse_no_train(prepared: Prepared) -> None:
    """Refuses a training set without a train split."""
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
    """Refuses a training set whose media look like media of the evaluated val or test split.

    Media of simulations have no perceptual hash and are not compared.

    Returns:
        Words that say how many media these are, if they are allowed; "" if there are none.
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
