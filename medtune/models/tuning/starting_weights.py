"""Computes the weights that learning begins with, where they come from the model itself (PiSSA) or from data.

The words start a projector with weights that come from training data. Both replace ordinary weights that are there
already. They are computed once for a run and kept in a file, because a decomposition comes out differently on another
machine.

Shape legend: M media items, X features of an item, H values that a projector's scores read, K visual tokens, V codes of
a token, C codes in use, E embedding width, I inputs of a layer, R rank or principal components.

PiSSA takes a part out of the adapted weight. A checkpoint of it holds, beside the trained adapters, the adapters as
they were at the beginning, so that `take_out` can make the same remaining weight from the pretrained one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from medtune.models.contract import Model, root_of
from medtune.models.projectors.vocabulary import VocabularyProjector
from medtune.models.sharding.unread import convert_when_read, weights_stay_unread
from medtune.models.tuning.plan import PartName, Tuning
from medtune.models.tuning.quantize import is_lora

if TYPE_CHECKING:
    from peft.tuners.lora import LoraLayer

FAST_PISSA = "pissa_niter_16"
"""peft's name for PiSSA by a fast decomposition with 16 iterations.

An exact one took 17 times as long for a weight of 2048 x 2048 on one core. What the adapters do not take stays in the
weight, so the model is the same either way.

Source: Meng et al. 2024, arXiv 2404.02948; the number of iterations is the one that peft recommends.
"""
LEAST_LESSONS = 20
"""How often the train split asks a question, at least, for a token to say its answers (our own choice)."""
MOST_ITEMS = 2048
"""The number of media items that the words start looks at, at most (our own choice)."""
_PENALTY, _MOST_ROUNDS, _NEVER, _NO_CODE, _LEAST_SPREAD = 0.01, 40, 20.0, -1, 1e-2
"""The weight of the regression's penalty beside its mean loss, the most rounds of its search, how far below the others
the scores of codes without a word lie, a mark, and what is added to the spread of a feature.

