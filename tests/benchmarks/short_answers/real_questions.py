"""Reads the real test questions of VQA-RAD and SLAKE."""

import re
from collections.abc import Iterator
from pathlib import Path

from medtune.benchmarks import find_source
from medtune.benchmarks.short_answers.released_answers import is_chinese
from medtune.data.types import Question

ANY = (
    "{}", "{}.", "{}!", " {} \n", "**{}**", "`{}`", "({})", "“{}”", "{}。", "The answer is {}.", "The answer is: {}",
    "Answer: {}", "**Answer:** {}", "Final answer: {}", 'The correct answer is "{}".', "I think the answer is {}.",
    "Based on the image, the answer is {}.", "So, the answer to this question is {}.", "\\boxed{{{}}}",
    "$\\boxed{{\\text{{{}}}}}$", "<answer>{}</answer>", "<think>Maybe no, maybe yes?</think>{}", '{{"answer": "{}"}}',
    "{}\n\nThis can be seen in the picture.", "Answer: {}\nExplanation: the picture shows it clearly.",
    "答案：{}", "答案是{}。", "最终答案：{}。", "Ａｎｓｗｅｒ：{}",
)  # fmt: skip
YES_NO = (
    "{}, it is.", "{}, that can be seen.", "I think {}.", "I would say {}.", "{} - clearly.", "{}; see the image.",
    "{}, because of the picture.",
)  # fmt: skip
OPEN = (
    "It is {}.", "It's {}.", "This is {}.", "There is {}.", "The {}.", "It is the {}.", "The image shows {}.",
    "{} is shown in the image.", "In this image, it is {}.", "I think it is {}.", "It appears to be {}.",
    "It is most likely {}.",
)  # fmt: skip
CHINESE_OPEN = ("这是{}。", "图像显示{}。", "图中显示的是{}。", "它是{}", "是{}", "该图像是{}。", "这张图片是{}。")
CHINESE_YES = ("是的", "是", "对", "Yes", "是的，图像显示如此。", "Ｙｅｓ。")
CHINESE_NO = ("不是", "否", "不", "No", "不是，图中没有。", "Ｎｏ。")
ENGLISH_YES = ("True", "YES", "Yes, there is", "Yes, the image shows that.")
ENGLISH_NO = ("False", "NO", "No, there is not", "No, the image does not show that.")


def right_replies(question: Question) -> Iterator[str]:
    """Yields the true answer in every wording that fits the question."""
    chinese, answer = is_chinese(question), question.answer
    frames = [*ANY, *((() if chinese else YES_NO) if question.options else CHINESE_OPEN if chinese else OPEN)]
    yield from (frame.format(answer) for frame in frames)
    yield answer.upper()
    if question.options:
        words = ((CHINESE_YES, CHINESE_NO), (ENGLISH_YES, ENGLISH_NO))[not chinese]
        yield from words[question.options.index(answer)]
    else:
        yield from other_orders(answer)


def other_orders(answer: str) -> Iterator[str]:
    """Yields a list of words from its end to its beginning, with commas and with "and"."""
    items = [item.strip() for item in re.split("[,，、]", answer) if item.strip()]
    if len(items) > 1 and all(any(character.isalpha() for character in item) for item in items):
        yield from (mark.join(reversed(items)) for mark in (", ", " and ", "、"))


def real_questions(shared_real: Path, source: str, scratch: Path) -> list[Question]:
    """Returns all questions of a source, from the real files."""
    found = find_source(source)
    assert found.read_questions is not None
    folder = "vqa_rad" if source == "vqa_rad" else "slake"
    return list(found.read_questions(shared_real / folder, 0, scratch).questions)


def real_test_questions(shared_real: Path, scratch: Path) -> list[Question]:
    """Returns the test questions of VQA-RAD, and of SLAKE in both languages."""
    both = [*real_questions(shared_real, "vqa_rad", scratch), *real_questions(shared_real, "slake", scratch)]
    return [question for question in both if question.split == "test"]
