"""Filling the cache of volumes: what a run would write, in any number of processes, killed, broken and full."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medtune.data.media.volumes import cache
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.stored_volume import read_values
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.trainer.commands.cli import main
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.volume_cache import WantedVolumes, fill, wanted
from tests.trainer.conftest import Capture, Told
from tests.trainer.volume_cache.dying import Dying

RADFM = ("model.name=nano_nn_radfm", "model.vision=null", "model.projector=null")
CODES = ("model.name=nano_ct_chat", "model.variant=codes", "model.vision=null", "model.projector=null",
         "model.tuning.vision.mode=frozen")  # fmt: skip
QUICK = ("log.wandb=disabled", "eval.conditions=[image]")


def copied(prepared: Path, out: Path) -> Path:
    shutil.copytree(prepared, out, ignore=shutil.ignore_patterns("cache"))
    return out


def prepare_cache(root: Path, *overrides: str, more: Sequence[str] = ()) -> int:
    return main(["prepare", "--cache", "nano_ct_lora", *more, "--set", f"data.root={root}", *overrides])


def entries(root: Path) -> dict[str, bytes]:
    folder = root / "cache"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


def wanted_of(root: Path, *overrides: str) -> WantedVolumes:
    found = wanted(read_recipe("nano_ct_lora", [f"data.root={root}", *overrides]))
    assert found is not None
    return found


def lazily(root: Path, folder: Path, *overrides: str) -> dict[str, bytes]:
    """Returns the entries that reading each volume writes."""
    found = wanted_of(root, *overrides)
    reads = replace(found.input, cache=VolumeCache(folder))
    for refs in found.scans:
        for ref in refs:
            reads.read(ref)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_filled_cache_is_what_runs_write_and_runs_compute_nothing(
    prepared_ct: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Told
) -> None:
    root = copied(prepared_ct, tmp_path / "ct")
    said = shown(prepare_cache(root, more=["-j", "2"]))
    number = len(entries(root))
    assert f"to write   {number} volumes of 9 scans, at most 512 bytes each" in said
    assert f"{number} volumes were written, 0 were there, 0 could not be made" in said
    assert entries(root) == lazily(root, tmp_path / "lazily")

    def refuse(*_: object) -> None:
        raise AssertionError("a volume was computed")

    monkeypatch.setattr(cache, "load_volume", refuse)
    run = ["eval", "nano_ct_lora", "--limit", "8", "--set", f"data.root={root}", *QUICK]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    assert len(entries(root)) == number
    # The control: another setting is another entry, which is computed.
    with pytest.raises(AssertionError, match="a volume was computed"):
        main([*run, *RADFM, "--out", str(tmp_path / "other")])
    assert f"0 volumes were written, {number} were there" in shown(prepare_cache(root))


@pytest.mark.soak
def test_code_ids_are_the_same_entries(prepared_ct: Path, tmp_path: Path, capsys: Capture) -> None:
    root = copied(prepared_ct, tmp_path / "ct")
    small = (*CODES, "model.name=nano_nn_ct_chat")
    recipe, found = read_recipe("nano_ct_lora", [f"data.root={root}", *small]), wanted_of(root, *small)
    few = found._replace(scans=found.scans[:2])
    done = fill(recipe, few, processes=1, say=print)
    assert (done.there, done.broken) == (0, ())
    assert "the code ids of the tower, as int16" in capsys.readouterr().out
    assert len(entries(root)) == few.volumes
    reads = replace(few.input, cache=VolumeCache(tmp_path / "lazily"))
    reads.read(few.scans[0][0])
    (lazy,) = (tmp_path / "lazily").iterdir()
    assert entries(root)[lazy.name] == lazy.read_bytes()
    assert lazy.stat().st_size < few.entry_bytes(few.scans) + 200


def test_broken_scans_are_named_and_the_rest_is_kept(prepared_ct: Path, tmp_path: Path, capsys: Capture) -> None:
    root = copied(prepared_ct, tmp_path / "ct")
    scans = wanted_of(root).scans
    broken = scans[2][0].path
    broken.write_bytes(broken.read_bytes()[:5000])
    assert prepare_cache(root, more=["-j", "2"]) == 1
    said = capsys.readouterr().out
    lost = len(scans[2])
    assert f"{lost} could not be made" in said
    assert said.count(f"  {broken}: this file of a prepared folder shows something else") == 1, (
        "once, however many organs are asked about"
    )
    assert len(entries(root)) == sum(map(len, scans)) - lost


@pytest.mark.slow
def test_a_scan_that_ends_its_process_costs_that_scan_alone(prepared_ct: Path, tmp_path: Path) -> None:
    from medtune.data.media.volumes.formats.nifti import write_nifti

    root = copied(prepared_ct, tmp_path / "ct")
    recipe, found = read_recipe("nano_ct_lora", [f"data.root={root}"]), wanted_of(root)
    scans = tuple((replace(refs[0], masks=(), target=()),) for refs in found.scans[:3])
    write_nifti(tmp_path / "dying.nii.gz", np.full((8, 8, 8), -7, np.int16), np.eye(4))
    scans = (scans[0], (replace(scans[1][0], path=tmp_path / "dying.nii.gz"),), scans[2])
    few = found._replace(input=VolumeInput(Dying()), scans=scans)
    done = fill(recipe, few, processes=2, say=print)
    assert done.made == len(few.scans) - 1
    ((path, why),) = done.broken
    assert path == few.scans[1][0].path
    assert "process that read this file died" in why


KILLED = """
import sys
from pathlib import Path
from tests.trainer.volume_cache.dying import Dying
from tests.trainer.volume_cache.test_fill import VolumeInput, fill, read_recipe, wanted_of
if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = wanted_of(root)._replace(input=VolumeInput(Dying("slow")))
    fill(read_recipe("nano_ct_lora", [f"data.root={root}"]), found, processes=2, say=print)
