"""`medtune export`: writes a run's model into a folder of its own, merged or as an adapter, proven and described."""

import argparse
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import torch
from huggingface_hub import EvalResult, ModelCardData

from medtune.benchmarks import find_benchmark
from medtune.data.control_characters import without_controls
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES
from medtune.data.readable import spoken, without_paths
from medtune.data.types import MediaGroup, MediaKind, MediaRef, Prompt, Question, Request
from medtune.eval.data_label import UNKNOWN, DataLabel
from medtune.eval.report.result_tables import gain_table
from medtune.eval.report.run_data import RunData, read_run
from medtune.eval.report.table import banner_lines, escaped, table_lines
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.tuning.quantize import precise, resolved
from medtune.models.vlm import LANGUAGE_FOLDER
from medtune.models.weights.hub import check_public, check_repo, push, show_downloads_alone, terms_of
from medtune.models.weights.write_adapter import Base, usage
from medtune.trainer.commands.arguments import Commands, positive
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.load_model import adapter_base, load_as_left, place
from medtune.trainer.exporting import DtypeChoice, ExportOptions, WrittenExport, write_and_prove
from medtune.trainer.recipe.read import recipe_to_yaml
from medtune.trainer.recipe.schema import ModelBlock, Recipe
from medtune.trainer.runs.run_folder import RunFolder

_HUB_DATA = "https://huggingface.co/datasets/"
_HUB_LICENCES = frozenset({
    "apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0",
    "llama3", "llama3.1", "llama3.2", "gemma",
})  # fmt: skip
"""The licences that the hub knows by these names, as far as models here have them."""

CARD = "README.md"
SAMPLES = 8
NOTICE = "For research only. Replies may be wrong in any way; they are neither a medical finding nor advice."
_VIDEOS = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".webm")
_A: dict[MediaKind, str] = {"image": "an image", "video": "a video", "volume": "a volume"}


