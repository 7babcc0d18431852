"""Words a short-answer question in medtune's own prompt, in the language of the question."""

from medtune.benchmarks.short_answers.released_answers import is_chinese
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import render_choice


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns the question, followed by a line that says how to answer.

    Example:
        >>> asked = Question("q", "m", "Is the heart enlarged?", ("yes", "no"), "no", "yes_no", "p")
        >>> print(render(asked, "text").text)
        Is the heart enlarged?
        Answer yes or no.
        >>> print(render(Question("q", "m", "图中有肝脏吗?", ("有", "没有"), "有", "yes_no", "p"), "text").text)
        图中有肝脏吗?
        请回答“有”或“没有”。
    """
    if question.options and answer_format != "text":
        return render_choice(question, answer_format)
    chinese = is_chinese(question)
    if question.options:
        first, second = question.options
        how = f"请回答“{first}”或“{second}”。" if chinese else f"Answer {first} or {second}."
    else:
        how = "请用一个词或短语回答。" if chinese else "Answer with a word or a short phrase."
    return Prompt(f"{question.text}\n{how}", question.options, question.answer)
