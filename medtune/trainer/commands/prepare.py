"""`medtune prepare`: turns a benchmark's raw files into a prepared folder with patient-level splits."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice, zip_longest
from pathlib import Path
from textwrap import indent

from medtune.benchmarks import find_benchmark
from medtune.data.lock import LockedError
from medtune.data.prepared.manifest import MANIFEST, Manifest, read_manifest
from medtune.data.prepared.read import Prepared, Prompts
from medtune.data.prepared.splits import TEST_ONLY, Division
from medtune.data.prepared.work.processes import usable_cores
from medtune.data.prepared.work.take import Origin, read_source
from medtune.data.prepared.work.work_folder import work_path
from medtune.data.prepared.write import prepare
from medtune.data.raw.rejects import REJECTS, first_rejects, rejects_table
from medtune.data.raw.source import Source
from medtune.data.readable import readable_text
from medtune.data.types import SPLITS, Question, Split
from medtune.eval.asking.prepared_prompts import read_official_templates, usable_templates
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import label_of, several
from medtune.trainer.commands.arguments import Commands, add_overrides, positive, share
from medtune.trainer.commands.own_data import add_table_arguments, chosen_source, origin, patient_advice
from medtune.trainer.recipe.read import read_recipe

_NUM_SAMPLES = 3

_WITH_CACHE = frozenset({"cache", "overrides", "processes"})
"""The arguments that --cache takes."""


def _print_samples(prepared: Prepared, benchmark: Benchmark) -> None:
    """Prints three questions as a model will see them, from different splits where there are several."""
    by_split = (_questions_with_media(prepared, split) for split in SPLITS)
    for question, media in islice((row for rank in zip_longest(*by_split) for row in rank if row), _NUM_SAMPLES):
        prompt = benchmark.render(question, "text")
        turns = "".join(f"user: {turn.asked}\nassistant: {turn.answer}\n" for turn in question.turns)
        options = f"options: {' | '.join(question.options)}\n" if question.options else ""
        print(f"\n{question.split} question {question.id}, as a model will see it ({question.answer_kind}):")
        shown = readable_text(f"{turns}{prompt.text}")
        print(indent(f"{shown}\n{options}target: {prompt.target}\nmedia: {media}", "    "))


def _questions_with_media(prepared: Prepared, split: Split) -> Iterator[tuple[Question, str]]:
    if prepared.manifest.without_media:
        yield from ((question, "left out") for question in prepared.each_question(split))
        return
    # Questions about one item follow one another, and few are in memory at a time.
    for _, asked in groupby(prepared.each_question(split), key=lambda question: question.media_id):
        question = next(asked)
        yield question, ", ".join(f"{ref.kind} {ref.path}" for ref in prepared.media_of(question)) or "none"


def prepare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "benchmark",
        metavar="BENCHMARK",
        nargs="?",
        help="The name of a benchmark; `medtune list benchmarks` (default: none, which only --cache allows).",
    )
    parser.add_argument(
        "--from",
        dest="root",
        type=origin,
        metavar="PATH",
        help="The folder with the raw files, or a table, or hf:ID[:CONFIG][@REVISION] for a data set of the Hugging "
        "Face hub (default: none, which only a simulated source allows).",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="The folder to write, in place of a prepared one that lies there; required unless --list-missing is given "
        "(default: none).",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="The source that reads the raw files; `medtune list sources` (default: the benchmark's first, or where "
        "its sources tell files apart, the first that recognises them).",
    )
    add_table_arguments(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="Takes at most N patients (default: all patients).")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="The seed of splits, of the order of options and of simulations (default: %(default)s).",
    )
    _add_bounds(parser)
    parser.add_argument(
        "--list-missing",
        action="store_true",
        help="Prints the media files that are missing and where to fetch them, and writes nothing.",
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="A YAML file with the official prompts, or those of the kit that the benchmark's README names; they are "
        "then sent verbatim (default: medtune's wording).",
    )
    _add_work(parser)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    """Adds what is accepted although it is broken, against the release, or leaks."""
    parser.add_argument(
        "--max-rejected",
        type=share,
        default=0.01,
        metavar="SHARE",
        help="The largest share of rows, from 0 to 1, that may be unusable before nothing is written "
        "(default: %(default)s).",
    )
    parser.add_argument(
        "--show-cells",
        type=Path,
        metavar="FILE",
        help="Writes what the cells of rejected rows hold into a file, which may contain names, so keep it to yourself "
        "(default: nothing states what a cell holds).",
    )
    parser.add_argument(
        "--unofficial-split",
        choices=("patient",),
        help="Divides a benchmark into train, val and test by patient although it has only test questions, or a split "
        "of its own; every result is then marked as unofficial (default: the benchmark's own split).",
    )
    parser.add_argument(
        "--without-media",
        action="store_true",
        help="Takes the questions alone, whose images, videos or volumes need not be there; such a folder can be "
        "scored but not run.",
    )
    parser.add_argument(
        "--split-lookalikes",
        action="store_true",
        help="Lets images that look alike lie in two splits, and marks every result. Without it, images that a "
        "perceptual hash cannot tell apart are kept in one split, with their patients.",
    )
    parser.add_argument(
        "--keep-leaks",
        action="store_true",
        help="Keeps a split of the data that puts a patient or an image into two splits, and marks every result. "
        "Without it, such a split is refused.",
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    cache = parser.add_argument_group("the cache of volumes, in place of all of the above")
    cache.add_argument(
        "--cache",
        metavar="RECIPE",
        help="Fills the cache of a recipe's prepared folder instead: volumes are kept in the form that the recipe's "
        "model reads, so that no run computes them (default: the first run that reads a volume keeps it).",
    )
    add_overrides(cache, of="recipe", example="data.root=prepared/ct")
    processes = parser.add_argument_group("the work of preparing")
    processes.add_argument(
        "-j",
        "--jobs",
        dest="processes",
        type=positive,
        default=1,
        metavar="N",
        help="Draws and copies media, or fills the cache, in N processes, at most as many as there are cores for it; "
        "the files are the same with any number. A command that was stopped goes on where it was (default: "
        "%(default)s).",
    )


def prepare_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune prepare`: writes the prepared folder, lists the missing media files, or fills a cache; returns 0.

    With --cache it returns 1 where scans are broken.
    """
    if options.cache is not None:
        _refuse_beside_cache(options)
        return _fill_cache(options.cache, options.overrides, processes=_processes(options.processes))
    if options.benchmark is None:
        raise ValueError("prepare needs a BENCHMARK (`medtune list benchmarks`), or --cache RECIPE to fill a cache")
    if options.overrides:
        raise ValueError("--set replaces values of a recipe: it belongs to --cache RECIPE")
    source = chosen_source(options)
    if options.list_missing:
        return _list_missing(source, root=options.root, seed=options.seed)
    if options.out is None:
        raise ValueError("prepare needs --out: the folder to write")
    try:
        return _prepare_folder(options, source, _processes(options.processes))
    except LockedError:
        raise
    except BaseException:
        if (kept := work_path(options.out)).is_dir():
            print(
                f"The media that are finished are kept in {kept}: the same command continues. Delete it to start anew.",
                file=sys.stderr,
            )
        raise


