"""Says what medtune brings along: its packages with their licences, a bill of materials, and known weaknesses.

`make licences` writes docs/licences.md, `make sbom` writes dist/sbom.json (CycloneDX), and `make audit` holds the
versions in constraints.txt against advisories that lie on this disk; nothing of it asks the network. The first two read
the requirements in pyproject.toml and what is installed for them.

Source: CycloneDX 1.6 (ECMA-424); PEP 639 (licences); OSV schema 1.7 (advisories).
"""

import argparse
import json
import re
import sys
import tomllib
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from medtune.version import __version__

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
OWN = "medtune"
DEV = "dev"
_LONGEST_LICENCE = 60
_OSI = "License :: "
_HEAD = """# Licences of what comes along

medtune is under Apache-2.0. It contains no code of these packages; pip installs them, in the versions of
constraints.txt. `medtune` needs those of the first table; an extra brings those of its own, and `make setup` all of
them. The licences are what each package says of itself. `make licences` writes this page, `make sbom` a bill of
materials (CycloneDX), and `make audit ADVISORIES=FOLDER` compares the versions with advisories in a folder (records of
OSV, such as a copy of the Python Packaging Advisory Database), without a network.
"""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package and why it is there."""

    name: str
    version: str
    licence: str
    is_expression: bool  # Whether the licence is an SPDX expression, not a title.
    needed_by: str  # "medtune", or the name of the extra that needs it where medtune itself does not.
    requires: tuple[str, ...]  # The packages that it needs here.


def packages() -> list[Package]:
    """Returns the installed packages that medtune and its extras need, in order of name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    found: dict[str, Package] = {}
    for part, lines in ((OWN, project["dependencies"]), *sorted(extras.items(), key=lambda each: each[0] == DEV)):
        wanted = [Requirement(line) for line in lines]
        while wanted:
            requirement = wanted.pop()
            name = canonicalize_name(requirement.name)
            if name == OWN or (name in found and not requirement.extras):
                continue
            package, needs = _package(requirement, part)
            found.setdefault(name, package)
            wanted += [each for each in needs if canonicalize_name(each.name) not in found]
    return [found[name] for name in sorted(found)]


def _package(requirement: Requirement, part: str) -> tuple[Package, list[Requirement]]:
    try:
        installed = distribution(requirement.name)
    except PackageNotFoundError:
        raise ValueError(f"{requirement.name} is not installed here. Run make setup first.") from None
    needs = [
        each
        for each in map(Requirement, installed.requires or ())
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras))
    ]
    licence, is_expression = _licence(installed)
    names = tuple(sorted({canonicalize_name(each.name) for each in needs}))
    return Package(canonicalize_name(requirement.name), installed.version, licence, is_expression, part, names), needs


def _licence(installed: Distribution) -> tuple[str, bool]:
    """Returns what a package says of its licence: an SPDX expression, else its classifiers, else a line of text."""
    about = installed.metadata
    if expression := about.get_all("License-Expression"):
        return str(expression[0]), True
    titles = [each.split(" :: ")[-1] for each in about.get_all("Classifier") or () if each.startswith(_OSI)]
    titles = [title for title in titles if title != "OSI Approved"]
    if titles:
        return ", ".join(titles), False
    text = "".join(about.get_all("License") or ()).strip().partition("\n")[0]
    return (text, False) if 0 < len(text) <= _LONGEST_LICENCE else ("not stated", False)


def page(found: Sequence[Package]) -> str:
    """Returns the page of licences: a table for medtune, one for each extra, and the licences in order of number."""
    parts = list(dict.fromkeys(each.needed_by for each in sorted(found, key=lambda each: each.needed_by != OWN)))
    tables = [
        f"\n## {part if part == OWN else f'The extra {part}'}\n\n| package | version | licence |\n|---|---|---|\n"
        + "".join(f"| {each.name} | {each.version} | {each.licence} |\n" for each in found if each.needed_by == part)
        for part in parts
    ]
    counts = Counter(each.licence for each in found if each.needed_by == OWN)
    rows = "".join(f"| {licence} | {count} |\n" for licence, count in counts.most_common())
    return (
        f"{_HEAD}{''.join(tables)}\n## Licences of medtune's own packages\n\n| licence | packages |\n|---|---|\n{rows}"
    )


