"""Compares replies that grow behind one row with those of a row for each prompt; negative controls must fail."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medtune.models.contract import Assembled
from medtune.models.replies import Prompted, Wanted, drawn, grown, reply_rows
from medtune.models.sequence.builder import IGNORED, Sequence, Span
from medtune.models.sequence.packing import PackedRows, Shown, pack, pad_left
from medtune.models.sequence.tree import grow
from tests.models.twins import EVERY_TWIN, all_seen, layout, moved, seen, shares_rows, twin

SHARING = [name for name in EVERY_TWIN if shares_rows(name)]
NEW_TOKENS = 6
QUESTIONS = ("Plane?", "Plane?xx", "Is it odd?", "Plane?", "Plane?x")
"""The first is asked twice; it is also the beginning of two others, as far as the template lets it."""


def _laid(name: str, assembled: Assembled) -> list[Sequence]:
    whole = [layout(assembled, name, None, question) for question in QUESTIONS]
    # A prompt that is the beginning of another one: what grows behind it must not be seen there.
    one = whole[0]
    short = Sequence(one.ids[:-2], one.labels[:-2], one.positions[:-2], one.media_spans)
    return [*whole, short]


def _row(assembled: Assembled, laid: list[Sequence], media: list[int]) -> tuple[PackedRows, list[int]]:
    """Returns one row with a tree for each media item, and the leaves in the order of the prompts."""
    trees, leaf, first = [], dict[int, int](), 0
    for item in sorted(set(media)):
        numbers = [number for number, shown in enumerate(media) if shown == item]
        tree = grow([laid[number] for number in numbers], numbers)
        leaf.update(zip(numbers, (first + each for each in tree.leaves), strict=True))
        trees.append(Shown(tree, item))
        first += len(tree.ids)
    return pack([trees], pad_id=assembled.template.pad_id), [leaf[number] for number in range(len(laid))]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", SHARING)
def test_replies_of_a_tree_are_those_of_plain_rows(name: str, temperature: float) -> None:
    """Two media items, prompts that are equal and that begin alike, greedy and drawn."""
    assembled, media = twin(name), [0, 1, 0, 0, 1, 0]
    laid, stop = _laid(name, assembled), assembled.template.stop_ids
    seeds = range(10, 10 + len(laid))
    with torch.no_grad():
        encoded = seen(assembled, name, 3, 4)
        context: Any = drawn(assembled.model, temperature=1.0, seeds=seeds) if temperature else nullcontext()
        with context:
            plain = assembled.model.generate(
                pad_left(laid, media, pad_id=assembled.template.pad_id),
                encoded,
                max_new_tokens=NEW_TOKENS,
                stop_ids=stop,
            )
        rows, leaves = _row(assembled, laid, media)
        wanted = [Wanted(leaf, NEW_TOKENS, stop, seed, temperature) for leaf, seed in zip(leaves, seeds, strict=True)]
        assert assembled.model.reply(rows, encoded, wanted)[0] == plain
        if temperature:
            assert plain[0] != plain[3], "two draws of one prompt"
            broken = (all_seen(rows), moved(rows))
            assert any(assembled.model.reply(each, encoded, wanted)[0] != plain for each in broken)
            # Each reply has its own end tokens and budget; who else still grows changes nothing.
            ended = [
                each._replace(stop_ids=(*stop, plain[n][1 + n % 3]), max_new_tokens=2 + n)
                for n, each in enumerate(wanted)
                if len(plain[n]) > 1 + n % 3
            ]
            numbers = [n for n in range(len(wanted)) if len(plain[n]) > 1 + n % 3]
            cut = []
            for each, number in zip(ended, numbers, strict=True):
                said = plain[number][: each.max_new_tokens]
                end = next((n for n, id_ in enumerate(said) if id_ in each.stop_ids), len(said) - 1)
                cut.append(said[: end + 1])
            assert assembled.model.reply(rows, encoded, ended)[0] == cut
            assert len({len(each) for each in cut}) > 1


def test_a_reply_that_has_ended_is_asked_no_further() -> None:
    """The toy model says 1, 1, 1, ...; the first reply ends at its budget of one token, the second of three."""
    laid = [Sequence((5, n), (-100, -100), (0, 1), ()) for n in (6, 7)]
    tree = grow(laid, range(2))
    rows, asked = pack([[Shown(tree, None)]], pad_id=0), []

    def read(new: Any) -> torch.Tensor:
        asked.append(len(rows.ids_BL[0]) if new is None else new.ids_1A.shape[1])
        return torch.zeros(asked[-1], 2)

    def output_layer(hidden: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.0, 1.0]).expand(len(hidden), 2)

    wanted = [Wanted(tree.leaves[0], 1, (9,)), Wanted(tree.leaves[1], 3, (9,))]
    assert grown(rows, wanted, read, output_layer).ids == [[1], [1, 1, 1]]
    assert asked == [3, 1, 1]


def test_replies_grow_behind_one_row_alone() -> None:
    rows = pack([[Shown(grow([Sequence((5,), (-100,), (0,), ())], [0]), None)]] * 2, pad_id=0)
    with pytest.raises(ValueError, match="behind one row, and there are 2"):
        grown(rows, [], lambda new: torch.zeros(1, 2), lambda hidden: hidden)


def test_a_model_without_columns_says_why_its_prompts_cannot_share_a_row() -> None:
    assembled = twin("nano_qwen35")
    rows, leaves = _row(assembled, [layout(assembled, "nano_qwen35", None)], [0])
    with pytest.raises(ValueError, match="cannot grow in one row: its gated delta nets"):
        assembled.model.reply(rows, seen(assembled, "nano_qwen35", 0), [Wanted(leaves[0], 2, (0,))])


def _prompt(words: list[int], media: int | None, new_tokens: int) -> Prompted:
    visual = 0 if media is None else 3
    ids = (*[9] * visual, *words)
    spans = (Span(0, visual),) if visual else ()
    return Prompted(Sequence(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), spans), media, new_tokens)


PROMPTS = st.lists(
    st.builds(
        _prompt,
        st.lists(st.integers(1, 2), min_size=1, max_size=5),
        st.sampled_from([None, 0, 1, 2]),
        st.integers(0, 4),
    ),
    max_size=12,
)


@given(PROMPTS, st.integers(1, 60), st.booleans())
def test_every_prompt_is_in_one_row_and_ends_at_its_leaf(prompts: list[Prompted], budget: int, one_tree: bool) -> None:
    rows = list(reply_rows(dict(enumerate(prompts)), batch_tokens=budget, one_tree=one_tree))
    assert sorted(number for row in rows for number in row.numbers) == list(range(len(prompts)))
    for row in rows:
        ids = [id_ for shown in row.trees for id_ in shown.tree.ids]
        assert len({shown.media is None for shown in row.trees}) == 1
        assert not one_tree or row.trees[0].media is None or len(row.trees) == 1
        for number, leaf in zip(row.numbers, row.leaves, strict=True):
            assert ids[leaf] == prompts[number].layout.ids[-1]
        media = [shown.media for shown in row.trees for _ in shown.tree.leaves]
        assert media == [prompts[number].media for number in row.numbers]
        size = len(ids) + sum(prompts[number].new_tokens for number in row.numbers)
        assert size <= budget or len(row.trees) == 1


def test_the_media_of_all_questions_are_read_once_however_long_they_are() -> None:
    prompts = []
    for question in range(43):
        ids = (9,) * 6000 + (1, 2, 3 + question)
        spans = (Span(0, 6000),)
        prompts.append(Prompted(Sequence(ids, (IGNORED,) * 6003, tuple(range(6003)), spans), 0, 64))
    (row,) = reply_rows(dict(enumerate(prompts)), batch_tokens=4096)
    assert [len(shown.tree.ids) for shown in row.trees] == [6000 + 2 + 43]
