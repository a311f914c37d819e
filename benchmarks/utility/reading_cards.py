"""Draw cards for the reading test of what users meet: messages, lines of receipts, plans and reports, sentences of pages.

    python benchmarks/utility/reading_cards.py SEED [--all FOLDER]

Prints 60 cards, 20 of each kind, for a reader who knows tables and statistics but not this project.  The reader says for
each, without looking anything up, what it states and, of a message, what to do; a card fails where the reader cannot, or
states something else than what is meant.  At most 7 of 100 may fail (docs/contributing/write-a-page.md).  A message shows
names in place of values; a row of a table stands with its heads, a sentence of a page with the heading above it.
``--all`` writes every card of a kind to a file, for an editor.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

EACH = 20
"""Cards of each kind.  A convention."""

HIDDEN = (
    "InternalError",
    "NotImplementedError",
    "AssertionError",
    "KeyboardInterrupt",
    "StopIteration",
    "AttributeError",
)
"""Errors that say that this package is wrong, or that Python asks for: no user is to act on them."""

FEWEST_WORDS = 4
"""Words below which a text is a title or a figure, and no line to understand by itself."""


def messages() -> Iterator[str]:
    """Yield what errors and warnings of the package say."""
    for path in sorted((ROOT / "synthdp").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call) or not call.args:
                continue
            name = ast.unparse(call.func)
            if (isinstance(node, ast.Raise) and name not in HIDDEN) or name.endswith("warnings.warn"):
                text = _text(call.args[0], named)
                if text is not None and len(text.split()) >= FEWEST_WORDS:
                    yield f"{path.relative_to(ROOT)}:{call.lineno} {name.rpartition('.')[2]}\n{text}"


def _text(node: ast.expr, named: dict[str, ast.expr]) -> str | None:
    """Return a text of the source, with names in place of values."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, named) or "" for part in parts)
        case ast.FormattedValue(value=value):
            known = _text(value, named) if isinstance(value, ast.Name) and value.id in named else None
            return known or f"<{ast.unparse(value)}>"
        case ast.Name(id=name) if name in named:
            return _text(named[name], {})
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (_text(left, named) or "...") + (_text(right, named) or "...")
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return _text(value, named)
    return None


BLOCKS, SILENT = (
    frozenset(("p", "li", "h1", "h2", "h3", "caption", "blockquote", "figcaption")),
    frozenset(("style", "script", "svg", "pre", "nav")),
)
"""Elements of a page whose text is a line, and elements that hold no lines."""


@dataclass
class Lines(HTMLParser):
    """The lines of a page as a reader sees them: paragraphs and items under their heading, rows with their heads."""

    found: list[str] = field(default_factory=list)
    heading: str = ""
    heads: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    text: str = ""
    silent: int = 0
    in_cell: bool = False
    in_head: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        """Begin a block, a row or a cell; the blocks of one cell are parted by a stroke."""
        self.silent += tag in SILENT
        if tag in ("th", "td"):
            self.in_cell, self.text = True, ""
        elif tag in ("table", "thead", "tr"):
            self.cells, self.in_head = [], tag == "thead" or (self.in_head and tag == "tr")
            self.heads = [] if tag == "table" else self.heads
        elif self.in_cell and (tag in BLOCKS or tag == "br") and self.text.strip():
            self.text += " / "
        elif tag in BLOCKS and not self.in_cell:
            self.text = ""

    def handle_endtag(self, tag: str) -> None:
        """End a block, and keep what it said."""
        self.silent -= tag in SILENT
        said = " ".join(self.text.split())
        if tag in ("th", "td"):
            self.cells.append(said)
            self.in_cell = False
        elif tag == "thead":
            self.heads, self.in_head = self.cells, False
        elif tag == "tr" and not self.in_head and len(self.cells) > 1:
            pairs = zip(self.heads or [""] * len(self.cells), self.cells, strict=False)
            self.found.append(f"[{self.heading}] " + " | ".join(f"{a}: {b}" if a else b for a, b in pairs))
        elif tag in ("h1", "h2", "h3"):
            self.heading, self.text = said, ""
        elif tag in BLOCKS and not self.in_cell and said:
            self.found.append(f"[{self.heading}] {said}")
            self.text = ""

    def handle_data(self, data: str) -> None:
        """Take text in."""
        if not self.silent:
            self.text += data


