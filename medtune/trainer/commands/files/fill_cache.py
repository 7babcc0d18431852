"""`medtune prepare --cache`: fills the cache of volumes of a recipe before its runs."""

import argparse
from collections.abc import Sequence

from medtune.data.prepared.work.work_folder import Share
from medtune.trainer.commands.files.array_job import Jobs, submit_array
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe

JOBS = Jobs("cache", "check", "afterany")
WHOLE = Share(1, 1)


def fill_cache(options: argparse.Namespace, arguments: Sequence[str], *, processes: int) -> int:
    """Fills the cache, or submits jobs that do, and returns 0 if every volume is there and 1 if scans are broken.

    Args:
        options: The options of `medtune prepare` that belong to --cache.
        arguments: The arguments of the command.
        processes: The number of processes.
    """
    recipe = read_recipe(options.cache, options.overrides)
    if not recipe.data.cache:
        raise ValueError("data.cache is false in this recipe, so that its runs keep no volumes: --set data.cache=true")
    if options.slurm_array is not None:
        return submit_array(
            arguments,
            out=recipe.data.root,
            shares=options.slurm_array,
            slurm=options.slurm or "",
            dry=options.dry,
            jobs=JOBS,
        )
    return _fill(recipe, share=options.share or WHOLE, processes=processes)


def _fill(recipe: Recipe, *, share: Share, processes: int) -> int:
    # Imported here, because it loads torch, which preparing does not need.
    from medtune.trainer.volume_cache.fill import fill
    from medtune.trainer.volume_cache.wanted import wanted

    found = wanted(recipe)
    if found is None:
        raise ValueError(f"model.name {recipe.model.shown_name} keeps no volumes: the cache is for models over volumes")
    if not found.scans:
        raise ValueError(f"{recipe.data.root} holds no volumes for this recipe: there is nothing to keep")
    done = fill(recipe, found, processes=processes, share=share, say=lambda text: print(text, flush=True))
    part = "" if share.of == 1 else f"share {share.number}/{share.of}: "
    print(f"{part}{done.made} volumes were written, {done.there} were there, {len(done.broken)} could not be made")
    # A scan has an entry for each organ that is asked about.
    for path, why in dict.fromkeys(done.broken):
        print(f"  {path}: {why}")
    return 1 if done.broken else 0
