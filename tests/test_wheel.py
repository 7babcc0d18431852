"""The wheel, built through the source distribution as `python -m build` does, works outside the checkout."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_what_the_checkout_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        # Besides the package there are its facts alone: no test, recorded value or bench.
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files", "medtune"], capture_output=True, text=True, check=True)
    assert inside == set(tracked.stdout.split())


def test_installed_wheel_lists_its_recipes(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    binaries = tmp_path / "venv" / "bin"
    # Another pip installs it there: to unpack one takes longer than all else here.
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", binaries / "python"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    done = subprocess.run(
        [binaries / "medtune", "list", "recipes"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "pocket_busi_lora" in done.stdout
