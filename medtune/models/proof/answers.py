"""Compares medtune's answers with those of plain transformers: likelihoods of options, replies, and shared rows.

Also checks that a token is predicted from those before it alone: the likelihood of an answer may not see the answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from medtune.data.types import MediaRef, Prediction, Reading
from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item
from medtune.models.proof.checks import Check, Finding, checked
from medtune.models.proof.questions import AskedQuestion, laid_out, visits
from medtune.models.proof.reference import Reference
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.tuning.quantize import Precise

ROLE = re.compile(
    r"(?im)^\s*(?:<\W?)?(?:assistant|user|human|system|model)(?:\W?>)?\s*(?::|$)|\b(?:ASSISTANT|USER|HUMAN):"
)
"""A line that holds only the name of a role, or a role with a colon, as chat templates write them."""
CONTROL = re.compile(r"<\|[\w ]+\|>|</?s>|<(?:image|video|pad|unk|start_of_turn|end_of_turn)>|\[/?INST\]|<IMG_CONTEXT>")
"""Control tokens and placeholders as published templates spell them."""
_ECHO = 24
"""The number of characters of a prompt that a reply has to repeat to count as an echo of it."""

MOVES_MORE = 2.0
"""How much further another media item has to move the answers than rounding does."""
Answers = Mapping[str, Prediction]
"""Answers by the id of the question."""
Replies = dict[str, list[int]]
"""The tokens of replies by the id of the question."""
Read = Callable[[bool], Answers]
"""Reads the likelihoods of all options, from shared rows or from a row for each."""


def leaked(reply: str, prompt: str, control: Iterable[str] = ()) -> str | None:
    r"""Returns what of the template stands in a reply, in words; None where nothing does.

    >>> leaked("B. head\nassistant\n", "Which plane?")
    "the header of a role, 'assistant'"
    """
    for token in control:
        if token.strip() and token in reply:
            return f"the control token {token!r}"
    if match := CONTROL.search(reply):
        return f"the control token {match.group()!r}"
    match = ROLE.search(reply)
    # A reply of a single word may be an answer, such as "human".
    if match and (":" in match.group() or "\n" in reply.strip()):
        return f"the header of a role, {match.group().strip()!r}"
    start = " ".join(prompt.split())[:_ECHO]
    if len(start) == _ECHO and start in " ".join(reply.split()):
        return f"the beginning of the question, {start!r}"
    return None


@dataclass(frozen=True, slots=True)
class Asking:
    """How the questions of a proof are asked, on medtune's side."""

    device: torch.device
    precise: Precise
    tolerance: float  # The largest difference between two log-probabilities of a token that is put down to rounding.
    batch_tokens: int = 4096  # Largest number of tokens in a forward pass.
    batch_size: int = 8
    max_new_tokens: int = 16  # Largest number of tokens of a reply.
    moves: float = 0.0  # How far another media item has to move a log-probability at least.


def answer_checks(
    assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion], asking: Asking
) -> tuple[Check, ...]:
    """Returns the checks of the answers to all questions; the model is left in evaluation mode."""
    assembled.model.eval()
    asked_of = [asked for asked in questions if asked.prompt.choices]

    @cache
    def read(share: bool) -> Answers:
        return answered(assembled, asked_of, asking, reading="likelihood", share=share)

    @cache
    def said() -> tuple[Answers, Replies]:
        ids: Replies = {}
        return answered(assembled, questions, asking, reading="generation", on_reply=ids.__setitem__), ids

    def with_options(look: Callable[[], Finding]) -> Callable[[], Finding]:
        return look if asked_of else lambda: (None, "no question has options")

    return (
        checked("option order", with_options(lambda: _option_order(asked_of))),
        checked("options", with_options(lambda: _options(read(True), reference, asked_of, asking))),
        checked("media are seen", lambda: _media_seen(read, assembled, asked_of, asking)),
        checked("replies", lambda: _replies(said()[1], assembled, reference, questions, asking)),
        checked("sharing", lambda: _sharing(read, assembled, asked_of, asking)),
        checked("answers are hidden", lambda: _hidden(assembled, questions, asking)),
        checked("template leaks", lambda: _leaks(said()[0], assembled, questions)),
    )