def lines() -> Iterator[str]:
    """Yield lines of receipts, plans, reports and the folder to publish, of releases of Adult and of a small table."""
    import synthdp as sd
    from synthdp.data import adult, adult_schema
    from synthdp.dossier import write_folder
    from synthdp.report.guidelines import About

    table = adult().iloc[:6000]
    person = table.assign(person=[i // 2 for i in range(len(table))]).iloc[:, [0, 1, 3, 9, -1]]
    several = {"privacy_unit": "person", "max_rows_per_unit": 2}
    few = sd.Schema({name: column for name, column in adult_schema().items() if name in person})
    found = sd.Schema({"age": sd.Integer(), "workclass": sd.Categorical(nullable=True), "sex": few["sex"]})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        made = [
            sd.SyntheticRelease(schema=adult_schema(), epsilon=1.0).fit(table),
            sd.SyntheticRelease(schema=few, epsilon=0.3, **several).fit(person),
            sd.SyntheticRelease(schema=found, epsilon=1.0, domain_budget=0.3).fit(table[["age", "workclass", "sex"]]),
        ]
        plans = sd.plan(adult_schema(), rows=6000, epsilon=[0.3, 1.0])
        write_folder(made[0].release_, Path(folder) / "out", about=About(date="2026-01-31"))
        pages = {path.name: path.read_text("utf-8") for path in (Path(folder) / "out").glob("*.html")}
        readme = (Path(folder) / "out" / "README.md").read_text("utf-8")
    for one in made:
        yield from (f"receipt\n{line}" for line in _of_receipt(one.receipt_))
    for one in plans:
        yield from (f"plan\n{line}" for line in _of_plan(one))
    for name, page in pages.items():
        read = Lines()
        read.feed(page)
        yield from (f"{name}\n{line}" for line in _of_each_kind(read.found))
    yield from (f"README of the folder\n{one}" for one in _of_markdown(readme))


def _of_receipt(receipt: Any) -> Iterator[str]:
    """Yield what a receipt says, an entry a line."""
    from synthdp.privacy.receipt import loss_of, noise_of, step_of

    yield f"[neighbours] {receipt.adjacency}"
    yield f"[attacker] a 50:50 guess about one unit is right at most {receipt.odds:.1%} of the time"
    for items in receipt.groups():
        answers = sum(item.answers for item in items)
        noise = f"noise (± 1 stddev): {noise_of(items)}"
        yield f"spent on: {step_of(items)} | answers: {answers} | {noise} | loss: {loss_of(items)}"
    yield f"[together] {receipt.together}"
    for title, texts in (("assumed", receipt.assumptions), ("notes", receipt.notes), ("ledger", [receipt.record])):
        yield from (f"[{title}] {text}" for text in texts)


def _of_plan(plan: Any) -> Iterator[str]:
    """Yield what a plan says, an entry a line."""
    from synthdp.planning.plan import VERDICTS, WORDS

    yield f"[verdict] {plan.verdict}: {VERDICTS[plan.verdict]}"
    yield f"[like] a random sample of about {plan.like_rows:,} rows"
    for order, error in plan.errors.items():
        yield (
            f"of 100 rows, in a wrong cell: {WORDS[order]} | expected: {100 * error:.2g} | without relations: "
            f"{100 * plan.independent[order]:.2g} | noise of a count: {plan.noise.get(order, 0):.0f} rows"
        )
    yield f"[mechanism] {plan.mechanism}: {plan.why}"
    for title, texts in (("assumed", plan.assumed), ("advice", plan.advice)):
        yield from (f"[{title}] {text}" for text in texts)


def _of_each_kind(found: list[str]) -> Iterator[str]:
    """Yield the lines that differ in more than figures and names: of rows of figures and lists of pairs, the first two."""
    seen: dict[str, int] = {}
    for line in found:
        said = re.sub(r"^\[[^\]]*\] ", "", line)
        heads = re.findall(r"(?:^|\| )([^:|]{1,30}):", said) if " | " in said else []
        long = max(len(part.split()) for part in said.split(" | ")) > 8  # a cell of prose
        kind = " | ".join(heads) if heads and not long else re.sub(r"[\d.,±%()]+|\b[\w-]+ and [\w-]+(?=:)", "#", said)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 2:
            yield line


def _of_markdown(text: str) -> Iterator[str]:
    """Yield the sentences of a page and the rows of its tables, each under its heading."""
    text = re.sub(r"```.*?```|^\{container\}.*?$|^:+.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|:::.*?:::", "", text, flags=re.DOTALL)
    heading, heads = "", ""
    for block in re.split(r"\n\s*\n|\n(?=#)|\n(?=[-*] )|\n(?=\d+\. )|(?<=\|)\n(?=\|)", text):
        said = " ".join(block.split())
        if said.startswith("#"):
            heading, _, rest = block.strip().partition("\n")
            heading, said, heads = heading.lstrip("# "), " ".join(rest.split()), ""
        if not said or said.startswith(("![", "|-", "| -", "[![")):
            continue
        if said.startswith("|"):
            if not heads:
                heads = said
                continue
            pairs = zip(heads.strip("|").split("|"), said.strip("|").split("|"), strict=False)
            yield f"[{heading}] " + " | ".join(f"{a.strip()}: {b.strip()}" for a, b in pairs)
            continue
        heads = ""
        said = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", said).lstrip("-* >").replace("**", "")
        yield from (f"[{heading}] {one}" for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`*(])", said))


def sentences() -> Iterator[str]:
    """Yield the sentences of the reader's part of the site: README, first pages, tutorials, how-tos."""
    pages = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("index.md", "tutorial.md"))]
    pages += sorted((ROOT / "docs" / "tutorial").glob("*.md")) + sorted((ROOT / "docs" / "how-to").glob("*.md"))
    for path in pages:
        yield from (f"{path.relative_to(ROOT)}\n{one}" for one in _of_markdown(path.read_text(encoding="utf-8")))


def long_enough(card: str) -> bool:
    """Return whether a card holds more than a title or figures."""
    said = card.split("\n", 1)[1]
    return len(re.findall(r"[A-Za-z]{2,}", re.sub(r"^\[[^\]]*\] ", "", said))) >= FEWEST_WORDS


def main() -> None:
    """Print the cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--all", type=Path)
    told = parser.parse_args()
    kinds: dict[str, Any] = {"message": messages, "line": lines, "sentence": sentences}
    cards = {kind: list(dict.fromkeys(filter(long_enough, make()))) for kind, make in kinds.items()}
    if told.all is not None:
        told.all.mkdir(exist_ok=True)
        for kind, found in cards.items():
            (told.all / f"{kind}s.txt").write_text("\n\n".join(found) + "\n", encoding="utf-8")
    draw = random.Random(told.seed)
    drawn = [(kind, card) for kind, found in cards.items() for card in draw.sample(found, EACH)]
    for number, (kind, card) in enumerate(drawn, 1):
        where, _, said = card.partition("\n")
        print(f"--- {number}. {kind}, {where}\n{textwrap.fill(said, 100)}\n")
    print("population: " + ", ".join(f"{len(found)} {kind}s" for kind, found in cards.items()))


if __name__ == "__main__":
    main()
