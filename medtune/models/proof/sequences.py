"""Compares medtune's sequences with the checkpoint's own processor: template, visual tokens, end, positions, pixels."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby

import torch
from torch import Tensor

from medtune.data.types import MEDIA_MARK
from medtune.models.contract import Assembled
from medtune.models.proof.checks import Check, Finding, checked
from medtune.models.proof.questions import AskedQuestion, decoded, laid_out
from medtune.models.proof.reference import Reference, as_positions, watched_positions
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.transformers_vlm.generic.model import GenericVlm

_NO_PROCESSOR = "the checkpoint has no processor of its own that writes this"
PIXEL_TOLERANCE = 1e-6
"""The largest difference between two prepared pixels. Both sides run the same code, so that they are equal."""


def sequence_checks(
    assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion]
) -> tuple[Check, ...]:
    """Returns the checks of the sequences of all questions and of the media that they show."""
    return (
        checked("template", lambda: _template(assembled, reference, questions)),
        checked("image tokens", lambda: _image_tokens(assembled, reference, questions)),
        checked("end token", lambda: _end_token(assembled, reference, questions)),
        checked("positions", lambda: _positions(assembled, reference, questions)),
        checked("pixels", lambda: _pixels(assembled, reference, questions)),
    )


def _template(assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion]) -> Finding:
    compared = 0

    def differences() -> Iterator[str]:
        nonlocal compared
        for asked in questions:
            layout = laid_out(asked, None, assembled.template, assembled.transform)
            wanted = reference.ids(asked)
            if wanted is None:
                yield from _words(asked, assembled)
                continue
            compared += 1
            mine, its = _texts(layout.ids, layout), _texts(wanted, layout)
            for place, (here, there) in enumerate(zip(mine, its, strict=False)):
                if here != there:
                    yield _apart(asked, place, "token", _piece(assembled, here), _piece(assembled, there))
            if len(mine) != len(its):
                yield f"{asked.name}: {len(mine)} tokens of text, expected {len(its)}"

    if first := next(differences(), None):
        return False, first
    if compared == 0:
        return True, f"{_NO_PROCESSOR}; the words of {len(questions)} questions and answers stand in their sequences"
    return True, f"the text of {compared} questions equals that of the checkpoint's processor, token by token"


def _texts(ids: Sequence[int], layout: Layout) -> list[int]:
    if not layout.media_spans:
        return list(ids)
    placeholders = _placeholders(layout)
    texts: list[int] = []
    for token, run in groupby(ids):
        texts += [token] if token in placeholders else list(run)
    return texts


def _placeholders(layout: Layout) -> set[int]:
    return {layout.ids[span.start] for span in layout.media_spans}


def _words(asked: AskedQuestion, assembled: Assembled) -> Iterator[str]:
    # An end token that the tokenizer does not mark as special, such as Merlin's, would be decoded as a word.
    unspoken = {IGNORED, *assembled.template.stop_ids}
    for reply in asked.replies:
        layout = laid_out(asked, reply, assembled.template, assembled.transform)
        media = {place for span in layout.media_spans for place in range(span.start, span.stop)}
        ids = [token for place, token in enumerate(layout.ids) if place not in media]
        text = assembled.template.decode(ids)
        learnt = assembled.template.decode([label for label in layout.labels if label not in unspoken])
        earlier = (said for turn in asked.question.turns for said in turn)
        if any(said.replace(MEDIA_MARK, "").strip() not in text for said in (*earlier, asked.prompt.text)):
            yield f"{asked.name}: the sequence reads {text[:80]!r}, in which the question's words do not stand"
        if learnt.strip() != reply.strip():
            yield f"{asked.name}: the tokens that are learnt read {learnt[:80]!r}, expected {reply!r}"


def _image_tokens(assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion]) -> Finding:
    compared: list[int] = []

    def differences() -> Iterator[str]:
        for asked in questions:
            layout = laid_out(asked, None, assembled.template, assembled.transform)
            wanted = reference.ids(asked)
            if wanted is None or not layout.media_spans:
                continue
            # Items without a text between them are one run for a processor.
            apart = [
                span.start
                for number, span in enumerate(layout.media_spans)
                if not number or layout.media_spans[number - 1].stop != span.start
            ]
            runs = [
                (start, max(s.stop for s in layout.media_spans if s.start < stop) - start)
                for start, stop in zip(apart, [*apart[1:], len(layout.ids)], strict=True)
            ]
            its = _runs(wanted, _placeholders(layout))
            if len(runs) != len(its):
                yield f"{asked.name}: {len(runs)} runs of visual tokens, expected {len(its)}"
            for number, (mine, theirs) in enumerate(zip(runs, its, strict=False), 1):
                if mine != theirs:
                    yield (
                        f"{asked.name}: run {number} of the visual tokens has {mine[1]} from place {mine[0]} on, "
                        f"expected {theirs[1]} from place {theirs[0]} on"
                    )
            compared.append(sum(length for _, length in runs))

    if first := next(differences(), None):
        return False, first
    if not compared:
        return None, f"{_NO_PROCESSOR}; the plain forward takes exactly as many visual tokens as the sequences hold"
    return (
        True,
        f"{min(compared)} to {max(compared)} visual tokens in each of {len(compared)} questions, at their places",
    )


def _runs(ids: Sequence[int], placeholders: set[int]) -> list[tuple[int, int]]:
    runs, place = [], 0
    for is_visual, same in groupby(ids, key=placeholders.__contains__):
        length = len(list(same))
        if is_visual:
            runs.append((place, length))
        place += length
    return runs


def _end_token(assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion]) -> Finding:
    ends, wanted = assembled.template.stop_ids, reference.end_id
    if wanted is not None and ends[0] != wanted:
        return False, (
            f"answers are learnt to end with {_piece(assembled, ends[0])}, and by the checkpoint's template they end "
            f"with {_piece(assembled, wanted)}"
        )
    for asked in questions:
        for reply in asked.replies:
            labels = [
                label
                for label in laid_out(asked, reply, assembled.template, assembled.transform).labels
                if label != IGNORED
            ]
            if labels[-1:] != [ends[0]] or ends[0] in labels[:-1]:
                return False, (
                    f"{asked.name}: the answer {reply!r} ends with {_piece(assembled, labels[-1])}, expected "
                    f"{_piece(assembled, ends[0])} once, at its end"
                )
    shown = f"every answer ends with {_piece(assembled, ends[0])}"
    return True, shown if wanted is not None else f"{shown}; the checkpoint's files name none to compare with"


def _positions(assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion]) -> Finding:
    compared = 0
    for asked in questions:
        layout = laid_out(asked, asked.replies[0], assembled.template, assembled.transform)
        with torch.no_grad(), watched_positions(assembled.model) as seen:
            reference.logprobs(asked, asked.replies[0])
        # The places of the generic reader's tokens are transformers' own to number.
        positions = None if isinstance(assembled.model, GenericVlm) else as_positions(seen)
        if positions is None:
            continue
        compared += 1
        for place, (mine, its) in enumerate(zip(layout.positions, positions, strict=False)):
            if mine != its:
                return False, _apart(asked, place, "position", str(mine), str(its))
    if not compared:
        return None, "the language model computes no rotary embeddings whose positions could be seen"
    return True, f"the positions of {compared} sequences are those that the decoder uses in a plain forward"


def _pixels(assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion]) -> Finding:
    compared, largest = 0, 0.0
    for asked in questions:
        wanted = reference.pixels(asked)
        if wanted is None or not asked.media:
            continue
        each = [assembled.transform(decoded(ref, assembled.transform)) for ref in asked.media]
        made = {name: _together([one[name] for one in each if name in one]) for name in dict.fromkeys(chain(*each))}
        compared += len(each)
        for name, mine in made.items():
            its = _same_name(name, mine, wanted)
            if its is None:
                return False, f"{asked.name}: the processor makes no {name} of the shape {tuple(mine.shape)}"
            apart = float((mine.double() - its.double()).abs().max())
            if apart > PIXEL_TOLERANCE:
                return False, f"{asked.name}: {name} differs by up to {apart:.3g} from the processor's"
            largest = max(largest, apart)
    if not compared:
        return None, f"{_NO_PROCESSOR}; medtune's tests compare the preparation with recorded values"
    return True, f"{compared} media items are prepared as by the checkpoint's processor"


def _together(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat([part.flatten() for part in parts])


def _same_name(name: str, mine: Tensor, wanted: Mapping[str, Tensor]) -> Tensor | None:
    its = wanted.get(name)
    if its is None:
        its = wanted.get(f"{name}_videos")
    if its is None:
        return None
    its = torch.as_tensor(its)
    return its.reshape(mine.shape) if its.numel() == mine.numel() else None


def _piece(assembled: Assembled, token: int) -> str:
    return f"{assembled.template.pieces([token])[0]!r} ({token})"


def _apart(asked: AskedQuestion, place: int, what: str, found: str, expected: str) -> str:
    return f"{asked.name}: {what} at place {place} is {found}, expected {expected}"
