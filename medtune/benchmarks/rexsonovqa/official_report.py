"""The official report: accuracy and rubric overall, by type and by duration, and what the judge found wrong.

ReXSonoVQA's own words for the judge, read from its evaluation script: instructions, block on strictness, user turn.

The script is read and never run. Of its function `evaluate_free_response` the texts `system_prompt`, `strict_note` and
`user_message` are taken verbatim, with all their blanks; `user_message` names question, ground_truth and prediction.

Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (LLMJudge.evaluate_free_response, evaluate_file).

ReXSonoVQA's own prompts: with the video, with its frames as pictures, and in the blind setting.

All are system prompts; the user's turn is the clip and the question as released. The repository's script that asks a
server sends the frames as pictures and a text of its own behind them, which begins at the gap {user} of the template
`frames`; that text names the number of pictures. The condition "text_only" uses the template `blind`. The paper prints
one prompt and no other for frames or for the blind setting, so that these are then asked with that one.

Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py (SYSTEM_PROMPT_VIDEO, SYSTEM_PROMPT_FRAMES) and
inference_qa_check.py; arXiv 2604.10916, Figure A4.

Reads the chosen letter from a reply: as the official code does, and without its errors.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from medtune.benchmarks.rexsonovqa.rubric import (
    FULL_POINTS,
    UNKNOWN_ERROR,
    WRONG_CONCLUSION,
    WRONG_EVIDENCE,
    ScoredItem,
    Tally,
    tally,
    tally_by_duration,
    tally_by_type,
)
from medtune.data.json_text import json_value
from medtune.data.types import Question
from medtune.eval.asking.official_prompts import PICTURES_GAP, OfficialPrompts
from medtune.eval.judge import OfficialWords
from medtune.eval.scoring.tables import Table

LETTERS = "ABCD"

# The patterns are tried in this order; each may match anywhere in the reply.
_OFFICIAL = (
    re.compile(r"Answer:\s*\*?([A-D])\b", re.I),
    re.compile(r"^\s*\*?([A-D])[.)]", re.M),
    re.compile(r"(?:answer|option) is\s*\*?([A-D])\b", re.I),
)

VIDEO, FRAMES, BLIND = "video", "frames", "blind"
_QUESTION, _BEFORE = "question", "user"
_FRAMES_PER_S = 5.0
_SHARES = {WRONG_CONCLUSION: "wrong_conclusion_only", WRONG_EVIDENCE: "wrong_visual_evidence_only"}
_WRONG_BOTH = "wrong_both"
_FILE, _FUNCTION, _FORMAT = "evaluate_results.py", "evaluate_free_response", "[FREE] "
_SYSTEM, _STRICT, _USER = "system_prompt", "strict_note", "user_message"
_SHOWN = ("question", "ground_truth", "prediction")
_AGAIN = "Copy it from https://github.com/rajpurkarlab/RexSonoVQA at c2b931f again."


def official_letter(reply: str) -> str:
    """Returns the letter that the official extractor takes from a reply, or "" for none.

    The official pipeline strips a reply before it extracts, which `official` does and this function does not.

    The errors of the official extractor are kept. If no pattern matches, the first character decides, so "Answer - B"
    and "Answer: (B)" give A, "Cannot be determined" gives C, and "Because" gives B, but " c", "**C**" and "(B)" give no
    letter.

    >>> [official_letter(reply) for reply in ("Answer: c", "D) lower", "Answer - B", "Cannot say", "(B)")]
    ['C', 'D', 'A', 'C', '']

    Source: rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py (extract_mcq_answer).
    """
    for pattern in _OFFICIAL:
        found = pattern.search(reply)
        if found:
            return found[1].upper()
    first = reply[:1].upper()
    return first if first and first in LETTERS else ""


def official_option(reply: str, question: Question) -> str | None:
    """Returns the option whose letter the official pipeline reads, or None; "A" is the first option shown.

    Source:
        rajpurkarlab/RexSonoVQA@c2b931f, inference_qa_youtube.py (process_question_file), which strips the reply first.
    """
    letter = official_letter(reply.strip())
    index = LETTERS.index(letter) if letter else len(question.options)
    return question.options[index] if index < len(question.options) else None


def official_prompts() -> OfficialPrompts:
    return OfficialPrompts(
        names={VIDEO: (_QUESTION,), FRAMES: (_BEFORE, PICTURES_GAP, _QUESTION), BLIND: (_QUESTION,)},
        from_texts=read,
        scenario=lambda question: VIDEO,
        gaps=lambda question: {_QUESTION: as_released(question), _BEFORE: ""},
        answer_format="letter",
        answer=_answer,
        system_until=(_BEFORE, _QUESTION),
        blind=BLIND,
        template=lambda shown, scenario: FRAMES if shown.videos_as_pictures else scenario,
        pictures_per_s=_FRAMES_PER_S,
    )


def as_released(question: Question) -> str:
    """Returns the question with its lettered options in the style of its release, which is either "A." or "A)"."""
    mark = question.printed.get("option_mark", ".")
    lettered = [f"{letter}{mark} {option}" for letter, option in zip(LETTERS, question.options, strict=False)]
    return "\n".join([question.text, *lettered])


def read(folder: Path) -> Mapping[str, str]:
    """Returns the template for the video, from a folder that holds the prompts of the paper."""
    path = folder / "index.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: wanted index.json with the paper's prompts; check --from")
    try:
        listed = json_value(path.read_text("utf-8"))["prompts"]
        (entry,) = [each for each in listed if each["kind"] == "inference"]
        said = (folder / str(entry["file"])).read_text("utf-8")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: wanted an object with a list 'prompts' that holds one of kind 'inference' "
            f"({type(error).__name__}). Copy it again."
        ) from None
    return {VIDEO: f"{said.strip()}\n\n{{{_QUESTION}}}"}


def _answer(question: Question, said: str) -> str:
    if said not in question.options:
        return said
    return f"Answer: {LETTERS[question.options.index(said)]}"


@dataclass(frozen=True, slots=True)
class OfficialFigures:
    """All figures that the official script prints, without rounding."""

    mcq: Tally  # The right answers among all multiple-choice questions.
    free: Tally  # The points (0 to 2) of all free responses.
    mcq_by_type: Mapping[str, Tally]  # The same as `mcq` for each type of question.
    free_by_type: Mapping[str, Tally]  # The same as `free` for each type of question.
    mcq_by_duration: Mapping[str, Tally]  # The same as `mcq` for each bin of the clip's length.
    free_by_duration: Mapping[str, Tally]  # The same as `free` for each bin of the clip's length.
    partial_errors: Mapping[str, int]  # The number of free responses with 1 point, by type of error.
    # The number of free responses by kind of error. A response with 0 points, or with 1 point but no single error,
    # counts as "wrong_both". A response whose score is not 0, 1 or 2 is not counted.
    errors: Mapping[str, int]

    @property
    def free_share(self) -> float:
        """The points of the free responses as a share of the points that are possible, 0 to 1; 0 without responses."""
        return self.free.mean / FULL_POINTS


def report(items: Iterable[ScoredItem]) -> OfficialFigures:
    """Returns the report of scored items; without items every tally is empty, which the official script prints as 0.

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    items = list(items)
    mcq, free = [item for item in items if item.is_mcq], [item for item in items if not item.is_mcq]
    partial = Counter(item.error_type or UNKNOWN_ERROR for item in free if item.score == 1)
    wrong = Counter(
        _SHARES.get(item.error_type or "", _WRONG_BOTH) if item.score == 1 else _WRONG_BOTH
        for item in free
        if item.score in (0, 1)
    )
    return OfficialFigures(
        mcq=tally(mcq),
        free=tally(free),
        mcq_by_type=tally_by_type(mcq),
        free_by_type=tally_by_type(free),
        mcq_by_duration=tally_by_duration(mcq),
        free_by_duration=tally_by_duration(free),
        partial_errors=dict(sorted(partial.items())),
        errors={name: wrong[name] for name in (*_SHARES.values(), _WRONG_BOTH)},
    )


