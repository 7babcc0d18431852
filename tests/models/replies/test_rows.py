"""Tests how prompts are laid out for their replies: once, within the budget, behind media that are read once."""

from hypothesis import given
from hypothesis import strategies as st

from medtune.models.replies.growing import Prompted, reply_rows
from medtune.models.sequence.builder import IGNORED, Sequence, Span


def _prompt(words: list[int], media: int | None) -> Prompted:
    visual = 0 if media is None else 3
    ids = (*[9] * visual, *words)
    spans = (Span(0, visual),) if visual else ()
    return Prompted(Sequence(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), spans), media)


PROMPTS = st.lists(
    st.builds(_prompt, st.lists(st.integers(1, 2), min_size=1, max_size=5), st.sampled_from([None, 0, 1, 2])),
    max_size=12,
)


@given(PROMPTS, st.integers(1, 60), st.integers(1, 4))
def test_every_prompt_is_in_one_row_and_ends_at_its_leaf(prompts: list[Prompted], budget: int, new_tokens: int) -> None:
    rows = list(reply_rows(prompts, new_tokens=new_tokens, batch_tokens=budget))
    assert sorted(number for row in rows for number in row.numbers) == list(range(len(prompts)))
    for row in rows:
        ids = [id_ for shown in row.trees for id_ in shown.tree.ids]
        assert len({shown.media is None for shown in row.trees}) == 1
        for number, leaf in zip(row.numbers, row.leaves, strict=True):
            assert ids[leaf] == prompts[number].layout.ids[-1]
        media = [shown.media for shown in row.trees for _ in shown.tree.leaves]
        assert media == [prompts[number].media for number in row.numbers]
        size = len(ids) + new_tokens * len(row.numbers)
        assert size <= budget or len(row.trees) == 1


def test_the_media_of_all_questions_are_read_once_however_long_they_are() -> None:
    prompts = []
    for question in range(43):
        ids = (9,) * 6000 + (1, 2, 3 + question)
        spans = (Span(0, 6000),)
        prompts.append(Prompted(Sequence(ids, (IGNORED,) * 6003, tuple(range(6003)), spans), 0))
    (row,) = reply_rows(prompts, new_tokens=64, batch_tokens=4096)
    assert [len(shown.tree.ids) for shown in row.trees] == [6000 + 2 + 43]
