"""`python -m medtune`: the command line, also the form that torchrun starts."""

import sys
from pathlib import Path


def _leave_working_folder() -> None:
    """Takes the working directory, which `python -m` puts first, off the path of imports, unless medtune lies there."""
    if not sys.flags.safe_path and Path(sys.path[0]) == Path.cwd() != Path(__file__).parents[1]:
        del sys.path[0]


if __name__ == "__main__":
    _leave_working_folder()
    from medtune.trainer.commands.cli import start

    raise SystemExit(start())
