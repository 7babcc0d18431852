"""Measures what the audit at the end of a run takes: reading images for cues, and encoding them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from medtune.data.types import MediaGroup
from medtune.eval.audit.image_cues import cue_probes
from medtune.eval.audit.probes import thumbnails
from medtune.trainer.experiment.asked_model import LoadedModel
from medtune.trainer.experiment.audit import audited_media
from medtune.trainer.hours.answering import Clock
from medtune.trainer.hours.pieces import NOTHING, Cost, Pieces, choose, together

_READ_IN_PIECE = 4
_ENCODED_IN_PIECE = 16


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit takes.

    Attributes:
        num_read: The number of media groups from which cues and thumbnails are read.
        num_encoded: The number of media groups that the vision tower encodes.
        reading: The measured reading.
        encoding: The measured encoding.
    """

    num_read: int
    num_encoded: int
    reading: Pieces
    encoding: Pieces

    @property
    def cost(self) -> Cost:
        """The cost of reading and encoding."""
        return together([self.reading.all(self.num_read), self.encoding.all(self.num_encoded)])


NO_AUDIT = Audited(0, 0, NOTHING, NOTHING)
"""The audit of a run without questions that have options."""


def measured_audit(model: LoadedModel, groups: Sequence[MediaGroup], *, pieces: int, clock: Clock) -> Audited:
    """Returns what the audit of a phase takes; fitting its classifiers is not measured.

    Args:
        model: The model.
        groups: The media groups of the phase.
        pieces: Number of measured pieces.
        clock: Returns the seconds.
    """
    media = audited_media(model.experiment, groups)
    if not media.asked:
        return NO_AUDIT
    seed = model.experiment.recipe.train.seed
    read, encoded = [*media.learnt, *media.asked], [*media.encoded, *media.asked] if media.encoded else []
    seen: list[int] = []

    def encode(part: Sequence[MediaGroup]) -> None:
        seen.append(len(model.vision_features(part)))

    def look(part: Sequence[MediaGroup]) -> None:
        cue_probes((), part, (), ())
        thumbnails(part)

    reading = _measured(look, read, _READ_IN_PIECE, pieces, seed=seed, clock=clock)
    encoding = _measured(encode, encoded, _ENCODED_IN_PIECE, pieces, seed=seed, clock=clock)
    # Without features of the first images, the audit asks for no others.
    asks = any(seen)
    return Audited(len(read), len(encoded) if asks else 0, reading, encoding if asks else NOTHING)


def _measured(
    work: Callable[[Sequence[MediaGroup]], None],
    groups: Sequence[MediaGroup],
    in_piece: int,
    pieces: int,
    *,
    seed: int,
    clock: Clock,
) -> Pieces:
    chosen = choose([len(group.media) for group in groups], in_piece=in_piece, pieces=pieces, seed=seed)
    took = []
    for places in (chosen.warm_up, *chosen.pieces):
        begun = clock()
        if places:
            work([groups[place] for place in places])
        took.append(clock() - begun)
    units = tuple(map(len, chosen.pieces))
    return Pieces(tuple(took[1:]), units, sum(units) / len(groups)) if groups else NOTHING