"""


@pytest.mark.soak
def test_a_killed_filling_goes_on(prepared_ct: Path, tmp_path: Path) -> None:
    root = copied(prepared_ct, tmp_path / "ct")
    (tmp_path / "killed.py").write_text(KILLED)
    above = str(Path(__file__).parents[3])
    started = subprocess.Popen(
        [sys.executable, str(tmp_path / "killed.py"), str(root)], cwd=above, env={**os.environ, "PYTHONPATH": above}
    )
    end = time.monotonic() + 120
    while len(list(root.glob("cache/*.safetensors"))) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    recipe, found = read_recipe("nano_ct_lora", [f"data.root={root}"]), wanted_of(root)
    slow = found._replace(input=VolumeInput(Dying("slow")))
    started.kill()
    assert started.wait() == -signal.SIGKILL
    time.sleep(2)
    kept = {path.name: path.read_bytes() for path in root.glob("cache/*.safetensors")}
    assert 2 <= len(kept) < found.volumes
    for path in root.glob("cache/*.safetensors"):
        read_values(path)
    done = fill(recipe, slow, processes=2, say=print)
    assert (done.made, done.there, done.broken) == (found.volumes - len(kept), len(kept), ())
    assert kept.items() <= entries(root).items()


def test_unfinished_files_are_removed_once_nobody_writes_them(tmp_path: Path) -> None:
    old, new = tmp_path / ".a.host-1-ffffffff.partial", tmp_path / ".b.host-2-ffffffff.partial"
    for file in (old, new):
        file.touch()
    os.utime(old, (time.time() - 3600, time.time() - 3600))
    VolumeCache(tmp_path).remove_unfinished()
    assert list(tmp_path.iterdir()) == [new]


@pytest.mark.soak
def test_a_full_disk_ends_with_one_line_and_no_half_entry(prepared_ct: Path, tmp_path: Path) -> None:
    root = copied(prepared_ct, tmp_path / "ct")
    (root / "cache").mkdir()
    medtune = f"{sys.executable} -m medtune prepare --cache nano_ct_lora -j 2 --set data.root={root}"
    # Each entry takes a page, and there is one.
    room = os.sysconf("SC_PAGE_SIZE")
    script = f"mount -t tmpfs -o size={room} full {root}/cache && {medtune}; echo status $?; ls -A {root}/cache"
    above = str(Path(__file__).parents[3])
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=above,
        env={**os.environ, "PYTHONPATH": above},
    )
    if "status" not in done.stdout:
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    said, _, there = done.stdout.partition("status 1\n")
    assert "WARNING    this may not fit" in said
    assert "No space left on device. What is finished is kept" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    names = there.split()
    assert names
    assert all(name.endswith(".safetensors") and not name.startswith(".") for name in names)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--set", "data.cache=false"], "data.cache is false in this recipe"),
        (["--set", "model.name=nano_gemma3", "model.vision=null", "model.projector=null"], "keeps no volumes"),
        (["--limit", "3"], "takes no --limit"),
        (["--from", "x"], "takes no --from"),
    ],
)
def test_what_does_not_go_with_a_cache_is_refused(
    arguments: list[str], wrong: str, prepared_ct: Path, refused: Told
) -> None:
    given = ["prepare", "--cache", "nano_ct_lora", "--set", f"data.root={prepared_ct}", *arguments]
    assert wrong in refused(main(given))


def test_validate_says_what_is_kept_and_how_much(prepared_ct: Path, tmp_path: Path, capsys: Capture) -> None:
    root = copied(prepared_ct, tmp_path / "ct")
    main(["validate", "nano_ct_lora", "--set", f"data.root={root}", *RADFM])
    said = capsys.readouterr().out
    number = wanted_of(root, *RADFM).volumes
    assert f"cache      {number} volumes in {root}/cache: crops, each one of three equal channels, as int16" in said
    assert f"at most 8.4 MB each, {number * 8.388608:.1f} MB in all" in said
    assert "cache of volumes" in said
