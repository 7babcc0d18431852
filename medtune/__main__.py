"""`python -m medtune`: the command line, also the form that torchrun starts."""

from medtune.trainer.commands.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
