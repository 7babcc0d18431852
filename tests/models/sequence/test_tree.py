"""Tests trees of sequences with a common beginning: their nodes, and that they contain all sequences."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medtune.models.sequence.layout import IGNORED, Sequence, Span
from medtune.models.sequence.packing import Shown, ancestors, balanced, batched, pack, spans_of_rows
from medtune.models.sequence.prompts import pad_left
from medtune.models.sequence.tree import ROOT, Tree, grow, grow_within


def _sequence(context: list[int], answer: list[int], *, media: int = 0) -> Sequence:
    """Returns a sequence with `media` visual tokens behind the first token."""
    ids = [*context[:1], *([0] * media), *context[1:], *answer]
    labels = [IGNORED] * (len(ids) - len(answer)) + answer
    spans = (Span(1, 1 + media),) if media else ()
    return Sequence(tuple(ids), tuple(labels), tuple(range(len(ids))), spans)


TOKENS = st.lists(st.integers(1, 3), min_size=1, max_size=6)
SEQUENCES = st.lists(st.builds(_sequence, TOKENS, TOKENS, media=st.just(2)), min_size=1, max_size=6)


def _path(tree: Tree, node: int) -> list[int]:
    """Returns the nodes from the root to `node`."""
    path: list[int] = []
    while node != ROOT:
        path.append(node)
        node = tree.parents[node]
    return path[::-1]


@given(SEQUENCES)
def test_every_target_is_read_after_just_the_tokens_before_it(sequences: list[Sequence]) -> None:
    tree = grow(sequences, range(len(sequences)))
    wanted = [
        (number, tuple(s.ids[:place]), tuple(s.positions[:place]), s.labels[place])
        for number, s in enumerate(sequences)
        for place in range(1, len(s.ids))
        if s.labels[place] != IGNORED
    ]
    found = []
    for node, id_, sequence in tree.targets:
        path = _path(tree, node)
        found.append((sequence, tuple(tree.ids[n] for n in path), tuple(tree.positions[n] for n in path), id_))
    assert sorted(found) == sorted(wanted)


@given(SEQUENCES)
def test_mask_shows_a_node_itself_and_what_leads_to_it(sequences: list[Sequence]) -> None:
    tree = grow(sequences, range(len(sequences)))
    seen = ancestors(tree)
    for node in range(len(tree.ids)):
        assert seen[node].nonzero().flatten().tolist() == sorted(_path(tree, node))


def test_options_of_one_question_share_it_and_their_last_token_has_no_node() -> None:
    sequences = [_sequence([1, 2, 3], [7, 9]), _sequence([1, 2, 3], [8, 9])]
    tree = grow(sequences, [0, 1])
    assert tree.ids == (1, 2, 3, 7, 8)
    assert tree.parents == (ROOT, 0, 1, 2, 2)
    assert [(t.node, t.id, t.sequence) for t in tree.targets] == [(2, 7, 0), (3, 9, 0), (2, 8, 1), (4, 9, 1)]


def test_an_option_that_continues_another_keeps_its_token() -> None:
    tree = grow([_sequence([1], [7, 9]), _sequence([1], [7, 9, 9])], [0, 1])
    assert tree.ids == (1, 7, 9)


def test_image_is_in_the_tree_once() -> None:
    tree = grow([_sequence([1, 2], [7], media=4), _sequence([1, 3], [7], media=4)], [0, 1])
    assert tree.media_spans == (Span(1, 5),)
    assert tree.ids == (1, 0, 0, 0, 0, 2, 3)


@given(SEQUENCES, st.integers(1, 30))
def test_trees_within_a_budget_hold_every_sequence_once(sequences: list[Sequence], budget: int) -> None:
    trees = grow_within(sequences, range(len(sequences)), max_tokens=budget)
    held = [sorted({target.sequence for target in tree.targets}) for tree in trees]
    assert [number for numbers in held for number in numbers] == list(range(len(sequences)))
    for tree, numbers in zip(trees, held, strict=True):
        assert len(tree.ids) <= budget or len(numbers) == 1
    for (one, mine), (_, next_) in pairwise(zip(trees, held, strict=True)):
        both = grow([sequences[i] for i in [*mine, next_[0]]], [0] * (len(mine) + 1))
        assert len(both.ids) > budget, "a tree was closed although the next sequence would have fitted"
        assert one.targets


@given(SEQUENCES, st.integers(0, 40), st.integers(1, 80))
def test_rows_and_batches_hold_every_tree_once(sequences: list[Sequence], row_tokens: int, batch_tokens: int) -> None:
    trees = [Shown(grow([s], [number]), 0) for number, s in enumerate(sequences)]
    rows = balanced(trees, row_tokens=row_tokens)
    batches = list(batched(rows, batch_tokens=batch_tokens))
    held = [shown.tree.targets[0].sequence for batch in batches for row in batch for shown in row]
    assert sorted(held) == list(range(len(sequences)))
    longest = max(len(shown.tree.ids) for shown in trees)
    sizes = [sum(len(shown.tree.ids) for shown in row) for row in rows]
    assert all(sizes)
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= longest, "rows are about equally long"
    assert row_tokens or len(rows) == len(trees)
    for batch in batches:
        padded = max(sum(len(shown.tree.ids) for shown in row) for row in batch) * len(batch)
        assert padded <= batch_tokens or len(batch) == 1


def test_trees_in_one_row_do_not_see_each_other_and_padding_sees_itself() -> None:
    first, second = grow([_sequence([1, 2], [7, 9])], [0]), grow([_sequence([3], [8, 9], media=2)], [1])
    rows = pack([[Shown(first, None), Shown(second, 5)], [Shown(first, None)]], pad_id=99)
    assert rows.ids_BL.tolist() == [[1, 2, 7, 3, 0, 0, 8], [1, 2, 7, 99, 99, 99, 99]]
    assert rows.positions_BL[0].tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert not rows.mask_BLL[0, 3:, :3].any()
    assert not rows.mask_BLL[0, :3, 3:].any()
    assert torch.equal(rows.mask_BLL[1, 3:], torch.eye(7, dtype=torch.bool)[3:])
    assert rows.num_tokens == 10
    assert rows.media_S.tolist() == [5]
    assert rows.media_BL[0].nonzero().flatten().tolist() == [4, 5]
    targets = zip(*(column.tolist() for column in rows[-4:]), strict=True)
    assert list(targets) == [(0, 1, 7, 0), (0, 2, 9, 0), (0, 5, 8, 1), (0, 6, 9, 1), (1, 1, 7, 0), (1, 2, 9, 0)]


def test_positions_of_three_axes_keep_them_and_tell_tokens_apart() -> None:
    one, other = (
        Sequence((1, 3, 3, 2, 9), (IGNORED,) * 4 + (9,), positions, ())
        for positions in (
            ((0, 0, 0), (1, 1, 1), (1, 1, 2), (3, 3, 3), (4, 4, 4)),
            ((0, 0, 0), (1, 1, 1), (1, 2, 1), (3, 3, 3), (4, 4, 4)),
        )
    )
    tree = grow([one, other], [0, 1])
    assert tree.parents == (ROOT, 0, 1, 2, 1, 4), "the third token stands elsewhere"
    rows = pack([[Shown(tree, None)]], pad_id=9)
    assert torch.equal(rows.positions_BL[0], torch.tensor([*one.positions[:4], *other.positions[2:4]]))
    left = pad_left([one, _sequence_of_three(2)], [None, None], pad_id=9)
    assert left.positions_BL.shape == (2, 5, 3)
    assert left.positions_BL[1].tolist() == [[0] * 3, [0] * 3, [0] * 3, [0] * 3, [1] * 3]
    assert left.attention_BL[1].tolist() == [False, False, False, True, True]


def _sequence_of_three(length: int) -> Sequence:
    return Sequence((1,) * length, (IGNORED,) * length, tuple((n, n, n) for n in range(length)), ())


def test_what_rows_show_is_counted_by_row() -> None:
    shown, text = grow([_sequence([1], [7], media=2)], [0]), grow([_sequence([1], [7])], [1])
    twice = grow([_sequence([1], [7], media=2), _sequence([2], [7], media=2)], [2, 3])
    rows = pack([[Shown(text, None)], [Shown(twice, 4)], [Shown(shown, 1)]], pad_id=0)
    assert spans_of_rows(rows.media_BL, rows.media_S, rows.length_S) == ((), ((4, 2), (4, 2)), ((1, 2),))
    for first in (1, 2):
        with pytest.raises(ValueError, match="cut through its image"):
            spans_of_rows(rows.media_BL & (torch.arange(rows.media_BL.shape[1]) > first), rows.media_S, rows.length_S)


def test_a_tree_with_room_for_an_image_needs_one() -> None:
    with pytest.raises(ValueError, match="room for an image"):
        pack([[Shown(grow([_sequence([1], [7], media=2)], [0]), None)]], pad_id=0)
