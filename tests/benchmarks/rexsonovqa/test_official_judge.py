"""ReXSonoVQA's own words for the judge: read from a script of the released shape, sent verbatim, refused if changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark
from medtune.benchmarks.rexsonovqa.official_report import read_judge_words
from medtune.data.types import Question
from medtune.eval.judge.task import with_official_words

SCRIPT = '''
import nowhere

class Judge:
    def evaluate_free_response(self, question, ground_truth, prediction):
        """Asks a judge."""
        strict_note = """

BE HARD:
- On everything.
""".strip()
        system_prompt = """Grade it.
    2 - good
    {"score": 0}
        """
        if self.config.STRICT_JUDGE:
            system_prompt = system_prompt + "\\n\\n" + strict_note
        user_message = f"""
Asked: {question}

Truth: {ground_truth}

Said: {prediction}
Go.
"""
        return ask(system_prompt, user_message)
'''
FREE = Question("q", "m", "Why {prediction}?", (), "Because of {question}.", "rubric", "p", {"task": "t"})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "evaluate_results.py").write_text(SCRIPT)
    return tmp_path / "evaluate_results.py"


def test_the_words_are_read_verbatim_and_no_gap_is_filled_twice(script: Path) -> None:
    words = read_judge_words(script, False)
    assert words.system == 'Grade it.\n    2 - good\n    {"score": 0}\n        '
    assert words.user(FREE, "It {ground_truth} is.") == (
        "\nAsked: [FREE] Why {prediction}?\n\nTruth: Because of {question}.\n\nSaid: It {ground_truth} is.\nGo.\n"
    )
    assert words.user_words == "\nAsked: {question}\n\nTruth: {ground_truth}\n\nSaid: {prediction}\nGo.\n"
    strict = read_judge_words(script.parent, True)
    assert strict.system == f"{words.system}\n\nBE HARD:\n- On everything."
    assert strict.user_words == words.user_words


def test_the_papers_instructions_come_through_verbatim(shared_real: Path, script: Path) -> None:
    folder = shared_real.parent / "published" / "prompts"
    system, strict = ((folder / f"rex_judge_{name}.txt").read_text("utf-8") for name in ("system", "strict"))
    assert '"""' not in system + strict
    assert "\\" not in system + strict
    body = SCRIPT.replace('Grade it.\n    2 - good\n    {"score": 0}\n        ', system)
    script.write_text(body.replace("BE HARD:\n- On everything.\n", strict), "utf-8")
    assert read_judge_words(script, False).system == system
    assert read_judge_words(script, True).system == f"{system}\n\n{strict.strip()}"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("def evaluate_free_response", "def evaluate", "wanted one function evaluate_free_response"),
        ('system_prompt = """Grade', 'prompt = """Grade', "wanted a plain text system_prompt in evaluate_free_resp"),
        ('""".strip()', '""".upper()', "wanted a plain text strict_note"),
        ('user_message = f"""', 'user_message = """', "wanted a text user_message with gaps"),
        ("{prediction}", "{question}", "wanted user_message to name question, ground_truth, prediction once each"),
        ("{prediction}", "{str(prediction)}", "with plain names in its gaps, not"),
        ("import nowhere", "import (", "no Python that could be read"),
    ],
)
def test_a_changed_script_is_refused_by_file_and_part(script: Path, before: str, after: str, message: str) -> None:
    assert before in SCRIPT
    script.write_text(SCRIPT.replace(before, after))
    with pytest.raises(ValueError, match=message) as caught:
        read_judge_words(script, True)
    assert str(script) in str(caught.value)


def test_a_missing_script_and_a_benchmark_without_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted evaluate_results\.py of ReXSonoVQA's repository"):
        read_judge_words(tmp_path, False)
    other = find_benchmark("u2_bench").judging
    assert other is not None
    with pytest.raises(ValueError, match="medtune reads no judge's words of this benchmark"):
        with_official_words(other, tmp_path, is_strict=False)


def test_the_task_keeps_everything_but_the_words(script: Path) -> None:
    ours = find_benchmark("rexsonovqa").judging
    assert ours is not None
    task = with_official_words(ours, script, is_strict=False)
    assert task.user(FREE, "x").startswith("\nAsked: [FREE] Why")
    assert replace(task, system=ours.system, user=ours.user, user_words=ours.user_words) == ours
