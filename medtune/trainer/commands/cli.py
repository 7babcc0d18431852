"""The command line: the table of commands, the choice of one, and the exit status of every kind of failure.

Only the module of the chosen command is imported, so that `medtune --help` and `medtune list` start quickly.
"""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, cast

from medtune.data.catalog import nearest
from medtune.data.control_characters import without_controls
from medtune.data.files import no_room, system_fault
from medtune.data.plugins import name_folders
from medtune.trainer.commands.arguments import Commands
from medtune.trainer.launch.end import end
from medtune.trainer.launch.imports import importing, importing_for_good
from medtune.trainer.launch.stop import INTERRUPTED
from medtune.version import __version__

FAILED = 1

_CURSOR_UP = "\x1b[A"
_STEPS = (
    "medtune list recipes                                     what can be run, and on which data",
    "medtune init my_study --data data.csv --images pictures  a first recipe for questions of your own",
    "medtune COMMAND --help                                   what a command takes",
)
_REFUSALS = (ValueError, FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError)
_LOST_READER = "LostReaderError"
"""The error of a run whose process that reads media was killed; its module loads torch."""
_THAT_GO_ON = ("run", "train", "eval")
_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_QUOTED = re.compile(r"'?([\w-]+)'?(?:, |$)")
_UNKNOWN = re.compile(r"^unrecognized arguments: ")
_RECIPE_FILE = ("--config", "--recipe", "-c", "--config-file", "--yaml")
_SURE = 0.7
_VERBS = {
    **dict.fromkeys(("evaluate", "test", "benchmark"), "eval"),
    **dict.fromkeys(("finetune", "fine-tune", "fit", "sft", "launch"), "run"),
    **dict.fromkeys(("infer", "inference", "generate", "answer"), "predict"),
    **dict.fromkeys(("merge", "merge-lora", "save"), "export"),
    **dict.fromkeys(("new", "create"), "init"),
}
"""What other tools call a command, and ours."""


class Command(NamedTuple):
    """One command: the module below `medtune.trainer.commands` whose COMMANDS has it, and what it does in a line."""

    module: str
    help: str


COMMANDS = {
    "list": Command("extensions", "lists the recipes, models, benchmarks, metrics and so on that there are"),
    "check": Command("extensions", "runs the contract tests on a folder with extensions of your own"),
    "show": Command("show", "prints a recipe with every value resolved, or the fields that recipes have"),
    "init": Command("own_data", "writes a first recipe for your own questions and says the next three commands"),
    "prepare": Command("prepare", "turns raw files into a prepared folder with patient-level splits"),
    "prompts": Command("own_data", "writes a benchmark's official prompts into a YAML file, from its plain texts"),
    "validate": Command("validate", "checks a recipe before a run: its fields, files, labels and memory"),
    "doctor": Command("start", "proves a recipe's checkpoint here against plain transformers"),
    "run": Command("start", "evaluates, trains, evaluates in the same way again, and prints the gain"),
    "train": Command("start", "trains a model without evaluating it before and after"),
    "eval": Command("start", "evaluates the recipe's model, or its model.checkpoint, without training"),
    "predict": Command("own_data", "answers questions without truths, from a table or a folder of images"),
    "oracle": Command("oracle", "answers a benchmark's questions from masks, as predictions of one more model"),
    "reproduce": Command("reproduce", "fills a paper's table with rows of our own, beside the published ones"),
    "score": Command("score", "scores predictions that any tool wrote"),
    "compare": Command("compare", "compares two runs, or a run and a file of predictions, question by question"),
    "report": Command("audit", "writes report.html and report.md of a run, or one table of several runs"),
    "view": Command("view.command", "writes one page over all runs below a folder, or serves it on this machine alone"),
    "explain": Command("explain.command", "says why an answer of a run counted as it did, and what a number counts"),
    "judge": Command("judge", "lets a language model judge free answers, and scores them accordingly"),
    "audit": Command("audit", "looks for other explanations of a score, in a run or in a benchmark"),
    "power": Command("compare", "says how many patients it takes to detect a gain"),
    "export": Command("export", "writes a run's model, with its adapters merged, into a folder of its own"),
    "chat": Command("export", "puts free questions to a run's model; for research alone"),
}


