"""Takes from a row the cells that the official prompts of version 2 print, unchanged and without the empty ones.

Source: Schuture/DeepTumorVQA@1df7460 (branch v2), src/deeptumorvqa/data/prompt.py.
"""

from pathlib import PurePath
from sys import intern

from medtune.benchmarks.ctlesionvqa.sources.ctlesionvqa.tables import Row
from medtune.benchmarks.ctlesionvqa.subtypes import V2_TABLES, answer_type
from medtune.data.raw.lettered_options import options_layout

_PATIENT = ("sex", "age", "scanner", "contrast")


def printed_cells(row: Row, column: str) -> dict[str, str]:
    """Returns the cells that fill the gaps of a prompt, by gap; empty cells are left out.

    The result is empty for a row that is not of version 2. The entry "layout" is the text of `column` with gaps in
    place of question and options. Spacing and shape are given only for questions that ask for a number.
    """
    if "qid" not in row.untouched and PurePath(row.file).stem not in V2_TABLES:
        return {}
    asked = str(row.untouched[column])
    bare = asked.strip()
    found = {"layout": options_layout(asked) if column == "mc_question" else asked.replace(bare, "{question}")}
    found |= {name: _said(row, name) for name in _PATIENT}
    if answer_type(row.get("question_subtype")) == "numeric" and (spacing := _said(row, "spacing")):
        found |= {"spacing": spacing, "shape": str(row.untouched.get("shape"))}
    return {name: intern(said) for name, said in found.items() if said is not None}


def _said(row: Row, name: str) -> str | None:
    value = row.untouched.get(name)
    return str(value) if value else None
