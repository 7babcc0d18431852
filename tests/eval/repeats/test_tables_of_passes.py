"""Tests that benchmarks' own tables are the mean of the passes, and that rules of their own see all passes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from medtune.benchmarks import find_benchmark, names
from medtune.data.types import Condition
from medtune.eval.benchmark import Evidence, no_tables
from medtune.eval.scoring.score import mean_tables, score_phase
from medtune.eval.scoring.tables import Table, table_text
from tests.eval.repeats.asked_again import ASKED, BUSI, FIVE, generated, passes, wrong

GAUGE = find_benchmark("fetal_gauge")


def counted(evidence: Evidence) -> Sequence[Table]:
    """Returns a table that a benchmark makes by hand from single replies."""
    rows = evidence.rows("image")
    right = sum(row.parsed == row.question.answer for row in rows)
    blind = sum(row.parsed == row.question.answer for row in evidence.rows("text_only"))
    replies = len({each.key for each in evidence.predictions})
    return [Table("By hand", ("who", "right", "blind", "n", "replies"), (("ours", right, blind, len(rows), replies),))]


def votes(evidence: Evidence) -> Sequence[Table]:
    return [Table("Votes", ("n",), ((sum(len(row.passes) for row in evidence.rows("image")),),))]


def test_a_table_made_from_single_replies_is_the_mean_of_the_passes() -> None:
    by_hand = replace(BUSI, tables=counted, repeat_tables=votes)
    said = [*passes(FIVE), *passes(FIVE[:1], condition="text_only")]
    table, voted = score_phase(ASKED, said, by_hand).tables
    # Right in the passes 2, 4, 6, 8, 10; the one pass without the image stands beside each of the five.
    assert table.rows == (("ours", 6.0, 2, 12, 24),)
    assert "Each cell is the mean of 5 passes." in table_text(table)
    assert voted.rows == ((60,),)
    alone, _ = score_phase(ASKED, passes(FIVE[:1]), by_hand).tables
    assert alone.rows == (("ours", 2, 0, 12, 12),)
    assert alone.notes == ()


def test_each_pass_of_every_condition_counts_equally_often() -> None:
    by_hand = replace(BUSI, tables=counted)
    said = [*passes(FIVE[:2]), *passes(FIVE[:3], condition="text_only")]
    (table,) = score_phase(ASKED, said, by_hand).tables
    assert table.rows[0][:3] == ("ours", 3.0, 4.0)


def test_ranks_texts_and_missing_values_of_passes_are_kept_apart() -> None:
    columns = ("model", "value", "verdict", "rank", "other")
    first = Table(
        "T", columns, (("ours", 0.5, "collapsed", 3, None), ("theirs", 0.6, "", 1, 0.1)), ("Same.", "Rank 3.")
    )
    second = Table("T", columns, (("ours", 0.7, "", 1, 0.5), ("theirs", 0.6, "", 1, 0.1)), ("Same.", "Rank 1."))
    (found,) = mean_tables([[first], [second]])
    assert found.rows == (("ours", 0.6, "collapsed / -", "1-3", None), ("theirs", 0.6, "", 1, 0.1))
    assert found.notes == ("Same.", "Pass 1: Rank 3. Pass 2: Rank 1.", "Each cell is the mean of 2 passes.")
    assert mean_tables([[first], [first]]) == [first]


def test_rows_that_a_pass_lacks_are_matched_by_their_texts_and_have_no_mean() -> None:
    first = Table("T", ("set", "value"), (("a", 0.5), ("b", 0.1)))
    second = Table("T", ("set", "value"), (("b", 0.3),))
    (found, other) = mean_tables([[first, replace(first, title="U")], [second]])
    assert found.rows == (("a", None), ("b", 0.2))
    assert other.rows == first.rows
    assert other.notes == ("Made of 1 of the 2 passes; the others have no such table.",)


def test_the_paper_table_of_a_benchmark_shows_the_mean_of_its_passes() -> None:
    asked = GAUGE.examples
    said = [
        generated(question, question.answer if repeat else wrong(question), repeat)
        for repeat in range(4)
        for question in asked
    ]
    table = score_phase(asked, said, GAUGE).tables[0]
    ours = next(row for row in table.rows if str(row[0]).startswith("ours"))
    assert ours[-2] == pytest.approx(0.75)


@pytest.mark.parametrize("name", names())
def test_equal_passes_make_the_tables_of_a_single_pass(name: str) -> None:
    benchmark = replace(find_benchmark(name), repeat_tables=no_tables)
    asked = benchmark.examples
    asked_times: dict[Condition, int] = {"image": 3, "text_only": 2}
    said = [
        generated(question, question.answer if number % 2 else "hm", repeat, condition=condition)
        for condition, num_passes in asked_times.items()
        for repeat in range(num_passes)
        for number, question in enumerate(asked)
    ]
    once = [each for each in said if not each.key.repeat]
    assert score_phase(asked, said, benchmark).tables == score_phase(asked, once, benchmark).tables
