"""Counts the lines of package and tests by room and kind, and the files that a run reads up to its first step.

python -m bench.measuring.weight                                                the lines
python -m bench.measuring.weight run nano_busi_lora --set data.root=PREPARED    the files
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("code", "docstring", "comment", "blank", "import")


def kinds_of_lines(text: str) -> Counter[str]:
    """Returns the number of lines of each kind; a line with code and a comment is code."""
    lines = text.splitlines()
    kinds = {number: "code" if line.strip() else "blank" for number, line in enumerate(lines, 1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and lines[token.start[0] - 1].lstrip().startswith("#"):
            kinds[token.start[0]] = "comment"
    for node in ast.walk(ast.parse(text)):
        imports = isinstance(node, ast.Import | ast.ImportFrom)
        says = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if imports or says:
            assert isinstance(node, ast.stmt)
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "import" if imports else "docstring")
    return Counter(kinds.values())


def rooms() -> Iterator[tuple[str, list[Path]]]:
    """Yields each room of the package with its files, the package as a whole, and the tests."""
    package = sorted((ROOT / "medtune").rglob("*.py"))
    names = sorted({file.relative_to(ROOT / "medtune").parts[0] for file in package})
    for name in (name for name in names if not name.endswith(".py")):
        yield name, [file for file in package if file.is_relative_to(ROOT / "medtune" / name)]
    yield "medtune", package
    yield "tests", sorted((ROOT / "tests").rglob("*.py"))


def files_to_the_first_step(arguments: Sequence[str]) -> list[Path]:
    """Returns the files of medtune that have been imported when a command trains its first step."""
    from medtune.trainer.commands.cli import main
    from medtune.trainer.training.lightning_module import FineTuning

    read: list[Path] = []
    step: Callable[..., object] = FineTuning.training_step

    def noted(*given: object) -> object:
        if not read:
            loaded = [Path(getattr(module, "__file__", None) or "") for module in sys.modules.values()]
            read.extend(file for file in loaded if file.is_relative_to(ROOT / "medtune"))
        return step(*given)

    with patch.object(FineTuning, "training_step", noted):
        main(list(arguments))
    return read


def main(arguments: Sequence[str]) -> None:
    if arguments:
        read = files_to_the_first_step(arguments)
        lines = {file: len(file.read_text("utf-8").splitlines()) for file in read}
        only_named = sum(file.name == "__init__.py" and number < 5 for file, number in lines.items())
        print(f"{len(read)} files with {sum(lines.values()):,} lines; {only_named} of them only name a folder")
        return
    print(f"{'':<12}{'files':>8}{'lines':>9}" + "".join(f"{kind:>11}" for kind in KINDS))
    for room, files in rooms():
        counted = sum((kinds_of_lines(file.read_text("utf-8")) for file in files), Counter[str]())
        print(f"{room:<12}{len(files):>8,}{counted.total():>9,}" + "".join(f"{counted[kind]:>11,}" for kind in KINDS))


if __name__ == "__main__":
    main(sys.argv[1:])
