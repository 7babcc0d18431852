"""The site of docs/: every page has its place, every link holds, and a browser loads nothing from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from tests.packages.installed import ROOT
from website import outside

PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
NAV = re.search(r"^nav:\n(?: .*\n?)+", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
LINE_THAT_BEGINS_A_LIST = re.compile(r"<p>(?:[^<]|<(?!/p>))*?\n(?:- |\d+\. |\| )")


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.names.add(value)


def dead(site: Path) -> list[str]:
    """Returns the links of a site that lead to no file or to no place in it."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        for link in page.links:
            target, _, name = link.partition("#")
            if re.match(r"\w+:|//", link):
                continue
            file = (path.parent / target).resolve() if target else path
            if not file.exists() or (name and file in pages and name not in pages[file].names | {"__"}):
                found.append(f"{path.relative_to(site)}: {link}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a warning ends the build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        from mkdocs.commands.build import build
        from mkdocs.config import load_config

        folder = tmp_path_factory.mktemp("site")
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        config.plugins.run_event("startup", command="build", dirty=False)
        build(config)
    return folder


def test_every_page_has_a_place_in_the_navigation() -> None:
    assert NAV is not None
    places = [line.rpartition(": ")[2] for line in NAV[0].splitlines() if line.endswith(".md")]
    assert [page for page in PAGES if page not in places] == []
    assert len(places) == len(set(places))
    assert [next(iter(part)) for part in yaml.safe_load(NAV[0])["nav"]] == [
        "Start", "How-to", "Reference", "Explanations",
    ]  # fmt: skip


def test_every_link_and_picture_leads_somewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > len(PAGES)
    assert dead(site) == []
    assert (site / "repository" / "CONTRIBUTING.html").is_file()


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a><a href="c.html">2</a><img src="b.html">')
    (tmp_path / "b.html").write_text('<p id="there">')
    assert dead(tmp_path) == ["a.html: b.html#here", "a.html: c.html"]


def test_lists_and_tables_are_read_as_such(site: Path) -> None:
    texts = {path: path.read_text("utf-8") for path in sorted(site.rglob("*.html"))}
    assert [str(path.relative_to(site)) for path, text in texts.items() if LINE_THAT_BEGINS_A_LIST.search(text)] == []
    assert LINE_THAT_BEGINS_A_LIST.search("<p>Two:\n- one</p>")


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert [load for path in site.rglob("*.html") for load in outside.loads(path)] == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import\s+)['\"]?(?:https?:)?//[^)]*", styles) == []


@pytest.mark.parametrize(
    "line",
    [
        '<link rel="preconnect" href="https://fonts.example.org">',
        '<script src="//cdn.example.org/a.js"></script>',
        '<img srcset="HTTPS://example.org/a.png 2x">',
        '<object data="http://example.org/a.svg"></object>',
    ],
)
def test_what_would_be_loaded_from_elsewhere_is_named(line: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f'<a href="https://example.org">a click alone leads there</a>{line}', "utf-8")
    assert len(outside.loads(page)) == 1
