"""The arguments about a table of the user's own, `medtune init`, `medtune predict` and `medtune prompts`."""

import argparse
import math
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from medtune.benchmarks import OWN_QUESTIONS, find_benchmark
from medtune.data.files import out_folder
from medtune.data.prepared.manifest import MANIFEST
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.work.take import read_source
from medtune.data.raw.rejects import MAX_REJECTED
from medtune.data.raw.source import HubId, Source, SourceTable, TableOptions
from medtune.data.raw.table_rows import parsed_hub_id
from medtune.trainer.commands.arguments import Commands, add_answer_arguments, add_overrides, positive, share
from medtune.trainer.experiment.own_source import source_for
from medtune.trainer.launch.stop import stop_signals
from medtune.trainer.recipe.first_recipe import DataFacts, facts_of_prepared, facts_of_table, first_recipe

_MOST_FRAMES_PER_S = 1000
"""Ultrafast ultrasound has more, and is shown slower (our own choice)."""
PREPARED = "prepared"
LOOK_AT = 20
"""The number of questions of the quick look that stands in place of `prepare` where that was done."""


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    _add_place_arguments(parser)
    parser.add_argument(
        "--facets",
        nargs="+",
        metavar="COLUMN",
        help="The columns of a table by which scores are broken down (default: all with few values and no other role).",
    )
    parser.add_argument(
        "--question",
        metavar="TEXT",
        help="The question that is asked of every row of a table or folder (default: the row's own).",
    )
    parser.add_argument(
        "--options",
        nargs="+",
        metavar="TEXT",
        help="The options of every row that lists none, in the order in which the prompt lists them, which can change "
        "answers (default: the values of a column of labels).",
    )
    parser.add_argument(
        "--answers",
        type=_pair,
        nargs="+",
        action="extend",
        default=[],
        metavar="VALUE=TEXT",
        help="Other words for answers or labels of the table: 0=no 1=yes (default: the table's).",
    )
    add_answer_arguments(parser)
    parser.add_argument(
        "--index-from",
        type=int,
        choices=(0, 1),
        help="Answers are the places of options, which count from this number (default: told where it is certain).",
    )
    parser.add_argument(
        "--keep",
        choices=("first", "all"),
        help="Which rows stay that ask the same of the same image (default: the first, none if their answers differ).",
    )
    parser.add_argument(
        "--splits",
        type=_pair,
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=SPLIT",
        help="The split that a name in the data stands for: train, val or test, or none to leave it out (default: the "
        "usual names are known).",
    )
    parser.add_argument(
        "--copy",
        action="store_true",
        help="Copies films and scans into the prepared folder; without it they are linked where the disk allows it. "
        "Images are always copied.",
    )


