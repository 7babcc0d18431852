"""Holds the archives that pip has installed against hashes.txt, before anything of them runs.

pip itself takes no hashes beside an editable install, so that it reports what it installed, and the report is compared.
`make setup` does so; `make hashes` writes hashes.txt anew behind a change of constraints.txt. What pip fetches for a
moment to build a package (hatchling, setuptools) is in no report. Runs on the standard library alone.

Source: pip's installation report, version 1; PEP 427 (tags in the names of wheels).
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

LISTED = ("Linux", "x86_64")
"""The platform whose archives hashes.txt lists, for Python 3.11 to 3.13."""
_HEAD = "# The SHA-256 of every archive that `make setup` installs on Linux, x86-64, with Python 3.11 to 3.13.\n"


def installed(report: Mapping[str, object]) -> dict[str, str]:
    """Returns the SHA-256 of each archive in a report of pip, by its file's name; folders have none."""
    found: dict[str, str] = {}
    items = report["install"]
    assert isinstance(items, Sequence)
    for item in items:
        about = item["download_info"]
        if (archive := about.get("archive_info")) is not None:
            name = unquote(str(about["url"]).split("#")[0].rsplit("/", 1)[-1])
            found[name] = archive.get("hashes", {}).get("sha256", "")
    return found


def listed(text: str) -> dict[str, str]:
    """Returns the hashes that a list states, by the archive's name."""
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: digest for digest, name in lines}


def differences(found: Mapping[str, str], known: Mapping[str, str], *, is_listed: bool) -> list[str]:
    """Returns what is wrong with archives; on other platforms than the listed one, those alone that are in the list."""
    wrong = [
        f"{name}: another content than in the list" for name in found if known.get(name, found[name]) != found[name]
    ]
    return wrong + [f"{name}: not in the list" for name in found if is_listed and name not in known]


def _read(paths: Iterable[Path]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        found |= installed(json.loads(path.read_text("utf-8")))
    return found


def main() -> int:
    """Compares or writes; the status is 1 where an archive is another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("check", "write"))
    parser.add_argument("list", type=Path)
    parser.add_argument("reports", type=Path, nargs="+")
    options = parser.parse_args()
    found = _read(options.reports)
    if options.what == "write":
        lines = (f"{digest}  {name}\n" for name, digest in sorted(found.items(), key=lambda each: each[0].lower()))
        options.list.write_text(_HEAD + "".join(lines), "utf-8")
        print(f"{options.list}: {len(found)} archives")
        return 0
    known = listed(options.list.read_text("utf-8"))
    is_listed = (platform.system(), platform.machine()) == LISTED
    wrong = differences(found, known, is_listed=is_listed)
    for line in wrong:
        print(f"{options.list}: {line}", file=sys.stderr)
    if wrong:
        print(
            "What pip installed is not what medtune was tested with, and `make setup` removes it again. An "
            "index of your own whose archives differ is taken with `make setup HASHES=`.",
            file=sys.stderr,
        )
        return 1
    missing = sum(name not in known for name in found)
    if missing:
        print(f"{missing} of {len(found)} archives are of another platform than the listed one, and were not compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
