"""The arguments of `medtune eval RUN --engine`, which choose an engine and say where its servers run."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from medtune.models.server.addresses import checked_addresses
from medtune.models.server.engines import ENGINES, EngineName
from medtune.trainer.commands.arguments import positive
from medtune.trainer.engine.settings import EngineSettings


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that choose and start an engine."""
    parser.add_argument(
        "--engine",
        choices=tuple(ENGINES),
        help="Serves the model of RUN with vLLM or SGLang and asks it there (default: the model is asked in this "
        "process).",
    )
    parser.add_argument(
        "--engine-python",
        type=Path,
        metavar="PATH",
        help="The Python of the environment in which the engine is installed (default: what MEDTUNE_VLLM_PYTHON or "
        "MEDTUNE_SGLANG_PYTHON names).",
    )
    parser.add_argument(
        "--engine-args",
        metavar="ARGS",
        help="Further arguments of the server, in one string, for instance '--max-model-len 8192' (default: none).",
    )
    parser.add_argument(
        "--engine-devices",
        nargs="+",
        metavar="GPUS",
        help="Starts one server for each value, which sees the GPUs that it names, for instance 0 1 for two servers "
        "(default: one server that sees all).",
    )
    parser.add_argument(
        "--engine-patience",
        type=positive,
        default=1800,
        metavar="SECONDS",
        help="Seconds within which a started server has to be healthy (default: %(default)s).",
    )
    parser.add_argument(
        "--addresses",
        metavar="LIST",
        help="Servers that run already and serve the exported model of RUN, with commas between them, for instance "
        "http://a:8000,http://b:8000 (default: a server is started on this machine).",
    )


def engine_settings(options: argparse.Namespace) -> EngineSettings | None:
    """Returns the settings that the arguments make; None where the model is asked in this process.

    Raises:
        FileNotFoundError: There is no such Python.
        ValueError: An argument is given without --engine, or two arguments exclude each other.
    """
    name: EngineName | None = options.engine
    started = {
        "--engine-python": options.engine_python,
        "--engine-args": options.engine_args,
        "--engine-devices": options.engine_devices,
    }
    given = [argument for argument, value in {**started, "--addresses": options.addresses}.items() if value]
    if name is None:
        if given:
            raise ValueError(f"{given[0]} needs --engine vllm or --engine sglang")
        return None
    if options.addresses and len(given) > 1:
        raise ValueError(f"{given[0]} is about servers that are started here; leave it out, or leave out --addresses")
    engine = ENGINES[name]
    return EngineSettings(
        engine,
        python=None if options.addresses else engine.python(options.engine_python),
        further=tuple(shlex.split(options.engine_args or "")),
        devices=tuple(options.engine_devices or (None,)),
        addresses=checked_addresses(options.addresses) if options.addresses else (),
        patience_s=options.engine_patience,
    )