def model_card(written: WrittenExport, results: RunData | None, *, label: DataLabel, folder: Path, name: str) -> str:
    """Returns the model card in Markdown, which names only the ends of paths; results are None without evaluation."""
    recipe = written.recipe
    benchmark, entry = find_benchmark(recipe.data.benchmark), zoo_entry(recipe.model.name, recipe.model.weights)
    base, licence = adapter_base(recipe), _licence(recipe, entry)
    is_adapter = (folder / "adapter_config.json").is_file()
    lines = [
        *_front_matter(written, base, results, licence=licence, name=name, is_adapter=is_adapter),
        f"# {escaped(name)}",
        "",
        f"{escaped(entry.title)}, tuned with medtune on {escaped(benchmark.title)}. For research only; it is no "
        "medical device, and no decision about a patient may be based on its replies.",
        "",
        *banner_lines(label.banners()),
        "## Results",
        "",
        *_results(results),
        "## Proof",
        "",
        *_proof(written),
        "",
        "## Who reads it",
        "",
        *(f"- {escaped(line)}" for line in written.read_by),
        "",
        "## Where it comes from",
        "",
        f"- base model: {escaped(without_paths(base.name))}, revision {base.revision or 'not pinned'}",
        *(
            f"- {part}: {escaped(without_paths(_began(recipe, part, text)))}"
            for part, text in written.provenance.items()
        ),
        *_origin(results),
        "",
        "## Terms",
        "",
        f"- Weights that it was made from: {escaped(licence)}",
        f"- Data that it was tuned on: {escaped(benchmark.licence)}. Find out what this licence asks of a model that "
        "was tuned on the data before you pass the model on.",
        "- The weights may reveal parts of the data that they were tuned on.",
        "",
        "## Use",
        "",
        *_use(written, base, folder, is_adapter=is_adapter),
        "",
        "## Recipe",
        "",
        *(f"    {line}" for line in without_paths(recipe_to_yaml(recipe)).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _front_matter(
    written: WrittenExport, base: Base, results: RunData | None, *, licence: str, name: str, is_adapter: bool
) -> list[str]:
    """Returns what the hub reads of the card: base model, licence, data and scores."""
    is_local = Path(base.name).is_absolute() or Path(base.name).is_dir()
    on_hub = base.name if base.name.count("/") == 1 and not is_local else None
    benchmark = find_benchmark(written.recipe.data.benchmark)
    data = benchmark.url.partition(_HUB_DATA)[2].strip("/")
    known = licence.casefold()
    card = ModelCardData(
        library_name="medtune" if not written.is_plain else "peft" if is_adapter else "transformers",
        base_model=on_hub,
        base_model_relation=("adapter" if is_adapter else "finetune") if on_hub else None,
        license=known if known in _HUB_LICENCES else "other",
        license_name=None if known in _HUB_LICENCES else (re.sub(r"[^a-z0-9]+", "-", known).strip("-")[:60] or None),
        datasets=[data] if data.count("/") == 1 else None,
        pipeline_tag="image-text-to-text",
        tags=["medical", "vision-language", "medtune"],
        model_name=name if results else None,
        eval_results=_scores(results) if results else None,
    )
    return ["---", *card.to_yaml().splitlines(), "---", ""]


def _scores(run: RunData) -> list[EvalResult] | None:
    results, overall = run.results, run.last.overall
    if overall.value is None:
        return None
    simulated = f" ({run.label.provenance} data)" if run.label.provenance != "released" else ""
    reach = f", 95 % interval {overall.ci95.text()}" if overall.ci95 else ""
    score = EvalResult(
        task_type="visual-question-answering",
        dataset_type=results.benchmark,
        dataset_name=f"{find_benchmark(results.benchmark).title} {results.benchmark_version}{simulated}",
        dataset_split=str(run.setting("eval", "split")),
        metric_type=run.primary,
        metric_name=f"{spoken(run.primary)}, {overall.n} questions{reach}",
        metric_value=round(overall.value, 4),
    )
    return [score]


def _began(recipe: Recipe, part: str, text: str) -> str:
    """Returns where a part's weights come from; what began at random and was trained is not random any more."""
    tuned = {mode for stage in recipe.stages if (mode := getattr(getattr(stage.tuning, part, None), "mode", None))}
    is_trained = text.startswith("random") and tuned - {"frozen"}
    return f"trained in this run, from {text}" if is_trained else text


def _results(run: RunData | None) -> list[str]:
    if run is None:
        return ["None: the run was not evaluated.", ""]
    return [
        f"{escaped(run.results.benchmark)} {escaped(run.results.benchmark_version)}, "
        f"split {escaped(str(run.setting('eval', 'split')))}; prompts: {escaped(run.label.prompts)}.",
        "",
        *table_lines(gain_table(run)),
    ]


def _proof(written: WrittenExport) -> list[str]:
    if written.proof is None:
        return [
            "Not proven: the folder was written without being compared with the trained model (`--no-proof`). "
            f"Its weights are {written.dtype}."
        ]
    return [f"- {escaped(sentence)}" for sentence in written.proof.sentences()]


def _use(written: WrittenExport, base: Base, folder: Path, *, is_adapter: bool) -> list[str]:
    model = written.recipe.model
    name = model.name
    if is_adapter:
        shown = Base(without_paths(base.name), base.revision)
        parts = without_paths(parts_of(model, None))
        return [
            *usage(shown, folder).splitlines()[2:],
            f"    medtune eval RECIPE --set model.name={name} model.adapter=THIS_FOLDER{parts}",
        ]
    parts = parts_of(model, f"THIS_FOLDER/{LANGUAGE_FOLDER}")
    return [f"    medtune eval RECIPE --set model.name={name} model.weights=THIS_FOLDER{without_paths(parts)}"]


def _origin(run: RunData | None) -> list[str]:
    if run is None:
        return []
    known = {"medtune": run.environment.medtune, "git_commit": run.environment.git_commit}
    versions = ", ".join(f"{name} {version}" for name, version in known.items() if version)
    return [
        f"- recipe: {escaped(run.results.recipe or UNKNOWN)}; {versions}",
        f"- data hash: {escaped(run.results.data_hash)}",
    ]


def _licence(recipe: Recipe, entry: ZooEntry) -> str:
    where = recipe.model.weights
    if where is None or (entry.hub is not None and where == entry.hub.repo_id):
        return entry.licence
    terms = terms_of(where, recipe.model.revision)
    if terms is not None and terms.licence is not None:
        return terms.licence
    return f"that of {recipe.model.name} is {entry.licence}; the card of the weights that it was made from names none"


def export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="The run folder whose model is exported.")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="The folder to write, which must be empty or new."
    )
    parser.add_argument(
        "--adapter", action="store_true", help="Writes the adapter alone, in PEFT's format, instead of the whole model."
    )
    parser.add_argument(
        "--dtype",
        choices=get_args(DtypeChoice),
        default="base",
        help="Number format of the merged weights, or of the base model when an adapter is proven; base is that of the "
        "base model's checkpoint (default: base).",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=SAMPLES,
        metavar="N",
        help=f"Number of samples on which the export is compared with the trained model (default: {SAMPLES}).",
    )
    parser.add_argument(
        "--no-proof",
        action="store_true",
        help="Does not compare the export with the trained model; the model card then says so.",
    )
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cpu",
        help="Device that the samples are computed on (default: cpu).",
    )
    parser.add_argument(
        "--push-to-hub",
        metavar="REPO",
        help="Repository of the Hugging Face hub that the proven export is uploaded to (default: none).",
    )
    parser.add_argument(
        "--private", action="store_true", help="Makes a new repository on the hub private, which is public otherwise."
    )