def answered(
    assembled: Assembled,
    questions: Sequence[AskedQuestion],
    asking: Asking,
    *,
    reading: Reading,
    share: bool = True,
    on_reply: Callable[[str, list[int]], None] | None = None,
) -> Answers:
    """Returns medtune's answers by the id of the question, from the code that evaluates a model."""
    answerer = LocalAnswerer(
        assembled,
        device=asking.device,
        batch_tokens=asking.batch_tokens,
        batch_size=asking.batch_size,
        max_new_tokens=asking.max_new_tokens,
        precise=asking.precise,
        share_prefix=share,
        on_reply=on_reply,
    )
    asked = visits(questions, reading)
    answerer.expect(asked)
    return {told.key.question_id: told for group, requests in asked for told in answerer.answer(group, requests)}


def _option_order(asked_of: Sequence[AskedQuestion]) -> Finding:
    for asked in asked_of:
        options, choices = asked.question.options, asked.prompt.choices
        if len(options) != len(choices):
            return False, f"{asked.name}: {len(choices)} replies for {len(options)} options"
        right = options.index(asked.question.answer)
        if choices[right] != asked.prompt.target:
            return False, (
                f"{asked.name}: the right answer {asked.question.answer!r} is option {right + 1}, whose reply is "
                f"{choices[right]!r}; the reply that is learnt is {asked.prompt.target!r}"
            )
    return True, f"the reply that is learnt is that of the right option in {len(asked_of)} questions"


@torch.no_grad()
def _options(found: Answers, reference: Reference, asked_of: Sequence[AskedQuestion], asking: Asking) -> Finding:
    largest, read = 0.0, 0
    for asked in asked_of:
        mine = found[asked.question.id].option_logprobs or ()
        for number, (option, value) in enumerate(zip(asked.replies, mine, strict=True), 1):
            told_T = reference.logprobs(asked, option)
            wanted = float(told_T.sum())
            apart = abs(value - wanted) / len(told_T)
            if not apart <= asking.tolerance:
                return False, (
                    f"{asked.name}: option {number} ({option!r}) has the log-probability {value:.4f}, plain "
                    f"transformers says {wanted:.4f} ({len(told_T)} tokens; allowed are {asking.tolerance:g} each)"
                )
            largest, read = max(largest, apart), read + 1
    return True, (
        f"log-probabilities of {read} options of {len(asked_of)} questions are at most {largest:.2g} a token off plain "
        f"transformers' (allowed: {asking.tolerance:g})"
    )


def _media_seen(read: Read, assembled: Assembled, asked_of: Sequence[AskedQuestion], asking: Asking) -> Finding:
    changed = list(_with_other_media(asked_of))
    if not changed:
        return None, "all questions are about one media item, or none has options"
    moved = _furthest(answered(assembled, changed, asking, reading="likelihood"), read(True), changed)
    # The same answers from rows of their own tell how much rounding alone moves them.
    rounding = _furthest(read(False), read(True), changed)
    if moved <= max(MOVES_MORE * rounding, asking.moves):
        return False, (
            f"another media item moves no log-probability by more than {moved:.2g}, and rounding alone by "
            f"{rounding:.2g}: the media are not read, or the other checks cannot tell"
        )
    return True, f"another media item moves a log-probability by {moved:.2g}, rounding alone by {rounding:.2g}"


def _furthest(left: Answers, right: Answers, questions: Sequence[AskedQuestion]) -> float:
    return max(
        abs(a - b)
        for name in (asked.question.id for asked in questions)
        for a, b in zip(left[name].option_logprobs or (), right[name].option_logprobs or (), strict=True)
    )


def _with_other_media(questions: Sequence[AskedQuestion]) -> Iterator[AskedQuestion]:
    for asked in questions:
        kinds = [ref.kind for ref in asked.files]
        others = (each for each in questions if [ref.kind for ref in each.files] == kinds)
        other = next((each for each in others if each.files != asked.files), None)
        if other is not None:
            yield AskedQuestion(asked.question, other.media, asked.prompt)