def report_tables(found: OfficialFigures) -> list[Table]:
    """Returns the report as tables, rounded as the official script does.

    Shares are in percent with 1 decimal, and mean points have 2 decimals. If there are no items, the value is missing,
    whereas the official script prints 0.
    """
    free = found.free
    overall = (
        ("multiple choice, percent right", found.mcq.n, f"{100 * found.mcq.mean:.1f}" if found.mcq.n else None),
        ("free response, mean of 0 to 2", free.n, f"{free.mean:.2f}" if free.n else None),
        ("free response, percent of points", free.n, f"{100 * found.free_share:.1f}" if free.n else None),
    )
    tables = [Table("Overall", ("", "n", "value"), overall)]
    for title, tallies in (("type", found.mcq_by_type), ("clip duration", found.mcq_by_duration)):
        rows = tuple((name, each.n, 100 * each.mean if each.n else None) for name, each in tallies.items())
        tables.append(Table(f"Multiple choice by {title}, percent right", (title, "n", "value"), rows, digits=1))
    for title, tallies in (("type", found.free_by_type), ("clip duration", found.free_by_duration)):
        rows = tuple((name, each.n, each.mean if each.n else None) for name, each in tallies.items())
        tables.append(Table(f"Free response by {title}, mean of 0 to 2", (title, "n", "value"), rows, digits=2))
    partial = tuple(found.partial_errors.items())
    tables.append(Table("Free responses with 1 point, by error", ("error", "n"), partial))
    errors = tuple((name, count, 100 * count / free.n if free.n else None) for name, count in found.errors.items())
    tables.append(Table("Errors, percent of all free responses", ("error", "n", "value"), errors, digits=1))
    return tables


