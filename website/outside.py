"""A hook of mkdocs: pages of docs/ may link to files beside docs/; the links hold in the repository and on the site.

A page that is linked (CONTRIBUTING, the README of a benchmark) becomes a page of the site, and any other file is copied
into it, both under `repository/` and their path; a folder that is linked becomes a page that lists its files. So no
link needs an address on the web. After the build nothing of a page may be loaded from elsewhere: such a page ends it.

Source: mkdocs 1.6, "Plugins", the events on_files, on_page_markdown and on_post_build.
"""

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUTSIDE = "repository"
LINK = re.compile(r"(\]\()([^):#\s]+)((?:#[^)\s]*)?\))")
BENCHMARKS = sorted((ROOT / "medtune" / "benchmarks").glob("*/README.md"))
# What a browser loads by itself; the address of an `a` is gone to only by a click.
LOADED = {"href": {"link"}, "src": None, "srcset": None, "poster": None, "data": {"object"}, "action": {"form"}}
FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what the pages link to beside docs/, and what those pages link to, and so on."""
    waiting, seen = [*sorted(DOCS.rglob("*.md")), *BENCHMARKS], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.is_dir():
            files.append(File.generated(config, place(path), content=_listing(path)))
            waiting += [each for each in path.iterdir() if each.is_file()]
        elif not path.is_relative_to(DOCS):
            files.append(File.generated(config, place(path), abs_src_path=str(path)))
        if path.suffix == ".md":
            waiting += _targets(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the text of a page with its links as they have to be on the site."""
    path = Path(page.file.abs_src_path or DOCS / page.file.src_uri).resolve()
    here = dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = (path.parent / link[2]).resolve()
        if not target.exists():
            return link[0]
        return f"{link[1]}{relpath(place(target), here)}{link[3]}"

    return LINK.sub(moved, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Ends the build if a browser would load something from another host."""
    site = Path(config.site_dir)
    found = [f"{file.relative_to(site)}: {what}" for file in sorted(site.rglob("*.html")) for what in loads(file)]
    if found:
        raise PluginError("these are loaded from elsewhere:\n" + "\n".join(found))


def place(path: Path) -> str:
    """Returns where a file of the repository lies on the site, and of a folder the page that lists its files."""
    is_page = path.is_relative_to(DOCS)
    where = path.relative_to(DOCS).as_posix() if is_page else f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"
    return f"{where}/index.md" if path.is_dir() else where


def loads(file: Path) -> list[str]:
    """Returns what a browser that shows the page would load from another host."""
    reader = _Loaded()
    reader.feed(file.read_text("utf-8"))
    return reader.found


def _targets(path: Path) -> Iterator[Path]:
    for link in LINK.finditer(path.read_text("utf-8")):
        target = Path(os.path.realpath(path.parent / link[2]))
        if target.exists() and target.is_relative_to(ROOT):
            yield target


def _listing(folder: Path) -> str:
    names = sorted(each.name for each in folder.iterdir() if each.is_file())
    return f"# {folder.relative_to(ROOT)}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


class _Loaded(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            tags = LOADED.get(name, set())
            if (tags is None or tag in tags) and FOREIGN.match(value or "") and ("rel", "canonical") not in attrs:
                self.found.append(f"{tag} {name}={value}")
