import math

from medtune.eval.scoring.tables import Table, finite_table, rank, table_text

TABLE = Table("Accuracy", ("model", "PI", "rank"), (("ours", 0.256, 1), ("GPT-5", None, None)), ("A note.",), digits=2)


def test_text_puts_names_to_the_left_and_numbers_to_the_right() -> None:
    assert table_text(TABLE).splitlines() == [
        "Accuracy", "model    PI  rank", "-----------------", "ours   0.26     1", "GPT-5     -     -", "A note.",
    ]  # fmt: skip


def test_a_table_without_rows_prints() -> None:
    assert table_text(Table("Empty", ("a", "b"), ())) == "Empty\na  b\n----"


def test_json_has_no_number_that_json_has_not() -> None:
    found = finite_table(Table("Errors", ("model", "RMSE"), (("ours", math.inf), ("theirs", math.nan))))
    assert found.rows == (("ours", None), ("theirs", None))


def test_ties_share_the_better_place() -> None:
    assert [rank(value, [3.0, 2.0, 2.0]) for value in (4.0, 3.0, 2.0, 1.0)] == [1, 1, 2, 4]
    assert rank(1.0, [0.5, 2.0], higher_is_better=False) == 2
