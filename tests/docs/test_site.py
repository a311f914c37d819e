"""The site builds offline without a warning, its links lead somewhere, and every public name has an entry."""

import inspect
import subprocess
import sys
from html.parser import HTMLParser
from itertools import filterfalse
from pathlib import Path
from urllib.parse import unquote

import pytest

import synthdp

pytestmark = pytest.mark.style

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """The links, what is loaded, and the anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given.get("id", ""), given.get("name", "")}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(folder / "trees"), "-b", "html"]
    done = subprocess.run(
        [*command, "docs", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def is_outside(link: str) -> bool:
    return link.startswith(("http:", "https:", "mailto:", "//", "data:"))


def test_every_link_within_the_site_leads_to_a_page_and_its_anchor(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in filterfalse(is_outside, [*page.links, *page.loaded]):
            target, _, anchor = unquote(link).partition("#")
            file = (path.parent / target.partition("?")[0]).resolve() if target else path
            found = file.exists() and (file not in pages or anchor in pages[file].anchors)
            broken += [] if found else [f"{path.name}: {link}"]
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    loaded = {link for page in pages.values() for link in page.loaded if is_outside(link)}
    assert {link for link in loaded if not link.startswith("data:")} == set()


def test_every_public_name_has_an_entry_with_a_description(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    entries = {name for kind in ("py:class", "py:function") for name in inventory.data.get(kind, {})}
    public = {*synthdp.__all__, *synthdp._HOME} - {"__version__"}
    assert sorted(public - {name.removeprefix("synthdp.") for name in entries}) == []
    assert [name for name in sorted(public) if not inspect.getdoc(getattr(synthdp, name))] == []


def test_every_page_of_the_repository_is_on_the_site(site: Path) -> None:
    missing = {
        str(page.relative_to(ROOT / "docs"))
        for kind in ("md", "ipynb")
        for page in (ROOT / "docs").rglob(f"*.{kind}")
        if not (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists()
    }
    lists = {f"audit/{name}.md" for name in ("mutations", "mutation-score", "fuzz")}  # for developers
    parts = {f"benchmarks/{name}.md" for name in ("plans", "sweep", "wide")}  # of the planner's page
    assert missing == {"paper/paper.md"} | lists | parts  # which its journal builds


READERS = ("tutorial", "how-to", "explanation", "reference")
MOST_WORDS = 35_000


def test_what_a_reader_has_to_read_has_an_end() -> None:
    pages = [ROOT / "docs" / "index.md", ROOT / "docs" / "tutorial.md"]
    pages += [page for part in READERS for page in (ROOT / "docs" / part).glob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS


def test_the_first_page_has_three_doors_and_all_else_is_under_one_entry(site: Path) -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert text.count("{container} door\n") == 3
    tree = text[text.index("{toctree}") :].split("```")[0].split()
    assert [entry for entry in tree if "/" in entry or entry.isalpha()][-6:] == [
        "tutorial/index", "how-to/index", "explanation/index", "reference/index", "evidence", "changelog"
    ]  # fmt: skip
