"""`medtune check FOLDER`: runs the contract checks on the extensions in a user's own folder."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from medtune.data import catalog
from medtune.data.catalog import BENCHMARKS, KINDS, SOURCES, Extension, Kind
from medtune.data.plugins import Plugin, add_folders, folder_plugin

FAILED = 1
FOLDERS = tuple(name for name in KINDS if name != SOURCES.name)
"""The sub-folders that a plugin may have; its sources are in the folders of its benchmarks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune check`."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help=f"The folder to check; its sub-folders are among {', '.join(FOLDERS)}.",
    )


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune check`: prints each extension with its faults; returns 1 if there is a fault, else 0."""
    (root,) = add_folders([options.folder], named_by="medtune check")
    plugin = folder_plugin(root)
    found = _extensions(plugin)
    lost = list(_not_found(plugin))
    if not found and not lost:
        raise ValueError(
            f"{plugin.root}: no extension is here. Write one in a sub-folder named {', '.join(FOLDERS)}; "
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
            hint = catalog.nearest(entry.name, FOLDERS)
            raise ValueError(
                f"{entry}: there is no such kind of extension.{hint} There are: {', '.join(FOLDERS)}. Move what is no "
                "extension elsewhere, or let the folder's name begin with an underscore"
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
    from medtune.trainer.contracts.contract import contract_of

    yield from contract_of(kind)(extension.name)
