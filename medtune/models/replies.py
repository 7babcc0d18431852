"""Grows replies as leaves of the trees that hold their prompts: one row, one prefill and one cache for all of them.

Options whose likelihoods are asked for stand in the same trees, so that a prompt is read once for both. A reply's
tokens stand behind the row in memory, and their ranks say whose leaves they are. One that has ended is asked no
further; its keys stay, and nobody sees them. The index of the largest value of logits / temperature + Gumbel noise is
an exact draw from softmax(logits / temperature). A reply depends only on its own seed: neither the other replies that
are drawn together with it nor an interruption of the evaluation change it.

Shape legend: B rows, R replies, A replies that still grow, L tokens of the row, C columns, K tokens so far, E embedding
width, V vocabulary.

Source: Maddison, Tarlow and Minka, A* Sampling, arXiv 1411.0030, section 2 (the Gumbel-max trick); Holtzman et al., The
Curious Case of Neural Text Degeneration, arXiv 1904.09751, section 3.1 (the nucleus of top-p).
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from medtune.models.attention import BLOCK, END, NO_BLOCK, PLACE, RANK
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import PackedRows, Shown
from medtune.models.sequence.tree import grow_within

CHANGED_BEHIND = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Settings of transformers' models that change the logits after the output layer."""


def changes_behind(language: PreTrainedModel) -> dict[str, float]:
    """Returns the settings by which a language model changes its logits after the output layer, with their values."""
    config, kind = language.config.get_text_config(), cast("type", type(language))
    found = {name: getattr(config, name, None) for name in _named_in_forward(kind)}
    return {name: float(value) for name, value in found.items() if value not in (None, 1, 1.0)}


@cache
def _named_in_forward(kind: type) -> tuple[str, ...]:
    # The configuration does not tell: Cohere2ForCausalLM multiplies by `logit_scale`, and Aya Vision, whose language
    # model has the same configuration, does not.
    said = ""
    for each in kind.__mro__:
        if "forward" in vars(each):
            said += inspect.getsource(vars(each)["forward"])
            if "super().forward" not in said:
                break
    return tuple(name for name in CHANGED_BEHIND if name in said)


def changed(logits_TV: Tensor, changes: dict[str, float]) -> Tensor:
    """Returns the logits as the model's own forward gives them.

    Source: transformers, `forward` of Gemma2ForCausalLM, CohereForCausalLM and GraniteForCausalLM.
    """
    if (scale := changes.get("logit_scale")) is not None:
        logits_TV = logits_TV * scale
    if (divisor := changes.get("logits_scaling")) is not None:
        logits_TV = logits_TV / divisor
    if (cap := changes.get("final_logit_softcapping")) is not None:
        logits_TV = torch.tanh(logits_TV / cap) * cap
    return logits_TV


