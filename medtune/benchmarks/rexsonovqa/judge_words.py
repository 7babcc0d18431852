"""ReXSonoVQA's own words for the judge, read from its evaluation script: instructions, block on strictness, user turn.

The script is read and never run. Of its function `evaluate_free_response` the texts `system_prompt`, `strict_note` and
`user_message` are taken verbatim, with all their blanks; `user_message` names question, ground_truth and prediction.

Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (LLMJudge.evaluate_free_response, evaluate_file).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from medtune.benchmarks.rexsonovqa.official_prompts import as_released
from medtune.data.types import Question
from medtune.eval.judge import OfficialWords

_FILE, _FUNCTION, _FORMAT = "evaluate_results.py", "evaluate_free_response", "[FREE] "
_SYSTEM, _STRICT, _USER = "system_prompt", "strict_note", "user_message"
_SHOWN = ("question", "ground_truth", "prediction")
_AGAIN = "Copy it from https://github.com/rajpurkarlab/RexSonoVQA at c2b931f again."


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