def _refuse_beside_cache(options: argparse.Namespace) -> None:
    plain = argparse.ArgumentParser(add_help=False)
    prepare_arguments(plain)
    for action in plain._actions:
        if action.dest not in _WITH_CACHE and getattr(options, action.dest) != action.default:
            named = action.option_strings[-1] if action.option_strings else f"BENCHMARK ({options.benchmark})"
            raise ValueError(
                "--cache RECIPE fills the cache of the folder that the recipe names (--set data.root=DIR); it takes no "
                f"{named}"
            )


def _processes(asked: int) -> int:
    cores = usable_cores()
    if asked > cores:
        print(f"-j {asked}: {cores} processes, because this process may use {cores} cores", file=sys.stderr)
    return min(asked, cores)


def _prepare_folder(options: argparse.Namespace, source: Source, processes: int) -> int:
    before = _folder_before(options.out)
    prepared = prepare(
        source,
        benchmark=options.benchmark,
        root=options.root,
        out=options.out,
        seed=options.seed,
        limit=options.limit,
        division=Division(
            unofficial=options.unofficial_split,
            split_lookalikes=options.split_lookalikes,
            keep_leaks=options.keep_leaks,
        ),
        max_rejected=options.max_rejected,
        media="left out" if options.without_media else "copied" if options.copy else "linked",
        prompts=_official(options.benchmark, options.prompts),
        processes=processes,
        show_cells=options.show_cells,
    )
    manifest = prepared.manifest
    same = "" if before is None else ", the same as before"
    if before and before.data_hash != manifest.data_hash:
        same = f"; it replaced {before.data_hash[:16]}: runs on those data no longer find them here"
    print(f"{options.out}: {manifest.source} ({manifest.provenance}), data hash {manifest.data_hash[:16]}{same}")
    _print_contents(prepared)
    if source.with_options is not None:
        _print_samples(prepared, find_benchmark(options.benchmark))
    for note in manifest.warnings:
        print(f"note: {note}")
    if (note := label_of(manifest, prompts=manifest.prompts).patient_note()) and source.with_options is not None:
        print(f"NO PATIENTS WERE FOUND: {note}. {patient_advice(source)}")
    return 0


