"""Makes free answers for tests: some were judged right or wrong, some wait for a judge, and some are empty."""

import json
from dataclasses import replace

from medtune.benchmarks import find_benchmark
from medtune.data.types import Prediction, PredictionKey, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.judge.verdicts import marked_verdicts
from medtune.eval.scoring.score import PhaseScores, score_phase

M3D = find_benchmark("m3d_vqa")
FREE: Benchmark = replace(M3D, metrics={"free_answers": M3D.metrics["free_answers"]})
"""The benchmark with free answers as its primary metric, so that all code that uses this metric meets them."""
Said = bool | str
"""The verdict of a judge, or the text of a reply without a verdict."""


def question(number: int) -> Question:
    facets = {"task": "organ" if number < 5 else "phase", "format": "free_text"}
    return Question(f"q{number}", f"m{number}", "Which?", (), f"answer {number}", "text", f"p{number}", facets)


def asked(said: tuple[Said, ...]) -> tuple[Question, ...]:
    return tuple(question(number) for number in range(len(said)))


def predicted(said: tuple[Said, ...]) -> list[Prediction]:
    keys = [PredictionKey(f"q{number}", "image", "generation", 0) for number in range(len(said))]
    replies = [each if isinstance(each, str) else "some words" for each in said]
    verdicts = {
        key: json.dumps({"right": each, "explanation": "."})
        for key, each in zip(keys, said, strict=True)
        if isinstance(each, bool)
    }
    found = [Prediction(key, text=text) for key, text in zip(keys, replies, strict=True)]
    return marked_verdicts(found, verdicts)


def phase(said: tuple[Said, ...], benchmark: Benchmark = FREE) -> PhaseScores:
    return score_phase(asked(said), predicted(said), benchmark)
