"""The patients and media files that a model was trained on, as a checkpoint states them, and who of them is asked.

A checkpoint carries them among its facts, as does every export of it. Patients stand there as the keyed hashes of their
prepared folders, which only the user who has the key can make; media by the hash of what they show once decoded, which
is the same in every file format, and by perceptual hashes, which find them again where they were encoded or cut anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medtune.data.prepared.lookalikes import Look, nearest_lookalikes
from medtune.data.prepared.question_rows import patient_key
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.tables import computed_hash, table_digests
from medtune.data.types import SPLITS, MediaGroup
from medtune.models.endpoint.settings import asked_alike
from medtune.trainer.recipe.judge import judged_alike
from medtune.trainer.recipe.schema import Recipe, Stage, TrainBlock

_PATIENTS, _MEDIA, _KEY, _BEFORE = "learnt_patients", "learnt_media", "learnt_patient_key", "learnt_before"
_LOOKS = "learnt_looks"
_NOT_RECORDED = "not recorded"
_DIGITS = 16
"""Hexadecimal digits of a patient, and of a media file's content. Source: `HASH_HEX` of data/prepared/privacy.py."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a model was trained on.

    Attributes:
        patients: The hashes of the patients, 16 hexadecimal digits each.
        media: The beginnings of the hashes of what the media show once they are decoded, 16 hexadecimal digits each.
        keys: A fingerprint of each patient key with which the patients were hashed. Hashes of other keys cannot be
            compared.
        is_whole: Whether this is all; False if an earlier training did not record what it learnt from.
        looks: The perceptual hashes of the media that have one.
    """

    patients: frozenset[str] = frozenset()
    media: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    is_whole: bool = True
    looks: frozenset[Look] = frozenset()

    def facts(self) -> dict[str, str]:
        """Returns the fields as a checkpoint holds them, the hashes one behind the other."""
        found = {
            _PATIENTS: "".join(sorted(self.patients)),
            _MEDIA: "".join(sorted(self.media)),
            _KEY: "".join(sorted(self.keys)),
            _LOOKS: ",".join(sorted(map(_look_text, self.looks))),
        }
        return found if self.is_whole else {**found, _BEFORE: _NOT_RECORDED}

    def joined(self, others: Iterable[Learnt]) -> Learnt:
        """Returns what this training and earlier ones saw together."""
        every = (self, *others)
        return Learnt(
            frozenset().union(*(each.patients for each in every)),
            frozenset().union(*(each.media for each in every)),
            frozenset().union(*(each.keys for each in every)),
            all(each.is_whole for each in every),
            frozenset().union(*(each.looks for each in every)),
        )


NOTHING = Learnt()
UNKNOWN = Learnt(is_whole=False)


def learnt_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a checkpoint's facts that say what it was trained on, for an export of it."""
    return {name: facts[name] for name in (_PATIENTS, _MEDIA, _KEY, _LOOKS, _BEFORE) if name in facts}


def read_learnt(facts: Mapping[str, str]) -> Learnt | None:
    """Returns what a checkpoint's facts say that it was trained on; None if they say nothing."""
    if _PATIENTS not in facts:
        return None
    patients, media, keys = (frozenset(_cut(facts.get(name, ""))) for name in (_PATIENTS, _MEDIA, _KEY))
    looks = frozenset(_look(text) for text in facts.get(_LOOKS, "").split(",") if text)
    return Learnt(patients, media, keys, is_whole=_BEFORE not in facts and _LOOKS in facts, looks=looks)


def _look_text(look: Look) -> str:
    return f"{look:0{_DIGITS}x}" if isinstance(look, int) else "".join(map(_look_text, look))


def _look(text: str) -> Look:
    pictures = tuple(int(each, 16) for each in _cut(text))
    return pictures[0] if len(pictures) == 1 else pictures


def _cut(text: str) -> Iterator[str]:
    return (text[start : start + _DIGITS] for start in range(0, len(text), _DIGITS))


def learnt_from(groups: Iterable[MediaGroup], contents: Mapping[str, str], looks: Mapping[str, Look]) -> Learnt:
    """Returns what training on these media groups teaches.

    Args:
        contents: The digest of what each media file shows, as `Prepared.contents` has it.
        looks: The perceptual hash of each media file that has one, as `Prepared.looks` has it.
    """
    patients: set[str] = set()
    media: set[str] = set()
    seen: set[Look] = set()
    for group in groups:
        patients.add(group.patient_id)
        media.update(_shown(group, contents))
        seen.update(looks[ref.path.name] for ref in group.media if ref.path.name in looks)
    return Learnt(frozenset(patients), frozenset(media), frozenset([_fingerprint()]), looks=frozenset(seen))


def comparable(learnt: Learnt) -> bool:
    """Returns whether all that a model learnt from is known, under this user's patient key."""
    return learnt.is_whole and learnt.keys <= {_fingerprint()}


def asked_again(learnt: Learnt, groups: Sequence[MediaGroup], contents: Mapping[str, str]) -> str:
    """Returns how much of what is asked was trained on, in numbers of patients and questions; "" if nothing was.

    A question was trained on if its patient was, or what it shows.

    Args:
        contents: The digest of what each media file shows, as `Prepared.contents` has it.
    """
    seen = [g for g in groups if g.patient_id in learnt.patients or not learnt.media.isdisjoint(_shown(g, contents))]
    if not seen:
        return ""
    patients, of = ({group.patient_id for group in each} for each in (seen, groups))
    questions, there = (sum(len(group.questions) for group in each) for each in (seen, groups))
    return f"{len(patients)} of the {len(of)} evaluated patients and {questions} of the {there} questions about them"