def bill_of_materials(found: Sequence[Package], version: str) -> dict[str, Any]:
    """Returns the packages as a CycloneDX document; the same packages give the same document."""

    def ref(name: str, of: str) -> str:
        return f"pkg:pypi/{name}@{of}"

    versions = {each.name: each.version for each in found}
    components = [
        {
            "type": "library",
            "bom-ref": ref(each.name, each.version),
            "name": each.name,
            "version": each.version,
            "scope": "required" if each.needed_by == OWN else "optional",
            "licenses": [{"expression": each.licence} if each.is_expression else {"license": {"name": each.licence}}],
            "purl": ref(each.name, each.version),
        }
        for each in found
    ]
    own = {"type": "application", "bom-ref": ref(OWN, version), "name": OWN, "version": version}
    needed = {each for package in found for each in package.requires}
    top = sorted(each.name for each in found if each.name not in needed)
    depends = [(ref(OWN, version), top), *((ref(each.name, each.version), each.requires) for each in found)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, components]))}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": [
            {"ref": who, "dependsOn": [ref(name, versions[name]) for name in names if name in versions]}
            for who, names in depends
        ],
    }


def weaknesses(versions: Mapping[str, str], advisories: Path) -> Iterator[str]:
    """Yields a line for each advisory in a folder, as OSV records in JSON or YAML, that holds for a version."""
    names = {canonicalize_name(name): name for name in versions}
    for path in sorted(advisories.rglob("*")):
        if path.suffix not in (".json", ".yaml", ".yml"):
            continue
        text = path.read_text("utf-8")
        # Most of some 20,000 records are about other packages.
        if not any(canonicalize_name(each) in names for each in _NAME.findall(text)):
            continue
        record = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=yaml.CSafeLoader)
        if not isinstance(record, dict) or record.get("withdrawn"):
            continue
        for part in record.get("affected") or ():
            about = part.get("package") or {}
            name = canonicalize_name(str(about.get("name", "")))
            if about.get("ecosystem") == "PyPI" and name in names and _holds(part, versions[names[name]]):
                said = record.get("summary") or str(record.get("details") or "").strip().partition("\n")[0]
                yield f"{name} {versions[names[name]]}: {record.get('id')}: {said[:120]}"


_NAME = re.compile(r"""["']?\bname["']?\s*:\s*["']?([A-Za-z0-9._-]+)""")


def _holds(part: Mapping[str, Any], version: str) -> bool:
    if version in map(str, part.get("versions") or ()):
        return True
    ranges = [each for each in part.get("ranges") or () if each.get("type") == "ECOSYSTEM"]
    return any(_is_within(each.get("events") or (), Version(version)) for each in ranges)


def _is_within(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    """Returns whether the last event at or before a version leaves the weakness there."""
    is_weak = False
    for event in events:
        ((kind, said),) = list(event.items())[:1]
        try:
            at = Version(said)
        except InvalidVersion:
            continue
        if kind == "introduced" and version >= at:
            is_weak = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            is_weak = False
    return is_weak


def pinned() -> dict[str, str]:
    """Returns the versions in constraints.txt by the package's name."""
    lines = [line.split("#")[0].strip() for line in CONSTRAINTS.read_text("utf-8").splitlines()]
    pairs = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): version for name, version in pairs}


def main() -> int:
    """Writes the page or the bill, or prints the weaknesses; the status is 1 where one is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    for name, about in (("licences", "the page"), ("sbom", "the bill")):
        what.add_parser(name).add_argument("out", type=Path, help=f"where {about} is written")
    what.add_parser("audit").add_argument("advisories", type=Path, help="a folder with records of OSV")
    options = parser.parse_args()
    if options.what == "audit":
        if not options.advisories.is_dir():
            raise SystemExit(f"{options.advisories}: there is no such folder. Name one with records of OSV.")
        found = list(weaknesses(pinned(), options.advisories))
        print("\n".join(found) or f"none of {len(pinned())} versions is in an advisory of {options.advisories}")
        return bool(found)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = (
        page(packages())
        if options.what == "licences"
        else json.dumps(bill_of_materials(packages(), __version__), indent=1) + "\n"
    )
    options.out.write_text(text, "utf-8")
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
