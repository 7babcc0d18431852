"""`medtune audit`: audits a run, whose model is loaded and asked again, or a benchmark, which needs no model."""

import argparse
import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from medtune.benchmarks import find_benchmark, paper_of
from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS, MediaGroup, Split
from medtune.eval.audit.findings import FindingsFile, findings_of
from medtune.eval.audit.image_cues import split_probes
from medtune.eval.audit.text import findings_text
from medtune.eval.data_label import label_of
from medtune.eval.report.write import write_report, write_runs
from medtune.eval.results.typed_json import write_document
from medtune.trainer.commands.arguments import Commands, add_questions, add_split
from medtune.trainer.commands.compare import paired_runs
from medtune.trainer.recipe.read import use_plugins_of_run
from medtune.trainer.recipe.servers import refuse_unnamed_server

OUT = Path("runs_report")
"""The default folder for the table of several runs."""


def audit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="RUN|BENCHMARK", help="A run folder, or with --questions a benchmark's name.")
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="DIR",
        help="The prepared folder of the benchmark to audit, or that of the run, if it has been moved (default: none, "
        "and the data of a run are looked for).",
    )
    add_split(parser, of="the benchmark to audit")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="The JSON file to write a benchmark's findings and items to (default: they are only printed).",
    )

    parser.add_argument(
        "--server",
        metavar="URL",
        help="The address of the server that answered for a run with a served model, which is asked again "
        "(default: none is asked but one on this machine).",
    )


def audit_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    if options.questions is None or (Path(options.target) / "recipe.yaml").is_file():
        return audit_run(Path(options.target), questions=options.questions, server=options.server)
    return audit_benchmark(options.target, questions=options.questions, split=options.split, out=options.out)


def audit_run(root: Path, *, questions: Path | None = None, server: str | None = None) -> int:
    """Writes ROOT/audit.json with all rows and writes the report anew, prints the table and returns 0.

    The model is asked on one device. If the run has not ended, no report is written; it is written when the run ends.

    Args:
        questions: The prepared folder of the run, if it has been moved.
        server: The address of the server that may be asked, where a served model answered.
    """
    # These imports load torch, which the audit of a benchmark does not need.
    from medtune.trainer.experiment.audit import audit_with_model
    from medtune.trainer.experiment.experiment import open_run
    from medtune.trainer.experiment.load_model import load_model
    from medtune.trainer.runs.audited import answered_phase
    from medtune.trainer.runs.run_folder import RunFolder

    folder = RunFolder(root)
    if not folder.recipe.is_file():
        raise FileNotFoundError(
            f"{root}: no run is here (no recipe.yaml); to audit a benchmark, give its name and --questions DIR"
        )
    experiment = open_run(root, questions=questions)
    named = [] if server is None else [server]
    refuse_unnamed_server(experiment.recipe.model.endpoint, named, folder=root, how="--server ")
    phase = answered_phase(experiment)
    is_trained = phase.name == "final" and experiment.folder.has_best
    model = load_model(experiment, experiment.folder.best if is_trained else experiment.recipe.model.checkpoint)
    print(audit_with_model(experiment, phase, model))
    print(f"audit: {folder.audit}")
    if folder.results.is_file():
        print(f"report: {write_report(folder.root, paper_of, questions=experiment.prepared.root)}")
    else:
        print(f"no report yet: the run has not ended (no {folder.results.name})")
    return 0


def audit_benchmark(name: str, *, questions: Path, split: Split, out: Path | None) -> int:
    """Prints how far the answers of a prepared benchmark could be guessed without the images, and returns 0."""
    prepared = open_prepared(questions)
    find_benchmark(name)
    if prepared.manifest.benchmark != name:
        raise ValueError(f"{questions} was prepared for the benchmark {prepared.manifest.benchmark!r}, not {name!r}")
    groups: dict[str, Sequence[MediaGroup]] = {each: prepared.groups(each) for each in SPLITS}
    findings = findings_of(
        groups,
        split=split,
        looks=prepared.looks,
        probes=() if split == "train" else split_probes(groups["train"], groups[split]),
    )
    print(findings_text(findings, title=f"Audit of {name}, {questions}, split {split}"))
    label = label_of(prepared.manifest, prompts=prepared.manifest.prompts)
    print("\n".join(label.notes()))
    if out is not None:
        file = FindingsFile(
            **asdict(label), benchmark=name, split=split, data_hash=prepared.data_hash, findings=tuple(findings)
        )
        write_document(out, file)
        print(f"items: {out}")
    return 0


def report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="The folders of one or more finished runs.")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="The folder to write the table of several runs to; a single run's report is written into its own folder "
        f"(default: {OUT}).",
    )
    add_questions(parser)


def report_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    for run in options.runs:
        use_plugins_of_run(run)
    if len(options.runs) > 1:
        pairs_of = functools.partial(paired_runs, questions=options.questions)
        print(write_runs(options.runs, options.out or OUT, pairs_of))
    elif options.out:
        raise ValueError("--out is for several runs; the report of one is written into its folder")
    else:
        print(write_report(options.runs[0], paper_of, questions=options.questions))
    return 0


COMMANDS: Commands = {"audit": (audit_arguments, audit_command), "report": (report_arguments, report_command)}
