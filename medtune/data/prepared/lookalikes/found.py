"""Records what was found out about look-alikes when a folder was prepared, and marks test questions with a twin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medtune.data.types import Question, Split

TRAIN_TWIN = "look_alike_in_train"
"""The facet that says whether an image of train is in the same group of look-alikes: "yes" or "no"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookalikes:
    """What was found out about look-alikes when a folder was prepared.

    Attributes:
        max_distance: The highest number of the 64 bits in which the perceptual hashes of look-alikes differ.
        is_simulated: Whether the images were simulated, so that they were not compared.
        kept_together: Whether each group of look-alikes was kept in one split where the source brings no split.
        num_images: The number of different images that were compared.
        num_flat: The number of different images, videos and volumes that are too flat to have a hash.
        num_others: The number of different videos and volumes that were compared.
        num_groups: The number of groups, with those of a single item.
        num_pairs: The number of pairs of look-alikes.
        largest: The number of items in the largest group.
        num_across: The number of pairs of look-alikes whose items are in two splits.
        num_twins: The number of val and test questions whose item has a look-alike in train.
    """

    max_distance: int
    is_simulated: bool
    kept_together: bool
    num_images: int
    num_flat: int
    num_others: int
    num_groups: int
    num_pairs: int
    largest: int
    num_across: int
    num_twins: int

    @property
    def across(self) -> str:
        """Says how many pairs are in two splits and why; "" if look-alikes were kept together and no pair is."""
        if self.is_simulated or (self.kept_together and not self.num_across):
            return ""
        why = "the source's own split" if self.kept_together else "--split-lookalikes"
        return f"{self.num_across} of {self.num_pairs} pairs in two splits by {why}"

    def lines(self) -> tuple[str, ...]:
        """Returns what was found as short lines of plain text."""
        if self.is_simulated:
            return ("not compared: a simulation knows its patients",)
        found = []
        if self.num_images or self.num_others:
            what, rule = self._compared()
            largest = f", the largest group has {self.largest} {what}" if self.num_pairs else ""
            counted = " and ".join(f"{n} {kind}" for n, kind in self._kinds() if n)
            found.append(f"{counted} form {self.num_groups} groups ({rule}); {self.num_pairs} pairs{largest}")
            found.append(self.across or "no pair is in two splits")
        if self.num_twins:
            found.append(
                f"{self.num_twins} val and test questions have a look-alike in train; they are scored apart too"
            )
        if self.num_flat:
            what = "images" if not self.num_others else "media"
            found.append(f"{self.num_flat} {what} are too flat to be compared; identical ones are in one split")
        return tuple(found)

    def _kinds(self) -> tuple[tuple[int, str], ...]:
        return (self.num_images, "images"), (self.num_others, "videos and volumes")

    def _compared(self) -> tuple[str, str]:
        images = f"perceptual hashes differ in at most {self.max_distance} of 64 bits"
        others = "perceptual hashes of pictures of them differ in at most 4.5 of 64 bits on average"
        if not self.num_others:
            return "images", images
        return ("media", f"{images}, {others}") if self.num_images else ("videos and volumes", others)


def with_train_twins(
    questions: Sequence[Question], media_digest: Mapping[str, tuple[str, ...]], group_of: Mapping[str, str]
) -> Sequence[Question]:
    """Returns the questions, where those of val and test say in the facet `TRAIN_TWIN` whether train has a look-alike.

    If no question of val or test has one, the questions are returned as they are.

    Args:
        questions: The questions with their splits.
        media_digest: The digests of the images of every media id.
        group_of: The group of look-alikes of every image that was compared, by digest.
    """
    groups = {
        media_id: {group_of[each] for each in digests if each in group_of} for media_id, digests in media_digest.items()
    }
    learnt = {group for question in questions if question.split == "train" for group in groups[question.media_id]}
    held_out: tuple[Split, ...] = ("val", "test")
    if not any(groups[question.media_id] & learnt for question in questions if question.split in held_out):
        return questions
    return [
        replace(q, facets={**q.facets, TRAIN_TWIN: "yes" if groups[q.media_id] & learnt else "no"})
        if q.split in held_out
        else q
        for q in questions
    ]