def looks_learnt(learnt: Learnt, groups: Sequence[MediaGroup], evaluated: Prepared) -> str:
    """Returns how many of the media that are asked about look like learnt ones, in words; "" if none does.

    Media that were learnt themselves, in whatever file format, are left out: `asked_again` counts them.
    """
    files = {ref.path.name for group in groups for ref in group.media}
    new = {name for name in files if evaluated.contents[name][:_DIGITS] not in learnt.media}
    asked = {name: evaluated.looks[name] for name in new if name in evaluated.looks}
    known = {str(number): look for number, look in enumerate(learnt.looks)}
    alike = {pair.image for pair in nearest_lookalikes(asked, known)}
    if not alike:
        return ""
    questions = sum(len(g.questions) for g in groups if any(ref.path.name in alike for ref in g.media))
    return (
        f"{len(alike)} of the {len(files)} evaluated media look like media that the weights were trained on, and "
        f"{questions} questions are about them"
    )


def _shown(group: MediaGroup, contents: Mapping[str, str]) -> set[str]:
    return {contents[ref.path.name][:_DIGITS] for ref in group.media}


def _fingerprint() -> str:
    return hashlib.sha256(b"medtune patient key" + patient_key()).hexdigest()[:_DIGITS]


DATA = "data"
"""The entry of environment.json with these facts."""
_HASH, _TABLES = "hash", "tables"
_SHOWN = 12


def data_facts(
    evaluated: Prepared, learnt: Iterable[Prepared], *, before: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns the facts about the evaluated prepared folder and the folders that are trained on, by their field.

    Folders of a mixture stand in the recipe's order, without the evaluated folder, which stands first. Where the bytes
    of a folder's tables are others than before, the hash is computed from its rows, and not believed: the bytes also
    differ where another user has prepared the same data.

    Args:
        before: The facts that were recorded before; empty if there are none.
    """
    others = [each for each in learnt if each.root.resolve() != evaluated.root.resolve()]
    named = {"data.root": evaluated, **{f"data.mixture.{number}": each for number, each in enumerate(others)}}
    return {name: _facts(prepared, before.get(name, {})) for name, prepared in named.items()}


def _facts(prepared: Prepared, before: Mapping[str, Any]) -> dict[str, Any]:
    made, tables = prepared.manifest, table_digests(prepared.root)
    is_known = before.get(_TABLES, tables) == tables
    return {
        _HASH: prepared.data_hash if is_known else computed_hash(prepared.root),
        _TABLES: tables,
        "source": made.source,
        "seed": made.seed,
        "limit": made.limit,
        "prompts": made.prompts,
        "format": made.format_version,
        **{f"{split} questions": prepared.num_questions(split) for split in SPLITS},
        **{f"{split} patients": made.num_patients.get(split, 0) for split in SPLITS},
    }


def changes(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns, for each prepared folder of now whose data are others than before, what is different, in words.

    Folders that were not recorded before, as in runs of earlier versions, are not compared.
    """
    there = {name: before[name] for name in now if name in before}
    return [f"{name}: {_differences(was, now[name])}" for name, was in there.items() if was[_HASH] != now[name][_HASH]]


def _differences(was: Mapping[str, Any], is_: Mapping[str, Any]) -> str:
    hashes = f"data hash {was[_HASH][:_SHOWN]} before and {is_[_HASH][:_SHOWN]} now"
    other = [
        f"{name} {was.get(name)} before and {value} now"
        for name, value in is_.items()
        if name not in (_HASH, _TABLES) and name in was and was[name] != value
    ]
    return "; ".join([hashes, *other]) if other else f"{hashes}; the questions, answers, splits or media differ"


FREE = (
    "strategy", "devices", "nodes", "timeout_minutes", "save_every_steps", "save_every_minutes", "micro_batch_size",
    "micro_batch_tokens", "deterministic",
)  # fmt: skip
"""The fields of the block `train` that decide how a step is computed and saved, but not what it learns."""
_MISSING = "(not there)"


def asks_the_same(recipe: Recipe) -> Recipe:
    """Returns the recipe without the settings that may change when a run is resumed.

    These are the fields in `FREE`, and the prices, the spending limit and the pace of an endpoint and of a judge's.
    """
    plain = {name: _default(TrainBlock, name) for name in FREE}
    micro_batch = {name: _default(Stage, name) for name in ("micro_batch_size", "micro_batch_tokens")}
    stages = tuple(replace(each, **micro_batch) for each in recipe.train.stages)
    endpoint = None if recipe.model.endpoint is None else asked_alike(recipe.model.endpoint)
    return replace(
        recipe,
        train=replace(recipe.train, stages=stages, **plain),
        model=replace(recipe.model, endpoint=endpoint),
        eval=replace(recipe.eval, judge=recipe.eval.judge and judged_alike(recipe.eval.judge)),
    )


def differences(before: Recipe, now: Recipe) -> list[str]:
    """Returns, for each setting that may not change when a run is resumed, what it was and what it is."""
    there, here = (dict(_fields(asks_the_same(recipe))) for recipe in (before, now))
    names = list(dict.fromkeys([*there, *here]))
    return [
        f"{name} is {there.get(name, _MISSING)} there and {here.get(name, _MISSING)} here"
        for name in names
        if there.get(name, _MISSING) != here.get(name, _MISSING)
    ]


def _default(block: type[Any], name: str) -> Any:
    return next(field.default for field in dataclasses.fields(block) if field.name == name)


def _fields(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and any(dataclasses.is_dataclass(each) for each in value):
        value = {str(number): each for number, each in enumerate(value)}
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _fields(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)
