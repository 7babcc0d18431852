"""Chooses the source that reads the user's files: the one that he names, or one of the benchmark's."""

import argparse
from dataclasses import replace
from pathlib import Path

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.raw.hub_rows import HubId, parsed_hub_id
from medtune.data.raw.row_errors import TableOptions
from medtune.data.raw.source import Source


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for a table of the user's own."""
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


def origin(text: str) -> Path | HubId:
    """Returns the path or the name of a hub data set that `text` is."""
    try:
        return parsed_hub_id(text) or Path(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def chosen_source(options: argparse.Namespace) -> Source:
    """Returns the source that the user names, with what he says of his table.

    Without a name it is the first source of the benchmark that recognises his files, or the first of all where none of
    them tells files apart, or where it is a simulation and he names no files.
    """
    source = _named_source(options.benchmark, options.source) if options.source else _recognised(options)
    said = TableOptions(
        media_folder=options.images,
        columns=dict(options.columns),
        facets=None if options.facets is None else tuple(options.facets),
        question=options.question,
        splits=dict(options.splits),
        limit=options.limit,
    )
    if source.with_options is None:
        if replace(said, limit=None) != TableOptions():
            raise ValueError(
                f"the source {source.name!r} knows its own files: leave --images, --columns, --facets, --question and "
                "--splits out."
            )
        return source
    if options.images is not None and not options.images.is_dir():
        raise FileNotFoundError(f"{options.images}: there is no such folder. Check --images.")
    return replace(source.with_options(said), name=source.name)


def _recognised(options: argparse.Namespace) -> Source:
    sources = [find_source(name) for name in find_benchmark(options.benchmark).sources]
    telling = [(source, source.recognises) for source in sources if source.recognises is not None]
    if not telling or (options.root is None and sources[0].write_settings is not None):
        return sources[0]
    if options.root is None:
        raise ValueError(f"prepare {options.benchmark} needs --from: a table, a folder, or hf:ID")
    if isinstance(options.root, Path) and not options.root.exists():
        raise FileNotFoundError(f"{options.root}: there is no such file or folder. Check --from.")
    for source, recognises in telling:
        if recognises(options.root):
            print(f"{options.root} is read by the source {source.name} ({source.title}); --source names another")
            return source
    there = sorted(each.name for each in options.root.iterdir()) if isinstance(options.root, Path) else []
    raise ValueError(
        f"{options.root}: none of the sources {', '.join(source.name for source, _ in telling)} knows this layout; "
        f"found {', '.join(there[:5]) or 'nothing'}. Name the source with --source."
    )


def _named_source(benchmark_name: str, name: str) -> Source:
    accepted = find_benchmark(benchmark_name).sources
    if name not in accepted:
        raise ValueError(f"the benchmark {benchmark_name!r} takes the sources {', '.join(accepted)}, not {name!r}")
    return find_source(name)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: wanted NAME=VALUE")
    return name, value
