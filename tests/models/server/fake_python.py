"""Writes a file that stands for the Python of an engine's environment and runs the stand-in of a server."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def write_fake_python(folder: Path) -> Path:
    """Returns an executable file; environment variable STAND_IN says what the server does wrong."""
    path = folder / "python"
    path.write_text(
        f"#!{sys.executable}\n"
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.models.server.stand_in import main\nsys.exit(main(sys.argv[1:]))\n",
        "utf-8",
    )
    path.chmod(0o755)
    return path
