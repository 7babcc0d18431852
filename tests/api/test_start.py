"""`import medtune` is quick and loads nothing large; what does not need torch never loads it."""

import re
import subprocess
import sys
from pathlib import Path

import medtune


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_import_loads_nothing_large() -> None:
    # The names that are there do not depend on what was imported, and a name is imported once.
    code = (
        "import sys, medtune; "
        "large = ('torch', 'transformers', 'numpy', 'PIL', 'yaml', 'pydantic', 'jinja2'); "
        "print([name for name in large if name in sys.modules], set(medtune.__all__) <= set(dir(medtune)))"
    )
    assert said(code) == "[] True"


def test_scoring_comparing_and_reporting_load_no_torch(prepared_tiny: Path) -> None:
    code = (
        f"import sys, medtune; data = medtune.load({str(prepared_tiny)!r}); "
        "one = medtune.evaluate(lambda images, prompt: 'benign', data.test, progress=False, name='one'); "
        "two = medtune.score(data.test, one.replies); "
        "len(medtune.Report(medtune.compare(one, two)).html), len(medtune.Report(one).html); "
        "print([name for name in ('torch', 'transformers', 'lightning') if name in sys.modules])"
    )
    assert said(code) == "[]"


def test_a_notebook_without_terminal(prepared_tiny: Path) -> None:
    # Streams without a file behind them, and an event loop that runs already, in a folder that cannot be written.
    code = f"""
import asyncio, io, os, sys
out, sys.stderr, sys.stdout = sys.stdout, io.StringIO(), io.StringIO()
os.chdir("/")
import medtune
async def cell():
    return medtune.evaluate(lambda images, prompt: "benign", medtune.load({str(prepared_tiny)!r}))
found = asyncio.run(cell())
print(repr(found), repr(sys.stderr.getvalue()), medtune.Report(found)._repr_html_()[:7], file=out)
"""
    assert re.fullmatch(r"model: accuracy 0\.\d{3} \(.*, 9 questions\) '' <iframe", said(code))


def test_every_public_name_is_there_and_a_wrong_one_is_not() -> None:
    for name in medtune.__all__:
        assert getattr(medtune, name) is getattr(medtune, name)
    assert not hasattr(medtune, "laod")
