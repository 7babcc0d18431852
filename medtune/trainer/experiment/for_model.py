"""Opens a prepared folder for a recipe's model, and refuses questions that the model does not take."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from medtune.data.media.masks import MARGIN_MM, TARGETS
from medtune.data.prepared.read import Prepared
from medtune.data.types import MediaGroup
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import CheckpointEntry, ZooEntry, any_entry
from medtune.models.weights.loading_options import ASKED, BLIND
from medtune.trainer.experiment.prepared_data import open_with_prompts
from medtune.trainer.recipe.schema import ModelBlock


def open_for_model(
    root: Path,
    benchmark_name: str,
    model: ModelBlock,
    *,
    folds: tuple[int | None, int | None] = (None, None),
    named_by: str = "data.benchmark is",
) -> tuple[Prepared, Benchmark]:
    """Returns the opened folder, and the benchmark with the prompts that the folder was prepared with.

    For a model that looks at the organs that it is asked about, these become media groups of their own.

    Args:
        folds: The number of folds that the folder is divided into and the one that is asked, if it is to be.
        named_by: The words before the benchmark's name in an error message, which tell the field that names it.
    """
    prepared, benchmark = open_with_prompts(root, benchmark_name, model, folds=folds, named_by=named_by)
    refuse_conversations(prepared, model)
    return as_seen(prepared, model), benchmark


def as_seen(prepared: Prepared, model: ModelBlock) -> Prepared:
    """Returns the folder with its volumes as the model sees them: cropped, or with the organs it is asked about."""
    entry = any_entry(model.name)
    if model.vision == BLIND:
        return replace(prepared, blind=True)
    crops_itself = isinstance(entry, ZooEntry) and entry.by_organ
    asked = model.crop_organs == (ASKED,)
    prepared = replace(prepared, by_organ=asked or (crops_itself and model.crop_organs is None))
    if not crops_itself and model.crop_organs is None and model.crop_margin_mm is not None:
        raise ValueError("model.crop_margin_mm is set without model.crop_organs, for instance [asked]")
    if model.crop_organs is None:
        return prepared
    if not crops_itself and model.volumes_as is None:
        raise ValueError(f"model.crop_organs is set without model.volumes_as: {model.name} reads volumes as pictures")
    organs = tuple(sorted(prepared.organs)) if asked else model.crop_organs
    _refuse_missing_masks(prepared, organs)
    if model.volumes_as is None:
        return prepared
    margin_mm = MARGIN_MM if model.crop_margin_mm is None else model.crop_margin_mm
    return replace(prepared, crop_mm=margin_mm, crop_organs=TARGETS if asked else organs)


def _refuse_missing_masks(prepared: Prepared, organs: Sequence[str]) -> None:
    there = prepared.organs
    if unknown := sorted(set(organs) - there):
        raise ValueError(
            f"model.crop_organs: {prepared.root} has no mask of {unknown[0]}; it has masks of: "
            f"{', '.join(sorted(there)) or 'none at all'}"
        )
    if lacking := prepared.without_masks(organs):
        raise ValueError(
            f"model.crop_organs: {len(lacking)} scans of {prepared.root} have no mask of "
            f"{' or '.join(organs) or 'an organ'}, the first is {lacking[0].path.name}. Prepare the folder again with "
            "masks of their organs (docs/own_cts.md), or without these scans; or leave model.crop_organs out"
        )


def crop_said(groups: Iterable[MediaGroup]) -> str:
    """Returns what is seen of cropped volumes, in words.

    Example:
        >>> from medtune.data.types import MediaRef
        >>> ref = MediaRef(Path("ct.nii.gz"), kind="volume", target=("liver",), crop_mm=20.0)
        >>> crop_said([MediaGroup("m", (ref,), ())])
        'volumes are cropped to their organs and 20 mm around: liver (0 questions)'
    """
    counted: Counter[str] = Counter()
    margins = set()
    for group in groups:
        for ref in group.media:
            if ref.crop_mm is not None:
                margins.add(ref.crop_mm)
                counted[" + ".join(ref.target) or "the whole scan"] += len(group.questions)
    if not counted:
        return "volumes are cropped by the model itself"
    seen = ", ".join(f"{organs} ({number} questions)" for organs, number in counted.most_common())
    return f"volumes are cropped to their organs and {max(margins):g} mm around: {seen}"


def refuse_conversations(prepared: Prepared, model: ModelBlock) -> None:
    """Refuses a folder with questions about several items, or with earlier turns, for a model that takes none."""
    entry = any_entry(model.name)
    if isinstance(entry, CheckpointEntry) and model.weights is not None:
        entry = entry.of(model.weights)
    if not isinstance(entry, ZooEntry):
        return
    one_item = entry.one_question or (entry.family is not None and _one_item(entry.family))
    if one_item and prepared.most_items > 1:
        raise ValueError(
            f"{prepared.root} shows up to {prepared.most_items} media items together, and {model.name} "
            f"({entry.family or entry.title}) is shown one at a time; choose another model.name, or prepare the folder "
            "without such questions"
        )
    if entry.one_question and prepared.has_turns:
        raise ValueError(
            f"{prepared.root} holds questions with earlier turns, and {model.name} ({entry.title}) is asked one "
            "question by itself; choose another model.name, or prepare the folder without such questions"
        )


def _one_item(family: str) -> bool:
    # A model of no family needs no module of transformers.
    from medtune.models.transformers_vlm.families import find_family

    return find_family(family).one_item
