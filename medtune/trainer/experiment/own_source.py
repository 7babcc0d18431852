"""Chooses the source that reads the user's files: the one that he names, or one of the benchmark's."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medtune.benchmarks import OWN_QUESTIONS, find_benchmark, find_source
from medtune.data.catalog import added_sources
from medtune.data.raw.source import HubId, Source, TableOptions


def source_for(
    benchmark_name: str, root: Path | HubId | None, said: TableOptions, *, named: str | None = None
) -> Source:
    """Returns the source that the user names, with what he says of his table.

    Without a name it is the first source that recognises his files, those of plugins before the benchmark's own, or the
    first of all where none of them tells files apart, or where all are simulations. What was published is simulated
    only where the user names the simulation.
    """
    source = _named_source(benchmark_name, named) if named else _recognised(benchmark_name, root, said)
    if source.with_options is None:
        if replace(said, limit=None) != TableOptions():
            raise ValueError(
                f"the source {source.name!r} knows its own files: leave --images, --columns and the other "
                "arguments for tables, up to --splits, out."
            )
        return source
    if not source.has_sheets and (said.sheet, said.header) != (None, None):
        raise ValueError(
            f"the source {source.name!r} reads no sheets: leave --sheet and --header out, or give the table itself."
        )
    if said.media_folder is not None and not said.media_folder.is_dir():
        raise FileNotFoundError(f"{said.media_folder}: there is no such folder. Check --images.")
    told = replace(source.with_options(said), name=source.name)
    # A table that a published benchmark takes is its release.
    return told if benchmark_name == OWN_QUESTIONS else replace(told, provenance="released")


def _simulated(sources: Sequence[Source]) -> tuple[list[str], list[str]]:
    """Returns the names of the simulations, and those of the other sources."""
    made = [each.name for each in sources if each.write_settings is not None]
    return made, [each.name for each in sources if each.write_settings is None]


def _recognised(benchmark_name: str, root: Path | HubId | None, said: TableOptions) -> Source:
    sources = [find_source(name) for name in find_benchmark(benchmark_name).sources]
    added = added_sources(benchmark_name)
    telling = sorted((each for each in sources if each.recognises is not None), key=lambda each: each.name not in added)
    simulated, others = _simulated(sources)
    if root is None and simulated and not others:
        return sources[0]
    if root is None:
        names = f" ({', '.join(others)})" if len(others) > 1 else ""
        other_way = f", or --source {' or '.join(simulated)}, which simulates its images" if simulated else ""
        raise ValueError(
            f"prepare {benchmark_name} needs --from: a table, a folder, or hf:ID with its questions{names}{other_way}"
        )
    if not telling:
        return sources[0]
    if isinstance(root, Path) and not root.exists():
        raise FileNotFoundError(f"{root}: there is no such file or folder. Check --from.")
    for source in telling:
        with_options = source if source.with_options is None else source.with_options(said)
        if with_options.recognises is not None and with_options.recognises(root):
            print(f"{root} is read by the source {source.name} ({source.title}); --source names another")
            return source
    there = sorted(each.name for each in root.iterdir()) if isinstance(root, Path) else []
    raise ValueError(
        f"{root}: none of the sources {', '.join(source.name for source in telling)} knows this layout; "
        f"found {', '.join(there[:5]) or 'nothing'}. Name the source with --source."
    )


def _named_source(benchmark_name: str, name: str) -> Source:
    accepted = find_benchmark(benchmark_name).sources
    if name not in accepted:
        raise ValueError(f"the benchmark {benchmark_name!r} takes the sources {', '.join(accepted)}, not {name!r}")
    return find_source(name)
