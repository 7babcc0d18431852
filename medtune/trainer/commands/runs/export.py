"""`medtune export`: writes a run's model into a folder of its own, merged or as an adapter, proven and described."""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch

from medtune.eval.report.run_data import read_run
from medtune.models.weights.hub import check_public, check_repo, push
from medtune.trainer.experiment.run_folder import RunFolder
from medtune.trainer.exporting.card import model_card
from medtune.trainer.exporting.write import DtypeChoice, Wanted, Written, write_and_prove

CARD = "README.md"
SAMPLES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `medtune export`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="The run folder whose model is exported.")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="The folder to write, which must be empty or new."
    )
    parser.add_argument(
        "--adapter",
        action="store_true",
        help="Writes the adapter alone, in PEFT's format, instead of the whole model.",
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


def command(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs `medtune export`: writes the run's model, proves it, uploads it if asked to, and returns 0."""
    if options.samples < 1:
        raise ValueError(f"--samples {options.samples}: at least 1, or --no-proof")
    if options.push_to_hub is not None:
        if options.no_proof:
            raise ValueError("--push-to-hub uploads proven exports alone; leave out --no-proof")
        check_repo(options.push_to_hub)
    elif options.private:
        raise ValueError("--private says how --push-to-hub makes a repository; give both, or neither")
    wanted = Wanted(
        as_adapter=options.adapter,
        dtype=options.dtype,
        device=torch.device(options.device),
        samples=0 if options.no_proof else options.samples,
    )
    written = export_run(options.run, options.out, wanted, for_hub=options.push_to_hub is not None)
    if options.push_to_hub is not None:
        message = f"{written.recipe.model.name} tuned on {written.recipe.data.benchmark}"
        print(f"uploaded: {push(options.out, options.push_to_hub, private=options.private, message=message)}")
    return 0


def export_run(root: Path, out: Path, wanted: Wanted, *, for_hub: bool = False) -> Written:
    """Writes the model of a run into `out`, prints how to load it and returns what was written.

    Args:
        root: The run folder.
        out: The folder to write.
        wanted: What is to be exported, and how.
        for_hub: Whether the folder has to be fit for the public.
    """
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
        (unfinished / CARD).write_text(card, "utf-8")
        if for_hub:
            check_public(unfinished)
        if out.exists():
            out.rmdir()
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _tell(written, out, wanted)
    return written


def _tell(written: Written, out: Path, wanted: Wanted) -> None:
    size_mb = sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6
    what = "adapters written" if wanted.as_adapter else "adapters merged"
    print(f"{out}: {written.num_adapters} {what}, {size_mb:.0f} MB, {written.dtype}")
    for line in [*(written.proof.sentences() if written.proof else ["Not proven (--no-proof)."]), *written.read_by]:
        print(line)
    field = "adapter" if wanted.as_adapter else "weights"
    print(f"load it with: --set model.name={written.recipe.model.name} model.{field}={out}")