def start() -> int:
    """Runs the command of this process and ends it; its own processes import nothing from the user's working folder."""
    os.environ["PYTHONSAFEPATH"] = "1"
    if "_ARGCOMPLETE" in os.environ:
        from medtune.trainer.completion import complete

        complete(parser, COMMANDS)
    return end(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0 done, 1 refused with a message, 2 wrong usage, 130 Ctrl-C.

    Args:
        argv: The arguments; None takes those of this process, which then does nothing but this command.
    """
    with printing_text():
        return _status(list(sys.argv[1:]), importing_for_good()) if argv is None else _status(list(argv), importing())


class _Text:
    """A stream of text to a terminal that passes on no escape sequence, but for the progress bars' own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(without_controls(text) if text.strip(_CURSOR_UP) else text)
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printing_text() -> Iterator[None]:
    """What is printed may come from the files of a stranger; none of it may steer the terminal of the user."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _Text(each)) for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _status(arguments: list[str], imports: contextlib.AbstractContextManager[None]) -> int:
    try:
        folders, rest = _split_plugins(arguments)
        name_folders(folders)
        if not rest:
            print(_first_words())
            return 0
        with imports:
            chosen = parser([each for each in rest if each in COMMANDS][:1])
        options = chosen.parse_args(rest)
        return int(options.command(options, arguments))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe, as in `medtune list recipes | head -1`. Without this, Python would print an
        # error about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if no_room(error):
            return _fail(_no_room_text(error, arguments))
        if isinstance(error, OSError) and (fault := system_fault(error)) is not None:
            return _fail(fault)
        if isinstance(error, _REFUSALS) or type(error).__name__ == _LOST_READER:
            return _fail(str(error))
        raise


def _first_words() -> str:
    """Returns what `medtune` alone says: the commands, and the next three steps."""
    width = max(map(len, COMMANDS))
    lines = ["Fine-tunes medical vision-language models on the benchmarks that judge them.", ""]
    lines += [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join([*lines, "", "Three next steps:", *(f"  {step}" for step in _STEPS)])


def _no_room_text(error: Exception, arguments: Sequence[str]) -> str:
    if "Free some" in (said := str(getattr(error, "strerror", ""))):
        return said.rstrip(".")
    goes_on = any(each in _THAT_GO_ON for each in arguments[:1])
    then = "then continue with --resume: what was saved before is whole" if goes_on else "then give the command again"
    named = getattr(error, "filename", None)
    where = str(error).strip().rstrip(".") if named is None else os.fsdecode(named)
    return f"{no_room(error)}: {where}. Free some room, {then}"


def _fail(message: str) -> int:
    # The launcher tells which of the other ranks failed and why.
    if "TORCHELASTIC_ERROR_FILE" not in os.environ or os.environ.get("RANK") == "0":
        print(f"medtune: {message}", file=sys.stderr)
    return FAILED


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals say what was probably meant."""

    def error(self, message: str) -> NoReturn:
        if match := _CHOICE.search(message):
            known = _QUOTED.findall(match["known"])
            meant = _VERBS.get(match["given"])
            message += f" Did you mean {meant!r}?" if meant in known else nearest(match["given"], known)
        for argument in _UNKNOWN.sub("", message).split() if _UNKNOWN.match(message) else ():
            key, equals, value = argument.partition("=")
            if "." in key and equals:
                message += f". Values of a recipe are given by --set {key.lstrip('-')}={value}"
            elif key in _RECIPE_FILE:
                message += ". The recipe is named without it: medtune COMMAND RECIPE"
            elif key.startswith("--"):
                known = [option for action in self._every_action() for option in action.option_strings]
                message += nearest(key, known, cutoff=_SURE)
        super().error(message)

    def _every_action(self) -> Iterator[argparse.Action]:
        for action in self._actions:
            yield action
            if isinstance(action, argparse._SubParsersAction):
                for inner in action.choices.values():
                    yield from inner._actions


def parser(names: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Returns the parser of all commands; only those in `names` are imported and have their arguments."""
    whole = _Parser(
        prog="medtune", description="Fine-tunes medical vision-language models on the benchmarks that judge them."
    )
    whole.add_argument("--version", action="version", version=f"medtune {__version__}")
    _add_plugins(whole)
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    for name, (module_name, text) in COMMANDS.items():
        # A shortened argument would be passed on to jobs and ranks, which are given the arguments without whole names.
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        if name in names:
            # The type is not known, because the module is imported by name.
            commands_of = cast("Commands", import_module(f"medtune.trainer.commands.{module_name}").COMMANDS)
            add_arguments, run = commands_of[name]
            add_arguments(command)
            command.set_defaults(command=run)
    return whole


def _add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugins",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="A folder with benchmarks, models, projectors, metrics, recipes and so on of your own; it may be given "
        "several times, before or behind the command (default: none).",
    )


def _split_plugins(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    parser = argparse.ArgumentParser(prog="medtune", add_help=False, allow_abbrev=False)
    _add_plugins(parser)
    found, rest = parser.parse_known_args(arguments)
    return found.plugins, rest