def export_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune export`: writes the run's model, proves it, uploads it if asked to, and returns 0."""
    if options.samples < 1:
        raise ValueError(f"--samples {options.samples}: at least 1, or --no-proof")
    if options.push_to_hub is not None:
        if options.no_proof:
            raise ValueError("--push-to-hub uploads proven exports alone; leave out --no-proof")
        check_repo(options.push_to_hub)
    elif options.private:
        raise ValueError("--private says how --push-to-hub makes a repository; give both, or neither")
    wanted = ExportOptions(
        as_adapter=options.adapter,
        dtype=options.dtype,
        device=torch.device(options.device),
        samples=0 if options.no_proof else options.samples,
    )
    show_downloads_alone()
    written = _export_run(options.run, options.out, wanted, for_hub=options.push_to_hub is not None)
    if options.push_to_hub is not None:
        message = f"{written.recipe.model.name} tuned on {written.recipe.data.benchmark}"
        print(f"uploaded: {push(options.out, options.push_to_hub, private=options.private, message=message)}")
    return 0


def _export_run(root: Path, out: Path, wanted: ExportOptions, *, for_hub: bool) -> WrittenExport:
    """Writes the model of a run into `out`, prints how to load it and returns what was written."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} is not empty; name another folder with --out")
    folder = RunFolder(root)
    folder.read_recipe()
    results = read_run(root) if folder.results.is_file() else None
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        written = write_and_prove(folder, unfinished, wanted)
        card = model_card(written, results, label=folder.recorded_label(), folder=unfinished, name=out.name)
        (unfinished / CARD).write_text(without_controls(card), "utf-8")
        (unfinished / folder.recipe.name).write_text(without_paths(recipe_to_yaml(written.recipe)), "utf-8")
        if for_hub:
            check_public(unfinished)
        if out.exists():
            out.rmdir()
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _tell(written, out, wanted)
    return written


def _tell(written: WrittenExport, out: Path, wanted: ExportOptions) -> None:
    size_mb = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    what = "adapters written" if wanted.as_adapter else "adapters merged"
    print(f"{out}: {written.num_adapters} {what}, {size_mb:.0f} MB, {written.dtype}")
    for line in [*(written.proof.sentences() if written.proof else ["Not proven (--no-proof)."]), *written.read_by]:
        print(line)
    field = "adapter" if wanted.as_adapter else "weights"
    parts = parts_of(written.recipe.model, None if wanted.as_adapter else f"{out}/{LANGUAGE_FOLDER}")
    print(f"load it with: --set model.name={written.recipe.model.name} model.{field}={out}{parts}")


def parts_of(model: ModelBlock, language: str | None) -> str:
    """Returns the settings that name the parts of a model put together by a recipe; "" where it names none.

    Args:
        language: The folder of the exported language model; None where the recipe's own is still needed.
    """
    named = {"vision": model.vision, "projector": model.projector}
    named["language"] = model.language and (language or model.language)
    return "".join(f" model.{part}={name}" for part, name in named.items() if name is not None)


def chat_arguments(parser: argparse.ArgumentParser) -> None:
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


def chat_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Prints a reply to each question, or to each line that is typed until an empty one, and returns 0."""
    media, questions = options.media or (), options.question
    for path in media:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder")
    if questions is not None and not all(map(str.strip, questions)):
        raise ValueError("the question is empty; write one behind --question")
    refs = tuple(MediaRef(path, kind=_kind(path)) for path in media)
    device = device_of_rank(0)
    folder = RunFolder(options.run)
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
        max_new_tokens=options.max_new_tokens or recipe.eval.max_new_tokens,
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
    if path.is_dir() or name.endswith(NIFTI_SUFFIXES):
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


COMMANDS: Commands = {"export": (export_arguments, export_command), "chat": (chat_arguments, chat_command)}
