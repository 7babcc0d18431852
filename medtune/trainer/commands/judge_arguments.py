"""The arguments of `medtune judge`. Loads nothing heavy until the command runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_judge(judged: argparse.ArgumentParser) -> None:
    """Adds the arguments to the command's parser."""
    judged.add_argument("target", help="a run folder; with --predictions a benchmark's name")
    judged.add_argument("--predictions", type=Path, help="JSON lines with question_id and text, instead of a run")
    judged.add_argument("--questions", type=Path, help="the prepared folder of that file")
    judged.add_argument("--split", default="test", choices=("train", "val", "test"), help="of that folder")
    judged.add_argument("--judge", type=Path, metavar="FILE", help="YAML: endpoint or local, prompt, strict")
    judged.add_argument("--set", dest="overrides", metavar="KEY=VALUE", nargs="+", action="extend", default=[])
    judged.add_argument(
        "--agreement",
        type=Path,
        metavar="CSV",
        help="a person's scores (question_id, score): weighted kappa",
    )
    judged.add_argument("--phase", choices=("zero_shot", "final"), help="whose verdicts --agreement takes")
    judged.set_defaults(command=_judge)


def _judge(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands import judge
    from medtune.trainer.commands.judge_settings import read_judge

    if (options.predictions is None) != (options.questions is None):
        raise ValueError("--predictions and --questions go together: a file, and the prepared folder that it answers")
    of_file = {"predictions": options.predictions, "questions": options.questions, "split": options.split}
    if options.agreement is not None:
        if options.predictions is not None:
            return judge.show_agreement(judge.answered_file(options.target, **of_file), options.agreement)
        return judge.show_agreement(judge.answered_phase(Path(options.target), options.phase), options.agreement)
    settings = read_judge(options.judge, options.overrides)
    if options.predictions is not None:
        return judge.judge_file(options.target, **of_file, settings=settings)
    return judge.judge_run(Path(options.target), settings)
