"""The command line. Each command imports what it needs, so that `medtune list` is there at once."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from medtune import __version__
from medtune.data import catalog
from medtune.trainer.commands.arguments import add_recipe, facet_value, positive, share
from medtune.trainer.commands.judge_arguments import add_judge
from medtune.trainer.devices.launch import INTERRUPTED, launch, needs_launch

KINDS = ("recipes", "models", "benchmarks", "metrics", "sources")
BENCHES = "medtune.trainer.benches"
FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0 done, 1 refused with a message, 2 wrong usage, 130 Ctrl-C.

    What `verify` and `bench` find has its own, see there.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    try:
        return int(options.command(options, arguments))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # `medtune list recipes | head -1` has read enough; Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return _fail(f"the disk is full: {error}. Free some room, then continue with --resume")
        if isinstance(error, FileNotFoundError | FileExistsError | PermissionError | NotADirectoryError):
            return _fail(str(error))
        raise
    except ValueError as error:
        return _fail(str(error))


def _fail(message: str) -> int:
    print(f"medtune: {message}", file=sys.stderr)
    return FAILED


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    whole = argparse.ArgumentParser(
        prog="medtune", description="Fine-tunes medical vision-language models on the benchmarks that judge them."
    )
    whole.add_argument("--version", action="version", version=f"medtune {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)

    listed = commands.add_parser("list", help="what there is: recipes, models, benchmarks, metrics, sources")
    listed.add_argument("kind", choices=KINDS)
    listed.set_defaults(command=_list)

    shown = commands.add_parser("show", help="a recipe with everything resolved")
    add_recipe(shown)
    shown.set_defaults(command=_show)

    prepared = commands.add_parser("prepare", help="raw files -> a prepared folder with patient-level splits")
    prepared.add_argument("benchmark")
    prepared.add_argument("--from", dest="root", type=Path, help="the raw files; not needed for a simulation")
    prepared.add_argument("--out", type=Path, help="the folder to write")
    prepared.add_argument("--source", help="how the raw files are laid out; default: the benchmark's first source")
    prepared.add_argument("--limit", type=positive, help="at most this many patients")
    prepared.add_argument("--seed", type=int, default=0, help="of splits, options and simulations (default 0)")
    prepared.add_argument(
        "--max-rejected", type=share, default=0.01, metavar="SHARE", help="of unusable rows (default 0.01)"
    )
    prepared.add_argument(
        "--unofficial-split",
        choices=("patient",),
        help="divides a benchmark that is for evaluation alone",
    )
    prepared.add_argument("--list-missing", action="store_true", help="prints the media files to fetch, writes nothing")
    prepared.add_argument(
        "--prompts", type=Path, metavar="DIR", help="the benchmark's own prompts, sent verbatim; default: our wording"
    )
    prepared.set_defaults(command=_prepare)

    validated = commands.add_parser("validate", help="checks a recipe before a run: schema, files, labels, groups")
    add_recipe(validated)
    validated.add_argument("--no-weights", action="store_true", help="do not fetch or load pretrained weights")
    validated.add_argument(
        "--devices", metavar="NxNAME-SIZEGB", help="what the run will have, e.g. 4xA6000-48GB; default: this machine"
    )
    validated.set_defaults(command=_validate)

    for name, text in (
        ("run", "zero-shot evaluation -> training -> the same evaluation -> the gain"),
        ("train", "training alone"),
        ("eval", "evaluation alone, of the recipe's model or of model.checkpoint"),
    ):
        command = commands.add_parser(name, help=text)
        add_recipe(command)
        command.add_argument("--out", type=Path, help="run folder; default runs/RECIPE/TIME")
        command.add_argument("--resume", action="store_true", help="continue the run in --out")
        command.add_argument("--limit", type=positive, help="about this many questions of each split")
        if name == "run":
            command.add_argument("--seeds", type=positive, help="so many runs, train.seed counting up, and their gain")
        command.set_defaults(command=_run_command, name=name, seeds=None)

    scored = commands.add_parser("score", help="scores predictions that any tool wrote")
    scored.add_argument("benchmark")
    scored.add_argument(
        "--predictions",
        type=Path,
        required=True,
        help="JSON lines with question_id and text, or a file of lmms-eval or VLMEvalKit",
    )
    scored.add_argument("--questions", type=Path, required=True, help="the prepared folder")
    scored.add_argument("--parser", help="how answers are read; default: the benchmark's")
    scored.add_argument(
        "--bertscore", metavar="MODEL[:LAYER]", help="a hub name or a folder; without it BERTScore is left out"
    )
    scored.add_argument("--split", default="test", choices=("train", "val", "test"))
    scored.add_argument(
        "--only", metavar="FACET=VALUE", nargs="+", type=facet_value, default=[], help="a part of the questions"
    )
    scored.set_defaults(command=_score)
    _add_compare(commands)
    reported = commands.add_parser("report", help="report.html and report.md of a run, or one table of several")
    reported.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    reported.add_argument("--out", type=Path, help="where several runs are reported (default runs_report)")
    reported.set_defaults(command=_report)
    add_judge(commands.add_parser("judge", help="a language model's verdicts on free answers, and the scores then"))
    _add_audit(commands.add_parser("audit", help="what else could explain a score: of a run, or of a benchmark"))
    _add_power(commands.add_parser("power", help="how many patients it takes to see a gain"))
    verified = commands.add_parser("verify", help="recorded numbers of the published models against this code")
    verified.add_argument("paths", metavar="GOLDEN.json|DIR", type=Path, nargs="+")
    verified.set_defaults(command=_verify)
    exported = commands.add_parser("export", help="a run's model with its adapters merged, as a folder of its own")
    exported.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    exported.add_argument("--out", type=Path, required=True, help="the folder to write")
    exported.set_defaults(command=_export)
    asked = commands.add_parser("chat", help="asks a run's model free questions; for research alone")
    asked.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    asked.add_argument("--media", type=Path, required=True, help="an image, a video, a NIfTI file, a DICOM series")
    asked.add_argument("--question", action="append", help="ask this, then end; without it, each line that is typed")
    asked.add_argument("--max-new-tokens", type=positive, help="length limit of a reply; default: the recipe's")
    asked.set_defaults(command=_chat)
    _add_bench(commands.add_parser("bench", help="two ways to the same result: do they agree, how much faster is one"))
    return whole


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    compared = commands.add_parser("compare", help="two runs, or a run and a file of predictions, paired by question")
    compared.add_argument("first", type=Path, metavar="RUN_A", help="a run folder")
    compared.add_argument("second", type=Path, metavar="RUN_B", nargs="?", help="another one")
    compared.add_argument("--predictions", type=Path, help="instead of RUN_B: JSON lines with question_id and text")
    compared.add_argument("--questions", type=Path, help="the prepared folder, where it was moved since RUN_A")
    compared.add_argument("--phase", choices=("zero_shot", "final"), help="of the runs; default: the last each has")
    compared.add_argument("--parser", help="how answers are read; default: as in the runs' results")
    compared.add_argument("--out", type=Path, help="folder for compare.json, compare.md and compare.svg")
    compared.set_defaults(command=_compare)


def _add_audit(audited: argparse.ArgumentParser) -> None:
    audited.add_argument("target", help="a run folder, or a benchmark's name with --questions")
    audited.add_argument("--questions", type=Path, help="the prepared folder of the benchmark")
    audited.add_argument("--split", default="test", choices=("train", "val", "test"), help="of the benchmark")
    audited.add_argument("--out", type=Path, help="a JSON file for the benchmark's findings and items")
    audited.set_defaults(command=_audit)


def _add_power(planned: argparse.ArgumentParser) -> None:
    planned.add_argument("--gain", type=float, required=True, help="difference in accuracy, e.g. 0.05")
    planned.add_argument("--run", type=Path, help="a run folder to take the other numbers from")
    planned.add_argument("--baseline", type=float, help="accuracy before")
    planned.add_argument("--questions-per-patient", type=float)
    planned.add_argument(
        "--icc", type=float, help="intra-patient correlation of the change (default 0.1, or the run's)"
    )
    planned.add_argument("--discordant", type=float, help="share of answers that change; default: independent phases")
    planned.add_argument("--power", type=float, default=0.8)
    planned.add_argument("--alpha", type=float, default=0.05)
    planned.set_defaults(command=_power)


def _add_bench(timed: argparse.ArgumentParser) -> None:
    names = catalog.names(BENCHES)
    timed.add_argument("name", help=f"one of {', '.join(names)}")
    timed.add_argument("subject", nargs="?", help="what to run it on, e.g. a benchmark for score, a model")
    timed.add_argument("--no-target", action="store_true", help="exit 0 where a target is missed, not 2")
    timed.add_argument(
        "--record", type=Path, metavar="DIR", help="write the figures, machine and date to DIR/NAME.json"
    )
    timed.set_defaults(command=_bench)


def _list(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    if options.kind == "recipes":
        found = dict.fromkeys(catalog.names("medtune.recipes", ".yaml"), ("medtune.recipes", ".yaml"))
    elif options.kind == "sources":
        from medtune.benchmarks import source_packages

        found = {name: (package, ".py") for name, package in source_packages().items()}
    else:
        package, defining = {
            "models": ("medtune.models.zoo", "entry"),
            "benchmarks": ("medtune.benchmarks", "benchmark"),
            "metrics": ("medtune.eval.metrics", "metric"),
        }[options.kind]
        found = dict.fromkeys(catalog.names(package, defining=defining), (package, ".py"))
    width = max(map(len, found), default=0)
    for name, (package, suffix) in sorted(found.items()):
        print(f"{name:<{width}}  {catalog.first_line(package, name, suffix)}")
    return 0


def _show(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.recipe.read import find_recipe, read_recipe, recipe_to_yaml

    recipe = read_recipe(options.recipe, options.overrides)
    for line in find_recipe(options.recipe).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        print(line)
    print(recipe_to_yaml(recipe), end="")
    return 0


def _prepare(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.prepare_and_score import list_missing, prepare_folder

    if options.list_missing:
        return list_missing(options.benchmark, source_name=options.source, root=options.root, seed=options.seed)
    if options.out is None:
        raise ValueError("prepare needs --out: the folder to write")
    return prepare_folder(
        options.benchmark,
        source_name=options.source,
        root=options.root,
        out=options.out,
        limit=options.limit,
        seed=options.seed,
        max_rejected=options.max_rejected,
        unofficial_split=options.unofficial_split,
        prompts=options.prompts,
    )


def _validate(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.validate import validate
    from medtune.trainer.recipe.read import read_recipe

    recipe = read_recipe(options.recipe, options.overrides)
    return validate(recipe, weights=not options.no_weights, devices=options.devices)


def _run_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.recipe.read import read_recipe

    recipe = read_recipe(options.recipe, options.overrides)
    if options.resume and options.out is None:
        raise ValueError("--resume needs --out: the folder of the run to continue")
    if recipe.grid:
        return _run_grid(options, recipe.grid)
    if options.seeds is not None:
        return _run_seeds(options, first_seed=recipe.train.seed)
    out = _run_folder(options)
    if needs_launch(recipe.train.devices):
        extra = [] if options.out else ["--out", str(out)]
        return launch([*arguments, *extra], devices=recipe.train.devices)
    from medtune.trainer.experiment import run
    from medtune.trainer.experiment.experiment import open_experiment
    from medtune.trainer.experiment.run_folder import RunFolder

    experiment = open_experiment(
        recipe,
        RunFolder(out),
        name=Path(options.recipe).stem,
        training=options.name != "eval",
        resume=options.resume,
        limit=options.limit,
        command=["medtune", *arguments],
    )
    return {"run": run.run, "train": run.train, "eval": run.evaluate}[options.name](experiment)


def _compare(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.compare import compare_runs

    return compare_runs(
        options.first,
        options.second,
        predictions=options.predictions,
        questions=options.questions,
        phase=options.phase,
        parser=options.parser,
        out=options.out,
    )


def _report(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.benchmarks import paper_of
    from medtune.eval.report.write import write_report, write_runs

    if len(options.runs) > 1:
        print(write_runs(options.runs, options.out or Path("runs_report")))
    elif options.out:
        raise ValueError("--out is for several runs; the report of one is written into its folder")
    else:
        print(write_report(options.runs[0], paper_of))
    return 0


def _run_folder(options: argparse.Namespace) -> Path:
    return Path(options.out or Path("runs") / Path(options.recipe).stem / f"{datetime.now():%Y%m%d-%H%M%S}")


def _run_grid(options: argparse.Namespace, grid: Mapping[str, Sequence[str]]) -> int:
    from medtune.trainer.series.grid import run_grid

    if options.name != "run" or options.seeds is not None:
        raise ValueError("a recipe with a grid takes `medtune run` without --seeds; for one combination set grid=null")
    return run_grid(_start, _each_run(options), out=_run_folder(options), grid=grid, resume=options.resume)


def _run_seeds(options: argparse.Namespace, *, first_seed: int) -> int:
    from medtune.trainer.series.seeds import run_seeds

    each = [*_each_run(options), *(["--resume"] if options.resume else [])]
    return run_seeds(_start, each, out=_run_folder(options), first_seed=first_seed, number=options.seeds)


def _start(arguments: Sequence[str]) -> int:
    return _run_command(parser().parse_args(arguments), arguments)


def _each_run(options: argparse.Namespace) -> list[str]:
    limit = ["--limit", str(options.limit)] if options.limit else []
    overrides = ["--set", *options.overrides] if options.overrides else []
    return ["run", options.recipe, *limit, *overrides]


def _audit(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.audit import audit_benchmark, audit_run

    if options.questions is None:
        return audit_run(Path(options.target))
    return audit_benchmark(options.target, questions=options.questions, split=options.split, out=options.out)


def _power(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.power import show_power

    return show_power(
        run=options.run,
        baseline=options.baseline,
        gain=options.gain,
        questions_per_patient=options.questions_per_patient,
        icc=options.icc,
        discordant=options.discordant,
        power=options.power,
        alpha=options.alpha,
    )


def _score(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.prepare_and_score import score_file

    return score_file(
        options.benchmark,
        predictions=options.predictions,
        questions=options.questions,
        parser=options.parser,
        split=options.split,
        bertscore=options.bertscore,
        only=dict(options.only),
    )


def _verify(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.verify import verify

    return verify(options.paths)


def _bench(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.bench import run_bench

    return run_bench(options.name, subject=options.subject, target=not options.no_target, record=options.record)


def _export(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.export import export_run

    return export_run(options.run, options.out)


def _chat(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    from medtune.trainer.commands.chat import chat

    return chat(options.run, media=options.media, questions=options.question, max_new_tokens=options.max_new_tokens)