def _replies(
    replies: Replies, assembled: Assembled, reference: Reference, questions: Sequence[AskedQuestion], asking: Asking
) -> Finding:
    near = 0
    for asked in questions:
        said, told = replies[asked.question.id], reference.reply(asked, max_new_tokens=asking.max_new_tokens)
        place = next((n for n, (a, b) in enumerate(zip(said, told.ids, strict=False)) if a != b), None)
        if place is None and len(said) != len(told.ids):
            return False, f"{asked.name}: a reply of {len(said)} tokens, plain transformers says {len(told.ids)}"
        if place is None:
            continue
        behind = float(told.logprobs_NV[place].max() - told.logprobs_NV[place, said[place]])
        if behind > asking.tolerance:
            mine, its = (assembled.template.pieces([ids[place]])[0] for ids in (said, told.ids))
            return False, (
                f"{asked.name}: token {place + 1} of the reply is {mine!r}, plain transformers says {its!r} "
                f"(more likely by {behind:.3g}; allowed: {asking.tolerance:g})"
            )
        near += 1
    ties = f"; {near} part at a near tie" if near else ""
    return True, f"greedy replies to {len(questions)} questions equal plain transformers' token by token{ties}"


def _sharing(read: Read, assembled: Assembled, asked_of: Sequence[AskedQuestion], asking: Asking) -> Finding:
    if (why := assembled.model.plain_because) is not None:
        return None, f"every sequence has a row of its own: {why}"
    if not asked_of:
        return None, "no question has options"
    shared, plain = read(True), read(False)
    largest = 0.0
    for asked in asked_of:
        mine, its = shared[asked.question.id], plain[asked.question.id]
        counts = mine.option_tokens or ()
        for number, (a, b, tokens) in enumerate(
            zip(mine.option_logprobs or (), its.option_logprobs or (), counts, strict=True), 1
        ):
            apart = abs(a - b) / tokens
            if not apart <= asking.tolerance:
                return False, (
                    f"{asked.name}: option {number} has the log-probability {a:.4f} in a shared row and {b:.4f} in a "
                    "row of its own"
                )
            largest = max(largest, apart)
    return True, f"shared rows and a row for each option differ by at most {largest:.2g} a token"


@torch.no_grad()
def _hidden(assembled: Assembled, questions: Sequence[AskedQuestion], asking: Asking) -> Finding:
    largest = 0.0
    for asked in questions[:2]:
        layout = laid_out(asked, asked.replies[0], assembled.template, assembled.transform)
        first = len(layout.ids) - layout.num_targets
        # All tokens of the answer become its first one.
        other = (*layout.ids[: first + 1], *(layout.ids[first],) * (layout.num_targets - 1))
        changed = replace(layout, ids=other, labels=(*layout.labels[:first], *other[first:]))
        own, its = (_logprobs(assembled, asked, each, asking.precise)[0] for each in (layout, changed))
        apart = abs(own - its)
        if apart > asking.tolerance:
            return False, (
                f"{asked.name}: the first token of the answer {asked.replies[0]!r} becomes more or less likely by "
                f"{apart:.3g} when the tokens behind it change, so that the model reads the answer before it says it"
            )
        largest = max(largest, apart)
    return True, f"changing the end of an answer moves its first token by at most {largest:.2g}"


def target_logprobs(assembled: Assembled, questions: Sequence[AskedQuestion], *, precise: Precise) -> list[list[float]]:
    """Returns the log-probability of each token of each right answer, computed by medtune; evaluation mode stays."""
    assembled.model.eval()
    template, transform = assembled.template, assembled.transform
    return [
        _logprobs(assembled, asked, laid_out(asked, asked.prompt.target, template, transform), precise)
        for asked in questions
    ]


@torch.no_grad()
def _logprobs(assembled: Assembled, asked: AskedQuestion, layout: Layout, precise: Precise) -> list[float]:
    device, transform = next(assembled.model.parameters()).device, assembled.transform
    rows = pack([[Shown(grow([layout], [0]), asked.first)]], pad_id=assembled.template.pad_id).to(device)
    items = [read_item(each, transform) if isinstance(each, MediaRef) else transform(each) for each in asked.media]
    with precise():
        encoded = assembled.model.encode(transform.stack(items)) if items else None
        read = assembled.model(rows, encoded)
    found: list[float] = read.logprobs_T[rows.target_place_T.argsort()].float().tolist()
    return found


def _leaks(found: Answers, assembled: Assembled, questions: Sequence[AskedQuestion]) -> Finding:
    ends = assembled.template.pieces(assembled.template.stop_ids)
    for asked in questions:
        text = found[asked.question.id].text or ""
        if leak := leaked(text, asked.prompt.text, ends):
            return False, f"{asked.name}: the reply {text[:80]!r} holds {leak}"
    return True, f"no piece of the template in {len(questions)} replies"