def _print_contents(prepared: Prepared) -> None:
    manifest = prepared.manifest
    print(f"patients: {manifest.patient_unit}")
    for split in SPLITS:
        tasks = ", ".join(f"{task} {count}" for task, count in manifest.counts[split].items())
        of_whom = f"{manifest.num_patients[split]} {several(manifest.stands_for_patient, 2)}"
        print(f"  {split:<6}{prepared.num_questions(split):>7} questions of {of_whom}  {tasks}")
    if {*SPLITS} - {*manifest.own_splits} and manifest.fractions != TEST_ONLY:
        together = "; look-alikes stay together" if manifest.lookalikes.largest > 1 else ""
        unit = manifest.stands_for_patient
        print(f"splits are drawn by {unit}, so that shares of questions may differ{together}")
    if manifest.unofficial_split:
        print(f"unofficial split by {manifest.unofficial_split}: not the benchmark's own")
    print(f"prompts: {manifest.prompts}")
    if manifest.without_media:
        print("without media: these questions can be scored, but no model can be run on them")
    if manifest.identical_media:
        print(f"identical images: {manifest.identical_media}; their patients share a split")
    if manifest.leaks:
        print(f"LEAKS of the data's own split, which is kept: {manifest.leaks}")
    for line in manifest.lookalikes.lines():
        print(f"look-alikes: {line}")
    for note in manifest.notes:
        if note not in manifest.warnings:
            print(f"note: {note}")
    if manifest.rejected:
        print(rejects_table(manifest.rejected, sum(map(prepared.num_questions, SPLITS))))
        print(f"the first of them:\n{first_rejects(prepared.root / REJECTS)}")
        print(f"each rejected row: {prepared.root / REJECTS}")
        print("  ([3]/[1] is the first entry of the third, in order of names; --show-cells FILE writes the paths)")


def _folder_before(out: Path) -> Manifest | None:
    """Says that a prepared folder will be replaced, and returns its manifest; None where none can be read."""
    if not (out / MANIFEST).is_file():
        return None
    try:
        before = read_manifest(out)
        said = f"{before.benchmark}, data hash {before.data_hash[:16]}"
    except ValueError:
        before, said = None, "damaged, or of another version"
    print(f"{out}: holds a prepared folder ({said}), which is replaced once the new one is finished", file=sys.stderr)
    return before


def _fill_cache(name: str, overrides: list[str], *, processes: int) -> int:
    """Fills the cache of a recipe and returns 0 if every volume is there and 1 if scans are broken."""
    recipe = read_recipe(name, overrides)
    if not recipe.data.cache:
        raise ValueError("data.cache is false in this recipe, so that its runs keep no volumes: --set data.cache=true")
    # Imported here, because it loads torch, which preparing does not need.
    from medtune.trainer.volume_cache import fill, wanted

    found = wanted(recipe)
    if found is None:
        raise ValueError(f"model.name {recipe.model.shown_name} keeps no volumes: the cache is for models over volumes")
    if not found.scans:
        raise ValueError(f"{recipe.data.root} holds no volumes for this recipe: there is nothing to keep")
    done = fill(recipe, found, processes=processes, say=lambda text: print(text, flush=True))
    print(f"{done.made} volumes were written, {done.there} were there, {len(done.broken)} could not be made")
    # A scan has an entry for each organ that is asked about.
    for path, why in dict.fromkeys(done.broken):
        print(f"  {path}: {why}")
    return 1 if done.broken else 0


def _list_missing(source: Source, *, root: Origin, seed: int) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        table = read_source(source, root, seed, Path(scratch))
    for item in table.missing:
        print(f"{item.file}\t{item.fetch}")
    print(f"{len(table.missing)} media files are missing", file=sys.stderr)
    return 0


def _official(benchmark_name: str, file: Path | None) -> Callable[[Sequence[Question]], Prompts] | None:
    if file is None:
        return None
    benchmark = find_benchmark(benchmark_name)
    templates = read_official_templates(benchmark, file)
    return partial(usable_templates, benchmark, templates)


COMMANDS: Commands = {"prepare": (prepare_arguments, prepare_command)}