Source: measured with pocket on pocket_fetal_phantom_lora's data; docs/training.md has the figures.
"""
Starts = Mapping[str, Tensor]
"""A and B of every PiSSA adapter as they were at the beginning, float32, by the name of the parameter."""
NO_STARTS: Starts = {}
_A, _B = ".lora_A.default.weight", ".lora_B.default.weight"


def parts_with_pissa(tunings: Sequence[Tuning]) -> set[PartName]:
    """Returns the parts whose adapters begin with PiSSA, in any of the tunings."""
    return {
        part
        for each in tunings
        for part, how in each.parts().items()
        if how.mode == "lora" and how.lora.init == "pissa"
    }


def check_starts(model: Model, tunings: Sequence[Tuning]) -> None:
    """Refuses adapted layers that are too small for PiSSA, or of another kind; the weights are not looked at."""
    for name, layer in _adapted(model, parts_with_pissa(tunings)):
        _refuse_layer(name, layer)


def start_pissa(model: Model, parts: set[PartName]) -> Starts:
    """Gives the adapters of some parts their PiSSA weights, takes these out of the weights, and returns them."""
    starts: dict[str, Tensor] = {}
    for name, layer in _adapted(model, parts):
        _refuse_layer(name, layer)
        layer.pissa_init("default", FAST_PISSA)
        for suffix in (_A, _B):
            starts[name + suffix] = model.get_parameter(name + suffix).detach().float().cpu().clone()
    return starts


def take_out(model: nn.Module, starts: Starts) -> None:
    """Takes the beginnings of PiSSA adapters out of the weights that they adapt, in place or when they are read.

    The computation is the one by which peft makes the remaining weight.
    """
    for name in (each.removesuffix(_A) for each in starts if each.endswith(_A)):
        layer = model.get_submodule(name)
        assert is_lora(layer)
        weight = layer.get_base_layer().weight
        assert isinstance(weight, nn.Parameter)
        A, B = (starts[name + suffix].to(weight.device) for suffix in (_A, _B))
        rest = partial(_rest, A, layer.scaling["default"] * B)
        if weights_stay_unread():
            convert_when_read(weight, rest)
        else:
            weight.data = rest(weight.data)


def _rest(A: Tensor, B: Tensor, weight: Tensor) -> Tensor:
    return (weight.float() - B @ A).to(weight.dtype)


class Lesson(NamedTuple):
    """An answer of the train split."""

    item: int  # Number of the media item that the question is about.
    text: str  # The question.
    answer: str


def say_words(
    projector: VocabularyProjector, features_MX: Tensor, lessons: Sequence[Lesson], word: Callable[[str], Tensor]
) -> int:
    """Gives the tokens of a projector the answers to questions as codes, and scores that choose among them.

    Each question's text that is asked often gets a token, or shares one with texts that are rarely asked about the same
    items. Logistic regression tells the answers apart, and the items that nothing is asked about, which the last code
    of a token leaves without a word.

    Args:
        projector: Changed in place.
        features_MX: What the tower says of each media item.
        word: Returns the embedding of an answer, (E,).

    Returns:
        The number of texts whose answers the tokens say.
    """
    texts = repeated_texts(lessons)
    num_tokens, num_codes, _ = projector.codes_KVE.shape
    with torch.no_grad():
        read_MH = projector.read(features_MX.to(projector.score.weight)).float().cpu()
    mean_H, spread_H = read_MH.mean(0), read_MH.std(0) + _LEAST_SPREAD
    known_MH = (read_MH - mean_H) / spread_H
    gram_MM = known_MH @ known_MH.T
    # A weight over the features is one over the items (no more of it can be learnt from them), which are far fewer.
    # A tower that sees no difference between the items leaves hardly a gram.
    ridge = _LEAST_SPREAD * gram_MM.diagonal().mean().clamp_min(1.0)
    basis_MR = torch.linalg.cholesky(gram_MM + ridge * torch.eye(len(gram_MM)))
    weight_KVH = torch.zeros(num_tokens, num_codes, read_MH.shape[1])
    bias_KV, codes_KVE = torch.zeros(num_tokens, num_codes), torch.zeros(projector.codes_KVE.shape)
    for token, said in enumerate(_shared_out(texts, lessons, num_tokens)):
        answers = {lesson.item: lesson.answer for lesson in lessons if lesson.text in said}
        codes = [answer for answer, _ in Counter(answers.values()).most_common(num_codes - 1)]
        if not codes:
            continue
        chosen_M = torch.full((len(read_MH),), num_codes - 1)
        for item, answer in answers.items():
            chosen_M[item] = codes.index(answer) if answer in codes else _NO_CODE
        taught_M = chosen_M != _NO_CODE
        used_C, classes_M = chosen_M[taught_M].unique(return_inverse=True)
        slopes_CR, shifts_C = _told_apart(basis_MR[taught_M], classes_M, len(used_C))
        weight_CM = torch.linalg.solve_triangular(basis_MR, slopes_CR, upper=False, left=False)
        weight_CH = weight_CM @ known_MH / spread_H
        bias_KV[token] = shifts_C.min() - _NEVER
        weight_KVH[token, used_C] = weight_CH
        bias_KV[token, used_C] = shifts_C - weight_CH @ mean_H
        codes_KVE[token, : len(codes)] = torch.stack([word(answer) for answer in codes])
    with torch.no_grad():
        projector.score.weight.copy_(weight_KVH.flatten(0, 1))
        projector.score.bias.copy_(bias_KV.flatten())
        projector.codes_KVE.copy_(codes_KVE)
    return len(texts)


@torch.enable_grad()
def _told_apart(known_MR: Tensor, classes_M: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    slopes_CR = torch.zeros(num_classes, known_MR.shape[1], requires_grad=True)
    shifts_C = torch.zeros(num_classes, requires_grad=True)
    search = torch.optim.LBFGS(
        [slopes_CR, shifts_C], max_iter=_MOST_ROUNDS, history_size=10, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        search.zero_grad()
        scores_MC = known_MR @ slopes_CR.T + shifts_C
        found = nn.functional.cross_entropy(scores_MC, classes_M) + _PENALTY / 2 * slopes_CR.square().sum()
        found.backward()
        return found

    search.step(loss)
    return slopes_CR.detach(), shifts_C.detach()


def _shared_out(texts: Sequence[str], lessons: Sequence[Lesson], num_tokens: int) -> list[set[str]]:
    items = {text: {lesson.item for lesson in lessons if lesson.text == text} for text in texts}
    said: list[set[str]] = [set() for _ in range(num_tokens)]
    taken: list[set[int]] = [set() for _ in range(num_tokens)]
    for text in texts:
        token = min(range(num_tokens), key=lambda each: (len(items[text] & taken[each]), len(taken[each])))
        said[token].add(text)
        taken[token] |= items[text]
    return said


def repeated_texts(lessons: Sequence[Lesson]) -> list[str]:
    """Returns the questions that are asked often enough and have more than one answer, the most frequent first."""
    asked = Counter(lesson.text for lesson in lessons)
    several = Counter(text for text, _ in {(lesson.text, lesson.answer) for lesson in lessons})
    found = [text for text, count in asked.most_common() if count >= LEAST_LESSONS and several[text] > 1]
    if not found:
        raise ValueError(
            "model.projector: vocabulary needs a question about single media items, with options, that the "
            f"train split asks at least {LEAST_LESSONS} times with the same text; leave model.projector out"
        )
    return found


def _adapted(model: Model, parts: set[PartName]) -> list[tuple[str, LoraLayer]]:
    roots = model.part_roots
    return [
        (name, module) for name, module in model.named_modules() if is_lora(module) and root_of(name, roots)[0] in parts
    ]


def _refuse_layer(name: str, layer: LoraLayer) -> None:
    base, rank = layer.get_base_layer(), layer.r["default"]
    if not isinstance(base, nn.Linear):
        raise ValueError(
            f"model.tuning.*.lora.init pissa: {name} is a convolution, and pissa is for linear layers; choose others "
            "with lora.targets, or take the default init"
        )
    least = min(base.in_features, base.out_features)
    if least < rank:
        raise ValueError(
            f"model.tuning.*.lora.init pissa: {name} is {base.in_features} x {base.out_features}, too small for "
            f"lora.r {rank}; lower it to {least}"
        )