def read_judge_words(path: Path, is_strict: bool) -> OfficialWords:
    """Returns the words in which the script asks its judge; the strict ones with its option --strict_judge."""
    file = path / _FILE if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{file}: wanted {_FILE} of ReXSonoVQA's repository, or a folder that holds it")
    assigned = _assigned(file)
    system = _assigned_text(assigned, _SYSTEM, file)
    if is_strict:
        system = f"{system}\n\n{_assigned_text(assigned, _STRICT, file)}"
    shown = assigned.get(_USER)
    if not isinstance(shown, ast.JoinedStr):
        _refuse(file, f"a text {_USER} with gaps")
    parts = list(_parts(shown, file))
    if sorted(name for _, name in parts if name) != sorted(_SHOWN):
        _refuse(file, f"{_USER} to name {', '.join(_SHOWN)} once each")

    def user(question: Question, reply: str) -> str:
        # The script shows the question with its mark for the format, as it stands in the released files.
        said = dict(zip(_SHOWN, (f"{_FORMAT}{as_released(question)}", question.answer, reply), strict=True))
        return "".join(said[name] if name else text for text, name in parts)

    return OfficialWords(system, user, "".join(f"{{{name}}}" if name else text for text, name in parts))


def _assigned(file: Path) -> Mapping[str, ast.expr]:
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{file}: no Python that could be read ({error}). {_AGAIN}") from None
    found: dict[str, ast.expr] = {}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == _FUNCTION]
    if len(functions) != 1:
        _refuse(file, f"one function {_FUNCTION}")
    for statement in functions[0].body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found.setdefault(statement.targets[0].id, statement.value)
    return found


def _assigned_text(assigned: Mapping[str, ast.expr], name: str, file: Path) -> str:
    match assigned.get(name):
        case ast.Constant(str() as text):
            return text
        case ast.Call(ast.Attribute(ast.Constant(str() as text), "strip"), [], []):
            return text.strip()
    return _refuse(file, f"a plain text {name}")


def _parts(node: ast.JoinedStr, file: Path) -> Iterator[tuple[str, str]]:
    for part in node.values:
        match part:
            case ast.Constant(str() as text):
                yield text, ""
            case ast.FormattedValue(ast.Name(name), conversion=-1, format_spec=None):
                yield "", name
            case _:
                _refuse(file, f"{_USER} with plain names in its gaps, not {ast.unparse(part)}")


def _refuse(file: Path, wanted: str) -> NoReturn:
    raise ValueError(f"{file}: wanted {wanted} in {_FUNCTION}. {_AGAIN}")
