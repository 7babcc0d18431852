"""Defines what a user may say about how a table of his own is to be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is to be read, where its own names do not say it.

    Attributes:
        media_folder: The folder to which paths of media are relative; None for the folder of the table.
        columns: The column of each role, such as {"question": "Q"}; several columns are separated by commas, and ""
            lets a role have none.
        facets: The columns by which scores are broken down; None takes all with few values that have no other role.
        question: The question that is asked of every row; None takes the column with the questions.
        splits: The split that a name of the data stands for: "train", "val", "test", or "none" to leave its rows out.
        limit: The number of patients of each split after which a data set of the hub is read no further; None reads
            all.
    """

    media_folder: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    facets: tuple[str, ...] | None = None
    question: str | None = None
    splits: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
