"""Tests that words for yes and no in a Chinese reply count only where they answer the question."""

import pytest

from medtune.benchmarks.short_answers.parser import parse_chinese_yes_no
from medtune.data.types import Question

PAIRS = (("是", "否"), ("是的", "不是"), ("有", "没有"), ("包含", "不包含"), ("正常", "不正常"), ("存在", "不存在"))
HEDGES = (
    "不一定", "看不出来", "没有办法判断", "没有足够的信息", "不太确定", "不明确", "未知", "难以确定", "不清楚",
    "不好说",
)  # fmt: skip


def _read(text: str, options: tuple[str, str], reply: str) -> str | None:
    return parse_chinese_yes_no(reply, Question("q", "m", text, options, options[0], "yes_no", "p", {"task": "yes_no"}))


@pytest.mark.parametrize("options", PAIRS)
def test_a_hedge_is_no_no(options: tuple[str, str]) -> None:
    assert {_read("图中有肝脏吗?", options, reply) for reply in HEDGES} == {None}


@pytest.mark.parametrize(
    ("text", "options", "reply"),
    [
        ("这是CT吗?", ("是", "否"), "这是MRI"),
        ("这是CT吗?", ("是", "否"), "这张图像是 MRI。"),
        ("图中包含肝脏吗?", ("包含", "不包含"), "图中包含脾脏。"),
        ("图中有肝脏吗?", ("有", "没有"), "图中没有脾脏"),
        ("左肺有病变吗?", ("有", "没有"), "右肺有病变"),
        ("图中有肿块吗?", ("有", "没有"), "双肺对称"),
        ("图中有肿块吗?", ("有", "没有"), "心功能正常"),
        ("这张图正常吗?", ("是", "否"), "没有异常"),
        ("肺部健康吗?", ("健康", "不健康"), "没有异常"),
    ],
)
def test_a_sentence_about_something_else_is_no_answer(text: str, options: tuple[str, str], reply: str) -> None:
    assert _read(text, options, reply) is None


@pytest.mark.parametrize(
    ("text", "options", "reply", "said"),
    [
        ("这是CT吗?", ("是", "否"), "这是一张CT图像。", "是"),
        ("这是CT吗?", ("是", "否"), "这不是CT，而是MRI。", "否"),
        ("图中有肿块吗?", ("有", "没有"), "看不到肿块", "没有"),
        ("图中有肿块吗?", ("有", "没有"), "没有肿块，有积液。", "没有"),
        ("图中有肿块吗?", ("有", "没有"), "是的，没有积液，有肿块", "有"),
        ("肺看起来不正常吗?", ("是的", "不是"), "肺看起来不正常。", "是的"),
        ("左上肺可以观察到肺不张吗?", ("可以", "不可以"), "左上肺可以观察到肺不张。", "可以"),
        ("肝脏是健康的吗?", ("健康", "不健康"), "肝脏不是健康的。", "不健康"),
    ],
)
def test_a_sentence_that_repeats_the_question_answers_it(
    text: str, options: tuple[str, str], reply: str, said: str
) -> None:
    assert _read(text, options, reply) == said
