"""Checks that a token is predicted from those before it alone: an answer's likelihood may not see the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking
from medtune.models.doctor.asked import AskedQuestion, laid_out
from medtune.models.doctor.check import Check, Finding, checked
from medtune.models.media_item import read_item
from medtune.models.sequence.layout import Sequence as Layout
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow


def hidden_check(assembled: Assembled, questions: Sequence[AskedQuestion], asking: Asking) -> Check:
    """Returns the check that no token of an answer changes when the tokens behind it change."""
    return checked("answers are hidden", lambda: _hidden(assembled, questions, asking))


@torch.no_grad()
def _hidden(assembled: Assembled, questions: Sequence[AskedQuestion], asking: Asking) -> Finding:
    family, transform = assembled.family, assembled.transform
    largest = 0.0
    for asked in questions[:2]:
        layout = laid_out(asked, asked.replies[0], family, transform)
        first = len(layout.ids) - layout.num_targets
        # All tokens of the answer become its first one.
        other = (*layout.ids[: first + 1], *(layout.ids[first],) * (layout.num_targets - 1))
        changed = replace(layout, ids=other, labels=(*layout.labels[:first], *other[first:]))
        with asking.precise():
            encoded = assembled.model.encode(transform.stack([read_item(asked.media, transform)]))
            own, its = (_first_logprob(assembled, each, encoded, asking) for each in (layout, changed))
        apart = abs(own - its)
        if apart > asking.tolerance:
            return False, (
                f"{asked.name}: the first token of the answer {asked.replies[0]!r} becomes more or less likely by "
                f"{apart:.3g} when the tokens behind it change, so that the model reads the answer before it says it"
            )
        largest = max(largest, apart)
    return True, f"changing the end of an answer moves its first token by at most {largest:.2g}"


def _first_logprob(assembled: Assembled, layout: Layout, encoded: object, asking: Asking) -> float:
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.family.pad_id).to(asking.device)
    read = assembled.model(rows, encoded)
    return float(read.logprobs_T[rows.target_place_T.argmin()])