@contextmanager
def drawn(model: nn.Module, *, temperature: float, seeds: Sequence[int], top_p: float = 1.0) -> Iterator[None]:
    """Makes the model draw the tokens that it generates inside the context.

    Args:
        model: The model, which contains a language model of transformers. It chooses greedily again when the context
            ends.
        temperature: Temperature of the sampling, above 0; 1 draws from the model's own distribution.
        seeds: One seed for each row of the batch, in the order of the rows; the same seed draws the same noise.
        top_p: The probability of the likeliest tokens that are drawn from, above 0; 1 draws from all.
    """
    if temperature <= 0:
        raise ValueError(f"the temperature is {temperature}; it must be above 0, and 0 is the greedy choice")
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def noisy(layer: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> Tensor:
        if logits.shape[0] != len(generators):
            raise ValueError(f"{len(generators)} seeds for a batch of {logits.shape[0]} rows")
        noise_BV = torch.stack([gumbel(logits.shape[-1], generator) for generator in generators])
        spread = noise_BV.view(len(generators), *[1] * (logits.dim() - 2), -1)
        return nucleus(logits.float() / temperature, top_p) + spread.to(logits.device)

    hook = drawable(model).register_forward_hook(noisy)
    try:
        yield
    finally:
        hook.remove()


def nucleus(logits_AV: Tensor, top_p: float) -> Tensor:
    """Returns the logits with -inf for all but the likeliest tokens, which together have the probability `top_p`.

    >>> nucleus(torch.tensor([0.5, 0.3, 0.2]).log(), 0.6).exp()
    tensor([0.5000, 0.3000, 0.0000])
    """
    if top_p >= 1:
        return logits_AV
    sorted_AV, order_AV = logits_AV.sort(dim=-1, descending=True)
    shares_AV = sorted_AV.softmax(dim=-1)
    # A token is left out where those before it have the probability already; the first one never is.
    beyond_AV = shares_AV.cumsum(dim=-1) - shares_AV >= top_p
    return logits_AV.masked_fill(torch.zeros_like(beyond_AV).scatter(-1, order_AV, beyond_AV), -torch.inf)


def gumbel(size: int, generator: torch.Generator) -> Tensor:
    """Returns standard Gumbel noise, drawn on the CPU so that it is the same for every device."""
    return -torch.empty(size).exponential_(generator=generator).log()


def drawable(model: nn.Module) -> nn.Module:
    """Returns the output layer from whose logits replies can be drawn."""
    for part in model.modules():
        layer: nn.Module | None = part.get_output_embeddings() if isinstance(part, PreTrainedModel) else None
        if isinstance(part, PreTrainedModel) and layer is not None:
            if odd := changes_behind(part):
                raise ValueError(
                    f"the language model changes its logits by {next(iter(odd))} after its output layer, and replies "
                    "cannot be drawn from it; set eval.temperature=0"
                )
            return layer
    raise ValueError("the model has no language model of transformers to draw from; set eval.temperature=0")


class Wanted(NamedTuple):
    leaf: int  # The place in the row of the last token of its prompt.
    max_new_tokens: int  # Its largest length in tokens, at least 1.
    stop_ids: tuple[int, ...]  # The tokens that end it.
    seed: int = 0
    temperature: float = 0.0  # Temperature at which it is drawn; 0 is the greedy choice, which needs no seed.
    top_p: float = 1.0  # The probability of the likeliest tokens that it is drawn from.


class NewTokens(NamedTuple):
    """The tokens that are read next, one of each reply that grows."""

    ids_1A: Tensor  # Their ids, int64.
    positions_1A: Tensor  # Their position ids, int64, (1, A) or (1, A, 3).
    columns_1CK: Tensor  # Who sees whom, int64: the columns of all tokens so far, theirs last.
    leaf_A: Tensor  # The place in the row at which each one's prompt ends, int64.


Read = Callable[[NewTokens | None], Tensor]
"""Reads the row (None), and then new tokens, into one cache; returns their hidden states, (L, E) or (A, E)."""


class Grown(NamedTuple):
    ids: list[list[int]]  # The ids of each reply, its end token included where it said one.
    states_TE: Tensor  # The hidden states of the row in the places where its targets are predicted.


def places_read(rows: PackedRows, wanted: Sequence[Wanted]) -> tuple[Tensor, Tensor]:
    """Returns the row and the place of each state of one row that replies and targets are read from, int64 (P,)."""
    leaf_R = torch.tensor([each.leaf for each in wanted], dtype=torch.int64, device=rows.ids_BL.device)
    place_P = torch.cat([leaf_R, rows.target_place_T])
    return torch.zeros_like(place_P), place_P


@torch.no_grad()
def grown(rows: PackedRows, wanted: Sequence[Wanted], read: Read, output_layer: Callable[[Tensor], Tensor]) -> Grown:
    """Returns the replies, and what the row's own targets are read from.

    Args:
        rows: One row, with the trees of all prompts.
        wanted: The replies, one at least; those to one prompt share its leaf.
    """
    if len(rows.ids_BL) != 1:
        raise ValueError(f"replies grow behind one row, and there are {len(rows.ids_BL)}")
    device = rows.ids_BL.device
    leaf_R = torch.tensor([each.leaf for each in wanted], device=device)
    columns_CK, first_CR = _with_room(rows.columns_BCL[0], leaf_R, wanted)
    first_position_R = rows.positions_BL[0, leaf_R] + 1
    generators = [torch.Generator().manual_seed(each.seed) if each.temperature else None for each in wanted]
    replies: list[list[int]] = [[] for _ in wanted]
    alive = list(range(len(wanted)))
    hidden_LE = read(None)
    hidden_AE, states_TE = hidden_LE[leaf_R], hidden_LE[rows.target_place_T]
    del hidden_LE
    while True:
        noisy_AV = output_layer(hidden_AE).float()
        for row, number in enumerate(alive):
            if (generator := generators[number]) is not None:
                drawn_V = gumbel(noisy_AV.shape[1], generator).to(device)
                spread_V = nucleus(noisy_AV[row] / wanted[number].temperature, wanted[number].top_p)
                noisy_AV[row] = spread_V + drawn_V
        for number, id_ in zip(alive, noisy_AV.argmax(dim=-1).tolist(), strict=True):
            replies[number].append(id_)
        alive = [number for number in alive if not _has_ended(replies[number], wanted[number])]
        if not alive:
            return Grown(replies, states_TE)
        alive_A = torch.tensor(alive, device=device)
        behind_A = torch.tensor([len(replies[number]) - 1 for number in alive], device=device)
        new_CA = first_CR[:, alive_A]
        new_CA[RANK] += behind_A
        new_CA[PLACE] += behind_A
        columns_CK = torch.cat([columns_CK, new_CA], dim=1)
        position_A = first_position_R[alive_A]
        position_A = position_A + (behind_A if position_A.dim() == 1 else behind_A.unsqueeze(1))
        ids_A = torch.tensor([replies[number][-1] for number in alive], device=device)
        new = NewTokens(ids_A.unsqueeze(0), position_A.unsqueeze(0), columns_CK.unsqueeze(0), leaf_R[alive_A])
        hidden_AE = read(new)


def _has_ended(ids: Sequence[int], wanted: Wanted) -> bool:
    return ids[-1] in wanted.stop_ids or len(ids) >= wanted.max_new_tokens


def _with_room(columns_CL: Tensor, leaf_R: Tensor, wanted: Sequence[Wanted]) -> tuple[Tensor, Tensor]:
    """Returns the columns of a row with ranks to spare behind each of its own, and those of each reply's first token.

    The row's ranks are spread out so far that the ranks of all replies fit between two of them. A reply's ranks lie
    right behind that of its leaf, before those of the leaf's descendants, and the replies to one prompt lie side by
    side.
    """
    spread = 1 + sum(each.max_new_tokens for each in wanted)
    columns_CL = columns_CL.clone()
    columns_CL[[RANK, END]] *= spread
    taken: Counter[int] = Counter()
    skipped = []
    for each in wanted:
        skipped.append(taken[each.leaf])
        taken[each.leaf] += each.max_new_tokens
    first_CR = columns_CL[:, leaf_R]
    first_CR[RANK] += 1 + torch.tensor(skipped, device=leaf_R.device)
    first_CR[END] = first_CR[RANK] + torch.tensor([each.max_new_tokens for each in wanted], device=leaf_R.device)
    first_CR[PLACE] += 1
    first_CR[BLOCK] = NO_BLOCK
    return columns_CL, first_CR


class Prompted(NamedTuple):
    layout: Layout  # The sequence of the prompt, without an answer; or one with an answer, to which none grows.
    media: int | None  # Number of the first media item that it shows; None where it shows none.
    new_tokens: int = 0  # The largest length of its reply in tokens; 0 where none grows.


class ReplyRow(NamedTuple):
    trees: list[Shown]
    numbers: list[int]  # The numbers of its sequences, which its targets have too.
    leaves: list[int]  # The place in the row at which each of them ends.


def reply_rows(prompts: Mapping[int, Prompted], *, batch_tokens: int, one_tree: bool = False) -> Iterator[ReplyRow]:
    """Yields rows that hold all sequences, each once, with as many trees in a row as fit.

    Sequences with media and sequences without are in different rows. What counts are the nodes of the trees and the
    tokens of the replies.

    Args:
        prompts: The sequences by their numbers.
        batch_tokens: Largest number of tokens of a row; a tree may have more by what its prompts share
            (`grow_within`), and then has the row for itself.
        one_tree: Whether each tree with media has the row for itself (`Model.mixes_images`).
    """
    order = sorted(prompts, key=lambda number: (prompts[number].media is None, prompts[number].media or 0))
    row, taken = ReplyRow([], [], []), 0
    is_blind = False
    for media, same in groupby(order, key=lambda number: prompts[number].media):
        numbers = list(same)
        layouts = [prompts[number].layout for number in numbers]
        rooms = [prompts[number].new_tokens for number in numbers]
        for tree in grow_within(layouts, numbers, max_tokens=batch_tokens, rooms=rooms):
            held, numbers = numbers[: len(tree.leaves)], numbers[len(tree.leaves) :]
            size = len(tree.ids) + sum(prompts[number].new_tokens for number in held)
            is_alone = one_tree and media is not None
            if row.trees and (is_alone or taken + size > batch_tokens or (media is None) != is_blind):
                yield row
                row, taken = ReplyRow([], [], []), 0
            first = sum(len(shown.tree.ids) for shown in row.trees)
            row.trees.append(Shown(tree, media))
            row.numbers.extend(held)
            row.leaves.extend(first + leaf for leaf in tree.leaves)
            taken, is_blind = taken + size, media is None
    if row.trees:
        yield row
