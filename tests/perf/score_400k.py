"""Scores 400,000 made-up choice predictions of one file, and says how long it took and how much memory.

Run: python -m tests.perf.score_400k [NUMBER]
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from medtune.data.types import Question
from medtune.eval.benchmark import benchmark
from medtune.eval.predictions import read_predictions
from medtune.eval.scores import score_stage

NUMBER = 400_000
PER_PATIENT = 43
TASKS = ("plane_identification", "view_completeness", "fetal_orientation", "clinical_diagnosis", "visual_grounding")
OPTIONS = ("femur plane", "abdominal circumference plane", "head plane", "heart plane")
SAYINGS = ("{0}", "The answer is {0}.", "{0}", "Seen at {1} mm, so this is the {0}", "Hm, {1}.")


def made_up(number: int, path: Path) -> list[Question]:
    """Writes one prediction for each question to `path`, and returns the questions."""
    rng = np.random.default_rng(0)
    answers, replies, sayings = (rng.integers(0, n, number) for n in (len(OPTIONS), len(OPTIONS), len(SAYINGS)))
    questions = []
    with path.open("w", encoding="utf-8") as file:
        for n in range(number):
            facets = {"task": TASKS[n % 5], "box_size": ("small", "medium", "large")[n % 3], "phantom": "yes"}
            questions.append(
                Question(
                    id=f"q{n}",
                    media_id=f"m{n // PER_PATIENT}",
                    text="Which plane is this?",
                    options=OPTIONS,
                    answer=OPTIONS[answers[n]],
                    answer_kind="choice",
                    patient_id=f"p{n // PER_PATIENT}",
                    facets=facets,
                )
            )
            said = SAYINGS[sayings[n]].format(OPTIONS[replies[n]], n)
            file.write(json.dumps({"question_id": f"q{n}", "text": said}) + "\n")
    return questions


def main(number: int) -> None:
    """Prints seconds and peak memory; the time to make the questions is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        questions = made_up(number, path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        start = time.perf_counter()
        predictions = read_predictions(path)
        read = time.perf_counter()
        stage = score_stage(questions, predictions, benchmark("fetal_gauge"), train=questions[: number // 4])
        end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{number} predictions: read {read - start:.1f} s, score {end - read:.1f} s, together {end - start:.1f} s")
    print(f"peak memory {peak:.2f} GB, of which {before:.2f} GB were the questions; accuracy {stage.overall.score}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NUMBER)
