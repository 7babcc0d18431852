"""M3D-VQA, a benchmark on CT volumes: plane, phase, organ, abnormality and location, with choices and as free answers.

As in M3D, the choices follow the question on the same line; with `model.answer_format: letter` the answer consists of
letter and words, as in M3D too. A free answer is unscored until a judge has decided whether it is right; a reply that
is empty or equals the reference word for word needs no judge. M3D's own scores of free answers (BLEU-1, ROUGE-1,
METEOR, BERTScore) are not computed.

Source: Bai et al., M3D, arXiv 2404.00578; BAAI-DCAI/M3D, Bench/dataset/multi_dataset.py and Bench/eval/eval_vqa.py.
"""

from dataclasses import replace

from medtune.benchmarks.m3d_vqa import free_answers
from medtune.benchmarks.m3d_vqa.free_answers import is_free, judge_task
from medtune.data.media.augment import NO_CHANGES, Change
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.asking.choice_prompt import letters_for, render_choice
from medtune.eval.benchmark import Benchmark
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.scoring.parsers.choice_parsers import parse_choice


def benchmark() -> Benchmark:
    return Benchmark(
        title="M3D-VQA",
        version="1.1",
        licence="Apache-2.0 (questions)",
        url="https://huggingface.co/datasets/GoodBaiBai88/M3D-VQA",
        citation="M3D: Advancing 3D Medical Image Analysis with Multi-Modal Large Language Models. arXiv:2404.00578.",
        sources=("m3d_vqa",),
        facets=("task", "format"),
        render=render,
        parsers={"robust": parse_robust, "official": parse_official},
        metrics={"accuracy": accuracy().only(has_choices), "free_answers": accuracy().only(is_free)},
        examples=_EXAMPLES,
        judging=judge_task(),
        allowed_changes=allowed_changes,
    )


def allowed_changes(question: Question) -> frozenset[Change]:
    """Returns which random changes of a training scan leave the answer to the question true.

    No scan is mirrored, unlike in M3D's own training. Grey values stay unchanged if the answer depends on Hounsfield
    units (phase, abnormality), and the scan is not moved if the answer may be a place in the scan.
    """
    task_allows: dict[str, frozenset[Change]] = {
        "plane": frozenset({"move", "grey"}),
        "phase": frozenset({"move"}),
        "organ": frozenset({"move", "grey"}),
        "abnormality": frozenset({"move"}),
        "location": frozenset({"grey"}),
    }
    return task_allows.get(question.facets["task"], NO_CHANGES)


def has_choices(question: Question) -> bool:
    return not is_free(question)


def render(question: Question, answer_format: AnswerFormat) -> Prompt:
    r"""Returns the prompt: the question followed by its choices, or by the form that a free answer should have.

    Example:
        >>> print(render(_EXAMPLES[0], "letter").text)
        Which plane is this? Choices: A. axial B. coronal C. sagittal
        Answer with its letter and words.
        >>> render(_EXAMPLES[0], "letter").target
        'B. coronal'
    """
    if is_free(question):
        return Prompt(f"{question.text}\nAnswer with a short phrase.", (), question.answer)
    prompt = render_choice(question, answer_format)
    lettered = tuple(
        f"{letter}. {option}" for letter, option in zip(letters_for(question), question.options, strict=True)
    )
    how = prompt.text.rpartition("\n")[2]
    if answer_format == "letter":
        target = lettered[question.options.index(question.answer)]
        prompt, how = replace(prompt, choices=lettered, target=target), "Answer with its letter and words."
    return replace(prompt, text=f"{question.text} Choices: {' '.join(lettered)}\n{how}")


def parse_robust(reply: str, question: Question) -> str | None:
    """Returns the choice that a reply clearly states, or the result of judging a free answer; else None."""
    return free_answers.parse(reply, question) if is_free(question) else parse_choice(reply, question)


def parse_official(reply: str, question: Question) -> str | None:
    """Returns the choice that the official code counts: the true one if its letter and a full stop occur in the reply.

    A weakness of the official code is kept: the reply "A. or B." is right whichever of the two is true.

    Example:
        >>> [parse_official(reply, _EXAMPLES[0]) for reply in ("B. coronal", "A. or B.", "C.", "B", "coronal")]
        ['coronal', 'coronal', 'sagittal', None, None]

    Source:
        BAAI-DCAI/M3D, Bench/eval/eval_vqa.py.
    """
    if is_free(question):
        return free_answers.parse(reply, question)
    lettered = dict(zip(question.options, letters_for(question), strict=True))
    first_true = sorted(question.options, key=lambda option: option != question.answer)
    return next((option for option in first_true if f"{lettered[option]}." in reply), None)


def _example(number: int, task: str, text: str, options: tuple[str, ...], answer: str) -> Question:
    return Question(
        id=f"example-{number}",
        media_id=f"example-scan-{number}",
        text=text,
        options=options,
        answer=answer,
        answer_kind="choice" if options else "text",
        patient_id=f"example-case-{number}",
        facets={"task": task, "format": "multi_choice" if options else "free_text"},
    )


_EXAMPLES = (
    _example(1, "plane", "Which plane is this?", ("axial", "coronal", "sagittal"), "coronal"),
    _example(2, "phase", "Was contrast agent given?", ("Yes", "No"), "No"),
    _example(3, "abnormality", "What is seen in the spleen?", ("a cyst", "an infarct", "a tear", "nothing"), "a cyst"),
    _example(4, "location", "Where does the mass lie?", (), "in the tail of the pancreas"),
)
