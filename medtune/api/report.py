"""`medtune.Report`: an evaluation, a comparison or a run as one HTML page that loads nothing from elsewhere."""

import html
import tempfile
import webbrowser
from functools import cached_property
from pathlib import Path

from medtune.api.compare import Comparison
from medtune.api.evaluation import Evaluation
from medtune.api.page import comparison_page, evaluation_page
from medtune.benchmarks import paper_of
from medtune.eval.predictions.files import replace_file
from medtune.eval.report.gallery import MAX_IMAGE_BYTES
from medtune.eval.report.html import render
from medtune.eval.report.report import run_report
from medtune.eval.report.run_data import read_run
from medtune.eval.report.write import HTML, run_html

FRAME_HEIGHT_PX = 800


class Report:
    """A report, which is made when it is first shown or written. A notebook shows it where it is the last expression.

    Its images, questions and replies are from the data: look at it before you forward it.
    """

    def __init__(self, of: Evaluation | Comparison | str | Path) -> None:
        """Takes what `medtune.evaluate`, `medtune.score` or `medtune.compare` returned, or the folder of a run.

        Raises:
            TypeError: It is something else.
        """
        if not isinstance(of, Evaluation | Comparison | str | Path):
            raise TypeError(
                f"medtune.Report: a {type(of).__name__} has no report; give what medtune.evaluate, medtune.score or "
                "medtune.compare returned, or the folder of a run"
            )
        self._of = of

    @cached_property
    def html(self) -> str:
        """The page.

        Raises:
            FileNotFoundError: An image, the run folder or one of its files is missing.
            ValueError: One of these is broken.
        """
        if isinstance(self._of, str | Path):
            return run_html(run_report(read_run(Path(self._of).expanduser()), paper_of))
        page = evaluation_page(self._of) if isinstance(self._of, Evaluation) else comparison_page(self._of)
        parts = {"answers": ("Answers", page.cards), "metrics": ("All metrics", page.metrics)}
        filled = [(id_, name) for id_, (name, part) in parts.items() if part]
        return render(
            "evaluation.html.j2",
            page=page,
            sections=[("result", "Result"), *filled, ("reading", "Notes")],
            limits={"megabytes": MAX_IMAGE_BYTES // 1_000_000},
        )

    def write(self, path: str | Path) -> Path:
        """Writes the page and returns its path; into a folder, as report.html.

        Raises:
            FileNotFoundError: The folder is missing.
            OSError: The file cannot be written; an earlier one is unchanged.
        """
        file = Path(path).expanduser()
        if file.is_dir():
            file = file / HTML
        if not file.parent.is_dir():
            raise FileNotFoundError(f"{file.parent}: there is no such folder; make it, or write the report elsewhere")
        replace_file(file, [self.html.encode()])
        return file

    def show(self) -> Path:
        """Opens the page in a browser and returns its path, which is a temporary file."""
        path = self.write(Path(tempfile.mkdtemp(prefix="medtune-")))
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        """Returns the page in a frame of its own, for a notebook."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="medtune report" '
            f'style="width:100%;height:{FRAME_HEIGHT_PX}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"a report of {self._of!r}; show it with .show(), or write it with .write(PATH)"