def _add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say where in a table or folder things stand."""
    parser.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="The folder to which the paths of images, films or scans in a table are relative (default: the table's).",
    )
    parser.add_argument(
        "--columns",
        type=_pair,
        nargs="+",
        action="extend",
        default=[],
        metavar="ROLE=COLUMN",
        help="What columns of a table hold: question=Q patient=PID; ROLE= for none (default: told by their names).",
    )
    parser.add_argument("--sheet", metavar="NAME", help="The sheet of a workbook (default: the first with rows).")
    parser.add_argument(
        "--header",
        type=positive,
        metavar="ROW",
        help="The row of a workbook, or the line of a text file, with the names of the columns (default: the first).",
    )
    parser.add_argument(
        "--patient",
        type=_pattern,
        metavar="PATTERN",
        help="A regular expression that finds the patient in the path of a row's file, by its first group: '(\\d+)_' "
        "(default: the column of patients).",
    )
    parser.add_argument(
        "--frames-per-s",
        type=_rate,
        metavar="N",
        help="The frames a second of DICOM cines whose files do not say it (default: such cines are refused).",
    )


def origin(text: str) -> Path | HubId:
    """Returns the path or the name of a hub data set that `text` is."""
    try:
        return parsed_hub_id(text) or Path(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def chosen_source(options: argparse.Namespace) -> Source:
    """Returns the source that the user names, or that recognises his files, with what he says of his table."""
    said = TableOptions(
        media_folder=options.images,
        columns={**dict(options.columns), **({"labels": ",".join(options.labels)} if options.labels else {})},
        ask_labels=options.ask_labels,
        tolerance=options.tolerance or "",
        uncertain=None if options.uncertain == "leave-out" else options.uncertain,
        facets=None if options.facets is None else tuple(options.facets),
        question=options.question,
        options=tuple(options.options or ()),
        answers=dict(options.answers),
        index_from=options.index_from,
        frames_per_s=options.frames_per_s,
        patient=options.patient,
        keep=options.keep,
        language=options.language,
        splits=dict(options.splits),
        sheet=options.sheet,
        header=options.header,
        limit=options.limit,
    )
    return source_for(options.benchmark, options.root, said, named=options.source)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: no regular expression ({error})") from None


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_FRAMES_PER_S:
        raise argparse.ArgumentTypeError(f"{text} is no number of frames a second, above 0 to {_MOST_FRAMES_PER_S}")
    return value


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: wanted NAME=VALUE")
    return name, value


def init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="The folder for the recipe; made if it is missing.")
    parser.add_argument(
        "--data",
        dest="root",
        type=origin,
        required=True,
        metavar="PATH",
        help="The questions, as for --from of `medtune prepare`: a table, a folder, or hf:ID; or a prepared folder.",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="The source that reads the data; `medtune list sources` (default: the first that recognises them).",
    )
    add_table_arguments(parser)
    parser.set_defaults(benchmark=OWN_QUESTIONS, limit=None)


def init_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune init`: writes the recipe, named after its folder, prints the next commands, and returns 0."""
    folder = out_folder(options.folder)
    recipe = folder / f"{folder.resolve().name}.yaml"
    if recipe.exists():
        raise FileExistsError(f"{recipe}: this recipe is there already and is left as it is. Name another folder.")
    if isinstance(options.root, Path) and not options.root.exists():
        raise FileNotFoundError(f"{options.root}: there is no such file or folder. Check --data.")
    validate, run = ["medtune", "validate", str(recipe)], ["medtune", "run", str(recipe)]
    look = ["medtune", "eval", str(recipe), "--limit", str(LOOK_AT)]
    if isinstance(options.root, Path) and (options.root / MANIFEST).is_file():
        prepared = open_prepared(options.root)
        facts, benchmark, root = facts_of_prepared(prepared), prepared.manifest.benchmark, options.root
        commands, lines = [validate, look, run], list[str]()
    else:
        with tempfile.TemporaryDirectory(prefix="medtune-") as scratch:
            source = chosen_source(options)
            table = read_source(source, options.root, 0, Path(scratch))
            facts, lines = facts_of_table(table), _noted(table, source)
        benchmark, root = options.benchmark, folder / PREPARED
        commands = [["medtune", "prepare", benchmark, *_settings(options), "--out", str(root)], validate, run]
    if not facts.questions["train"]:
        # Nothing can be trained, and `validate` refuses such a folder: the model is only asked.
        commands = [*(each for each in commands if each[1] == "prepare"), look, ["medtune", "eval", str(recipe)]]
    typed = [shlex.join(each) for each in commands]
    text = first_recipe(facts, benchmark=benchmark, root=root.resolve(), on_gpu=_has_gpu(), commands=typed)
    folder.mkdir(parents=True, exist_ok=True)
    with recipe.open("x", encoding="utf-8") as file:
        file.write(text)
    print("\n".join([*lines, *_described(facts)]))
    print(f"\n{recipe}: a first recipe with a comment on every field; open it and change what you like.")
    print("The next three commands:\n")
    print("\n".join(f"    {each}" for each in typed))
    return 0


def _settings(options: argparse.Namespace) -> list[str]:
    said = ["--from", str(options.root)]
    for name in ("source", "images", "sheet", "header", "question", "index_from", "patient", "keep", "language",
                 "frames_per_s"):  # fmt: skip
        if (value := getattr(options, name)) is not None:
            said += [f"--{name.replace('_', '-')}", getattr(value, "pattern", str(value))]
    if options.options:
        said += ["--options", *options.options]
    if options.tolerance:
        said += ["--tolerance", options.tolerance]
    if options.labels:
        said += ["--labels", *options.labels, "--ask-labels", options.ask_labels, "--uncertain", options.uncertain]
    for name in ("answers", "columns", "splits"):
        if pairs := getattr(options, name):
            said += [f"--{name}", *(f"{key}={value}" for key, value in pairs)]
    if options.facets is not None:
        said += ["--facets", *options.facets]
    return [*said, "--copy"] if options.copy else said


def patient_advice(source: Source) -> str:
    """Returns how the user says whose the media are, in a way that the source takes."""
    column = "Name the column: --columns patient=COLUMN, or take" if source.has_columns else "Take"
    return f"{column} patients from the files' paths: --patient 'PATTERN'"


def _noted(table: SourceTable, source: Source) -> list[str]:
    lines = [f"note: {note}" for note in table.notes]
    if (unit := table.stands_for_patient) != "patient":
        lines.append(
            f"NO PATIENTS WERE FOUND: one {unit} stands for one patient, so that train and test may share patients. "
            + patient_advice(source)
        )
    return lines


