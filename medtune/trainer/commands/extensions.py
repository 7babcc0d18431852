"""`medtune check FOLDER`: runs the contract checks on the extensions in a user's own folder."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from medtune.data import catalog
from medtune.data.catalog import BENCHMARKS, KINDS, SOURCES, Extension, Kind
from medtune.data.plugins import Plugin, add_folders, folder_plugin
from medtune.trainer.commands.arguments import Commands

FAILED = 1
FOLDERS = tuple(name for name in KINDS if name != SOURCES.name)
"""The sub-folders that a plugin may have; its sources are in the folders of its benchmarks."""
_SAID = ", ".join(FOLDERS).replace("benchmarks", "benchmarks (with sources in benchmarks/NAME/sources)")

TWINS = "nano_"
"""The prefix of the names of random, tiny models and of their recipes, which are only for tests."""
ENCODERS = "encoders"
"""The kind that lists the image encoders of timm, which are no modules of medtune."""


def check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help=f"The folder to check; its sub-folders are among {', '.join(FOLDERS)}.",
    )


def check_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune check`: prints each extension with its faults; returns 1 if there is a fault, else 0."""
    (root,) = add_folders([options.folder], named_by="medtune check")
    plugin = folder_plugin(root)
    found = _extensions(plugin)
    lost = list(_not_found(plugin))
    if not found and not lost:
        raise ValueError(
            f"{plugin.root}: no extension is here. Write one in a sub-folder named {_SAID}; "
            "CONTRIBUTING.md shows one of each kind"
        )
    failures = 0
    for kind, extension in found:
        wrong = list(_wrong(kind, extension))
        print(f"{'failed' if wrong else 'ok':<8}{kind.name} {extension.name}  {extension.file}")
        for sentence in wrong:
            print(f"        - {sentence}")
        failures += bool(wrong)
    for sentence in lost:
        print(f"{'failed':<8}{sentence}")
    print(f"{len(found)} extensions checked, {failures + len(lost)} failed")
    return FAILED if failures or lost else 0


def _extensions(plugin: Plugin) -> list[tuple[Kind, Extension]]:
    for entry in sorted(plugin.root.iterdir()):
        if entry.is_dir() and not entry.name.startswith(("_", ".")) and entry.name not in FOLDERS:
            hint = catalog.nearest(entry.name, FOLDERS, cutoff=0.7)
            raise ValueError(
                f"{entry}: there is no such kind of extension.{hint} There are: {_SAID}. Move what is no "
                "extension, such as tests, elsewhere, or let the folder's name begin with an underscore"
            )
    return [
        (kind, extension)
        for kind in KINDS.values()
        for extension in catalog.extensions(kind).values()
        if extension.origin == plugin.origin
    ]


def _not_found(plugin: Plugin) -> Iterator[str]:
    for kind in KINDS.values():
        if kind is SOURCES:
            continue
        defining = {extension.file for extension in catalog.in_plugin(plugin, kind)}
        for name, file in catalog.candidates(kind, plugin.root / kind.name):
            adds_sources = kind is BENCHMARKS and (file.parent / "sources").is_dir()
            if file not in defining and not adds_sources:
                yield (
                    f"{kind.name} {name}  {file}: it has no function `def {kind.defines}(...)` at its top level, so "
                    "that it is not found. Write that function, or let the name begin with an underscore"
                )


def _wrong(kind: Kind, extension: Extension) -> Iterator[str]:
    from medtune.trainer.contracts import contract_of

    yield from contract_of(kind)(extension.name)


def list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=(*catalog.KINDS, ENCODERS), help="The kind of extension to list.")
    parser.add_argument(
        "--all",
        action="store_true",
        dest="with_twins",
        help=f"Lists the random, tiny models {TWINS}* and their recipes too, which are for tests alone.",
    )


def list_command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune list`: prints each extension with its first line, and its origin if that is not medtune."""
    if options.kind == ENCODERS:
        # Importing timm takes seconds, which the other lists need not wait for.
        from medtune.models.towers.timm_tower import encoder_names

        print("\n".join(encoder_names()))
        return 0
    found = {
        name: extension
        for name, extension in catalog.extensions(catalog.KINDS[options.kind]).items()
        if options.with_twins or not name.startswith(TWINS)
    }
    width = max(map(len, found), default=0)
    for name, extension in found.items():
        origin = "" if extension.origin == catalog.MEDTUNE else f"  [{extension.origin}]"
        print(f"{name:<{width}}  {extension.first_line()}{origin}")
    if options.kind == catalog.TOWERS.name:
        print("and timm:ENCODER, any image encoder of timm: `medtune list encoders`", file=sys.stderr)
    return 0


COMMANDS: Commands = {"list": (list_arguments, list_command), "check": (check_arguments, check_command)}
