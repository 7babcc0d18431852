"""`medtune chat`: puts free questions about media items to a run's model; for research, never for a patient."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from medtune.data.types import MediaGroup, MediaKind, MediaRef, Prompt, Question, Request
from medtune.models.answering import LocalAnswerer
from medtune.models.tuning.quantize import precise, resolved
from medtune.trainer.commands.arguments import positive
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.load_model import load_as_left, place
from medtune.trainer.experiment.run_folder import RunFolder

NOTICE = "For research only. Replies may be wrong in any way; they are neither a medical finding nor advice."
_VIDEOS = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".webm")
_VOLUMES = (".nii", ".nii.gz")
_A: dict[MediaKind, str] = {"image": "an image", "video": "a video", "volume": "a volume"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune chat`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="The run folder whose model answers.")
    parser.add_argument(
        "--media",
        type=Path,
        action="append",
        metavar="PATH",
        help="What the questions are about: an image, a video, a NIfTI file or a folder with a DICOM series. Given "
        "several times, the items are shown together, in that order (default: the questions are asked without media).",
    )
    parser.add_argument(
        "--question",
        action="append",
        metavar="TEXT",
        help="A question to ask; may be given several times (default: each line that is typed is a question).",
    )
    parser.add_argument(
        "--max-new-tokens",
        type=positive,
        metavar="N",
        help="The largest number of tokens in a reply (default: the recipe's eval.max_new_tokens).",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune chat`: prints a reply to each question and returns 0."""
    return chat(
        options.run, media=options.media or (), questions=options.question, max_new_tokens=options.max_new_tokens
    )


def chat(root: Path, *, media: Sequence[Path], questions: Sequence[str] | None, max_new_tokens: int | None) -> int:
    """Prints a reply to each question, or to each line that is typed, and returns 0.

    Args:
        root: The run folder.
        media: Images, videos, NIfTI volumes or folders with a DICOM series, of kinds that the model reads, which are
            shown together.
        questions: The questions; None reads one question from each line, until an empty line or the end of the input.
        max_new_tokens: The largest number of tokens in a reply; None takes the recipe's limit.
    """
    for path in media:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder")
    if questions is not None and not all(map(str.strip, questions)):
        raise ValueError("the question is empty; write one behind --question")
    refs = tuple(MediaRef(path, kind=_kind(path)) for path in media)
    device = device_of_rank(0)
    folder = RunFolder(root)
    recipe, assembled = load_as_left(folder, device)
    for ref in refs:
        if ref.kind not in assembled.transform.kinds:
            reads = " and ".join(f"{kind}s" for kind in assembled.transform.kinds)
            said = f"this is taken for {_A[ref.kind]}; the model {recipe.model.name} reads {reads} only"
            raise ValueError(f"{ref.path}: {said}")
    precision = resolved(recipe.train.precision, device)
    place(assembled.model, precision, device)
    answerer = LocalAnswerer(
        assembled,
        device=device,
        batch_tokens=recipe.eval.batch_tokens,
        max_new_tokens=max_new_tokens or recipe.eval.max_new_tokens,
        precise=precise(precision, device),
    )
    print(NOTICE, file=sys.stderr, flush=True)
    if learnt := folder.recorded_label().training_note():
        print(learnt, file=sys.stderr, flush=True)
    for asked in [questions] if questions is not None else ([line] for line in _typed()):
        for reply in _replies(answerer, refs, asked):
            print(reply, flush=True)
    return 0


def _kind(path: Path) -> MediaKind:
    name = path.name.lower()
    if path.is_dir() or name.endswith(_VOLUMES):
        return "volume"
    return "video" if name.endswith(_VIDEOS) else "image"


def _replies(answerer: LocalAnswerer, media: tuple[MediaRef, ...], asked: Sequence[str]) -> list[str]:
    questions = [Question(str(n), "chat", text, (), "", "text", "nobody") for n, text in enumerate(asked)]
    requests = [Request(question, Prompt(question.text, (), ""), "generation", "image") for question in questions]
    said = {
        each.key.question_id: each for each in answerer.answer(MediaGroup("chat", media, tuple(questions)), requests)
    }
    ordered = [said[question.id] for question in questions]
    return [f"{each.text}{'' if each.finish_reason == 'stop' else ' [cut: --max-new-tokens]'}" for each in ordered]


def _typed() -> Iterator[str]:
    is_terminal = sys.stdin.isatty()
    while True:
        if is_terminal:
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line