def _described(facts: DataFacts) -> list[str]:
    num = facts.questions
    kinds = " and ".join(f"{kind}s" for kind in sorted(facts.kinds)) or "no media"
    lines = [
        f"questions  train {num['train']:,}, val {num['val']:,}, test {num['test']:,} ({facts.about_splits})",
        f"answers    {facts.closed:,} listed (options, yes or no), {facts.open:,} free",
        f"media      {kinds}" + (f", up to {facts.most_items} together" if facts.most_items > 1 else ""),
    ]
    if not num["train"]:
        lines.append("NO QUESTIONS TO TRAIN ON: all are for testing, so that a model can only be asked.")
    if facts.rejected:
        lines.append(f"rejected   {facts.rejected:,} rows; `prepare` lists them")
        total = sum(num.values()) + facts.rejected
        if facts.rejected > MAX_REJECTED * total:
            lines.append(
                f"`prepare` WILL STOP: more than {MAX_REJECTED:.0%} of the rows are rejected, the first because: "
                f"{facts.first_reject}. Correct them, or add --max-rejected 1 to go on without them."
            )
    return lines


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def prompts_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", metavar="BENCHMARK", help="The benchmark whose prompts they are.")
    parser.add_argument(
        "--from",
        dest="folder",
        type=Path,
        required=True,
        metavar="DIR",
        help="A folder with the benchmark's own prompts, as its README says.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="The YAML file to write.")


def prompts_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune prompts`: writes a line for each template, names those that are still missing, and returns 0."""
    benchmark = find_benchmark(options.benchmark)
    official = benchmark.official
    if official is None or official.from_texts is None:
        names = "" if official is None else f"; write them yourself, a line for each of {official.listed}"
        raise ValueError(f"{benchmark.title} has no prompts in files of plain text{names}")
    if options.out.exists():
        raise FileExistsError(f"{options.out} exists; name another file with --out")
    found = official.from_texts(options.folder)
    options.out.write_text(yaml.safe_dump(dict(found), allow_unicode=True, sort_keys=True), "utf-8")
    print(f"{options.out}: {len(found)} of {len(official.names)} templates; give it to `medtune prepare --prompts`")
    if missing := [name for name in official.names if name not in found]:
        print(f"asked in our words until you add them: {', '.join(missing)}")
    return 0


def predict_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="The folder of a run or of an export, or the name or file of a recipe."
    )
    parser.add_argument(
        "--from",
        dest="questions",
        required=True,
        metavar="PATH",
        help="A table with an image and, where it differs from row to row, a question in each row; a folder of images; "
        "a prepared folder; or hf:ID.",
    )
    parser.add_argument(
        "--out",
        required=True,
        type=Path,
        metavar="FILE",
        help="The table to write, .csv or .jsonl. The same command goes on with it after a stop.",
    )
    parser.add_argument(
        "--question",
        metavar="TEXT",
        help="The question that is asked of every row (default: the row's, or the only one of the model's own data).",
    )
    parser.add_argument(
        "--options",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="The options of every row that lists none, in the order in which the prompt lists them, which can change "
        "answers (default: those of the same question in the model's own data).",
    )
    _add_place_arguments(parser)
    parser.add_argument(
        "--source", metavar="NAME", help="The source that reads the table (default: told by the files)."
    )
    parser.add_argument(
        "--error-rate",
        type=share,
        metavar="RATE",
        help="Abstains, so that at most this share of a new patient's questions is answered wrongly, and lists the "
        "options that hold the truth with a probability of 1 - RATE; set on the val split of the model's own data "
        "(default: all questions are answered).",
    )
    add_overrides(parser, of="recipe", example="eval.batch_size=4")


def predict_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    # The import loads torch.
    from medtune.models.weights.whole_folders import UNFINISHED
    from medtune.trainer.experiment.predict import NOTICE, predict

    print(NOTICE, file=sys.stderr, flush=True)
    try:
        with stop_signals():
            predict(
                options.model,
                options.questions,
                images=options.images,
                out=options.out,
                question=options.question,
                options=options.options,
                columns=dict(options.columns),
                patient=options.patient,
                frames_per_s=options.frames_per_s,
                sheet=options.sheet,
                header=options.header,
                source=options.source,
                overrides=options.overrides,
                error_rate=options.error_rate,
            )
    except BaseException:
        if (kept := options.out.with_name(f".{options.out.name}{UNFINISHED}")).is_dir():
            print(f"The answers so far are kept in {kept}: the same command goes on.", file=sys.stderr)
        raise
    return 0


COMMANDS: Commands = {
    "init": (init_arguments, init_command),
    "predict": (predict_arguments, predict_command),
    "prompts": (prompts_arguments, prompts_command),
}
