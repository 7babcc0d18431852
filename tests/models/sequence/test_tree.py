"""Tests trees of sequences with a common beginning: their nodes, and that they contain all sequences."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medtune.models.attention import BLOCK, PLACE, sees
from medtune.models.sequence.builder import IGNORED, Sequence, Span
from medtune.models.sequence.packing import PackedRows, Shown, balanced, batched, pack, pad_left, spans_of_rows
from medtune.models.sequence.tree import ROOT, Tree, grow, grow_within


def _sequence(context: list[int], answer: list[int], *, media: int = 0) -> Sequence:
    """Returns a sequence with `media` visual tokens behind the first token."""
    ids = [*context[:1], *([0] * media), *context[1:], *answer]
    labels = [IGNORED] * (len(ids) - len(answer)) + answer
    spans = (Span(1, 1 + media),) if media else ()
    return Sequence(tuple(ids), tuple(labels), tuple(range(len(ids))), spans)


TOKENS = st.lists(st.integers(1, 3), min_size=1, max_size=6)
SEQUENCES = st.lists(st.builds(_sequence, TOKENS, TOKENS, media=st.just(2)), min_size=1, max_size=6)


def _seen(rows: PackedRows) -> torch.Tensor:
    """Returns who sees whom in rows without blocks, bool (B, L, L)."""
    columns_BCL = rows.columns_BCL[:, :PLACE]
    return sees(columns_BCL, columns_BCL, window=None)


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


@given(st.lists(SEQUENCES, min_size=1, max_size=3))
def test_a_token_sees_itself_and_what_leads_to_it(families: list[list[Sequence]]) -> None:
    """Several trees share a row, beside a longer row, so that there is padding."""
    trees = [grow(sequences, range(len(sequences))) for sequences in families]
    longest = max(trees, key=lambda tree: len(tree.ids))
    rows = pack([[Shown(tree, 0) for tree in trees], [Shown(longest, 0)] * (len(trees) + 1)], pad_id=0)
    seen_LL = _seen(rows)[0]
    first = 0
    for tree in trees:
        for node in range(len(tree.ids)):
            wanted = [first + each for each in _path(tree, node)]
            assert seen_LL[first + node].nonzero().flatten().tolist() == wanted
            assert int(rows.columns_BCL[0, PLACE, first + node]) == len(wanted) - 1
        first += len(tree.ids)
    assert torch.equal(seen_LL[first:], torch.eye(len(seen_LL), dtype=torch.bool)[first:])


@given(SEQUENCES)
def test_nodes_are_numbered_depth_first(sequences: list[Sequence]) -> None:
    tree = grow(sequences, range(len(sequences)))
    for node in range(len(tree.ids)):
        below = [other for other in range(len(tree.ids)) if node in _path(tree, other)]
        assert below == list(range(node, tree.ends[node]))


@given(SEQUENCES)
def test_leaves_are_where_the_sequences_end(sequences: list[Sequence]) -> None:
    """Without an answer the last token is read, because a reply grows behind it; an answer's last is only predicted."""
    prompts = [Sequence(s.ids, (IGNORED,) * len(s.ids), s.positions, s.media_spans) for s in sequences]
    for given_, missing in ((prompts, 0), (sequences, 1)):
        tree = grow(given_, range(len(given_)))
        for leaf, sequence in zip(tree.leaves, given_, strict=True):
            ids = tuple(tree.ids[node] for node in _path(tree, leaf))
            assert ids == sequence.ids[: len(sequence.ids) - missing]


def test_a_branch_that_comes_back_behind_another_keeps_its_run() -> None:
    sequences = [_sequence([1, 2], [7, 9]), _sequence([1, 3], [7, 9]), _sequence([1, 2], [8, 9])]
    tree = grow(sequences, range(3))
    assert tree.ids == (1, 2, 7, 8, 3, 7)
    assert tree.ends == (6, 4, 3, 4, 6, 6)
    assert tree.leaves == (2, 5, 3)


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


def _in_common(sequences: list[Sequence]) -> int:
    """Returns the number of first tokens that all sequences share; a learnt last token is none of them."""
    paths = [list(zip(s.ids, s.positions, strict=True))[:-1] for s in sequences]
    return next((n for n, each in enumerate(zip(*paths, strict=False)) if len(set(each)) > 1), min(map(len, paths)))


@given(SEQUENCES, st.integers(1, 30), st.data())
def test_trees_within_a_budget_hold_every_sequence_once(sequences: list[Sequence], budget: int, data: Any) -> None:
    rooms = data.draw(st.lists(st.integers(0, 5), min_size=len(sequences), max_size=len(sequences)))
    trees = grow_within(sequences, range(len(sequences)), max_tokens=budget, rooms=rooms)
    held = [sorted({target.sequence for target in tree.targets}) for tree in trees]
    assert [number for numbers in held for number in numbers] == list(range(len(sequences)))

    def allowed(numbers: list[int]) -> int:
        return max(budget, 2 * _in_common([sequences[number] for number in numbers]))

    for tree, numbers in zip(trees, held, strict=True):
        assert tree == grow([sequences[number] for number in numbers], numbers)
        assert len(tree.ids) + sum(rooms[number] for number in numbers) <= allowed(numbers) or len(numbers) == 1
    for mine, next_ in pairwise(held):
        more = [*mine, next_[0]]
        both = grow([sequences[number] for number in more], more)
        assert len(both.ids) + sum(rooms[n] for n in more) > allowed(more), (
            "a tree ended although the next sequence had room"
        )


def test_all_options_of_one_long_media_item_share_one_tree() -> None:
    """A budget below the length of the media once gave each option a tree of its own, with the media in each."""
    options = [
        _sequence([1, *range(10, 30), 40 + question], [50 + option, 60 + option, 9], media=6000)
        for question in range(43)
        for option in range(4)
    ]
    (tree,) = grow_within(options, range(172), max_tokens=4096)
    assert len(tree.ids) == 1 + 6000 + 20 + 43 + 172 * 2
    assert len(tree.targets) == 172 * 3


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
    seen_BLL = _seen(rows)
    assert not seen_BLL[0, 3:, :3].any()
    assert not seen_BLL[0, :3, 3:].any()
    assert torch.equal(seen_BLL[1, 3:], torch.eye(7, dtype=torch.bool)[3:])
    assert rows.num_tokens == 10
    assert not rows.is_plain
    assert rows.columns_BCL[0, BLOCK].tolist() == [-1, -1, -1, -1, 0, 0, -1]
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
