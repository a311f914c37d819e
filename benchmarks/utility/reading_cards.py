"""Draw cards for the reading test of what users meet: messages, lines of receipts, plans and reports, sentences of pages.

    python benchmarks/utility/seen_messages.py SEEN
    python benchmarks/utility/reading_cards.py SEED --seen SEEN [--all FOLDER]

Prints 60 cards, 20 of each kind, for a reader who knows tables and statistics but not this project.  A card shows a text
as its user meets it: a message below the call that raises it; a line marked in its receipt, plan or table; a sentence
marked in its paragraph, list or table.  How it is read and judged: docs/contributing/write-a-page.md.
``--all`` writes every card of a kind to a file, for an editor.
"""

from __future__ import annotations

import argparse
import ast
import json
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

EXAMPLES = {
    "where": "column 'age'", "name": "age", "column": "age", "term.name": "age", "axis.name": "age",
    "names": "('age', 'sex')", "missing[0]": "age", "lacking[0]": "visits", "', '.join(schema)": "age, sex",
    "', '.join(schema.tables)": "persons, visits", "path": "table.csv", "self.path": "beds.series", "out": "out.csv",
    "folder": "published", "source": "schema file 's.json'", "error.strerror": "No such file or directory",
    "getattr(error, 'strerror', None) or 'see the file system'": "disk full", "type(table).__name__": "list",
    "type(query).__name__": "Count", "type(self).__name__": "Boolean", "table": "visits",
    "type(column).__name__": "Boolean", "self.queries.k": "12", "math.prod(shape)": "90000000", "cells": "4096",
    "size": "12", "self.lower": "5", "self.upper": "2", "rule.column": "age", "self.column": "members.role",
    "one.name": "visits", "self.order": "3", "status": "infeasible", "key": "id_ed25519", "target": "income",
    "child": "visits", "relation.where": "relation 'persons' to 'visits'", "relation.order": "id", "len(names)": "95",
    "level": "north", "period": "2", "of": "visits", "error.name": "pandas", "_EXTRAS[name]": "arrow",
    "self.folder": "s", "mu": "1e-12", "regular": "365", "release.mechanism": "MWEM", "error": "disk full",
    "'minisign' if of_minisign else 'ssh-keygen'": "ssh-keygen", "self.schema_.root": "persons",
    "self._settings": "beds.series/series.json", "self.kind": "series", "self.solver": "lp",
    "schema.undeclared[0]": "age", "why": "this mechanism discovers none", "weight": "-1", "promise['epsilon']": "1",
    "folder.name": "adult.published-1", "unit": "each row", "reason_of(error)": "No space left on device",
    "what": "column", "title": "income by education", "self.mechanism": "MWEM", "lower": "0", "upper": "9",
    "spacing": "2", "self.left": "sex", "lost[0]": "age", "pattern": "C-\\t", "self.key": "('id', 'year')",
    "getattr(self, name)": "3", "dotted(place)": "visits.age", "rule['rule']": "less_equal", "self.zone": "Oslo",
    "self.resolution": "week", "known": "h, min, s, ms, us", "label": "income", "there": "0.0.9", "here": "0.1.0",
    "one.child": "visits", "one.columns": "person", "one.parent_columns": "id", "one.parent": "persons",
    "link.dialect": "oracle", "server": "WIN1252", "_named(bits)": "age>=40", "self.order + 1": "4",
    "self.length + 1": "3", "4 * self.m": "8", "self.length": "2", "count": "6000000", "evaluator": "best",
}  # fmt: skip
"""Values that stand for what a message of the source puts in, by its expression, where no test meets the message."""

FEWEST_WORDS = 4
"""Words below which a text is a title or a figure, and no line to understand by itself."""


@dataclass(frozen=True)
class Card:
    """A text to read: where it stands, the text alone, and the text as its user meets it."""

    where: str
    text: str
    shown: str


def messages(seen: dict[tuple[str, int], dict[str, Any]]) -> Iterator[Card]:
    """Yield what errors and warnings of the package say, each below a call that raises it.

    A place that no test reaches is shown with the names of the source in place of values.
    """
    left = dict(seen)
    for path in sorted((ROOT / "synthdp").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for owner, node in _with_owners(tree):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call) or not call.args:
                continue
            name = ast.unparse(call.func)
            kind, place = name.rpartition(".")[2], (str(path.relative_to(ROOT)), call.lineno)
            raised = isinstance(node, ast.Raise) and kind not in HIDDEN
            if place in left and (raised or name.endswith("warnings.warn")):
                yield _met(place, left.pop(place))
            elif (raised and kind[:1].isupper()) or name.endswith("warnings.warn"):  # not a helper that makes the error
                text = _text(call.args[0], named)
                if text is not None:
                    yield Card(f"{place[0]}:{place[1]}", text, f"in {owner}\n{kind}: {text}")
    yield from (_met(place, one) for place, one in left.items() if one["kind"] not in HIDDEN and one["depth"] == 0)


def _met(place: tuple[str, int], one: dict[str, Any]) -> Card:
    """Return the card of a message that a test has met."""
    return Card(f"{place[0]}:{place[1]}", one["message"], f"{one['call']}\n{one['kind']}: {one['message']}")


def _with_owners(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield all nodes of a module, each with the name of the function around it."""
    for node in ast.iter_child_nodes(tree):
        inside = owner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{owner}.{node.name}" if owner else node.name
        yield inside, node
        yield from _with_owners(node, inside)


def _text(node: ast.expr, named: dict[str, ast.expr]) -> str | None:
    """Return a text of the source, with names in place of values."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, named) or "" for part in parts)
        case ast.FormattedValue(value=value, conversion=conversion):
            known = named.get(value.id) if isinstance(value, ast.Name) else None
            if isinstance(known, ast.Constant):
                return str(known.value)
            found = (_text(known, named) if known is not None else None) or _example(ast.unparse(value))
            return repr(found) if chr(max(conversion, 0)) == "r" and not found.startswith(("(", "<")) else found
        case ast.Name(id=name) if name in named:
            return _text(named[name], {})
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (_text(left, named) or "...") + (_text(right, named) or "...")
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return re.sub(r"\{\w+\}", "age", _text(value, named) or "") or None
    return None


def _example(source: str) -> str:
    """Return a value that may stand for an expression of the source."""
    for part, value in (("', '.join(", "age, sex"), ("len(", "3"), ("type(", "list")):
        if part in source and source not in EXAMPLES:
            return value
    return EXAMPLES.get(source) or ("1000" if source.isupper() else f"<{source}>")


BLOCKS, SILENT = (
    frozenset(("p", "li", "h1", "h2", "h3", "caption", "blockquote", "figcaption")),
    frozenset(("style", "script", "svg", "pre", "nav")),
)
"""Elements of a page whose text is a line, and elements that hold no lines."""


@dataclass
class Lines(HTMLParser):
    """The sections of a page as a reader sees them: a heading, then paragraphs, items, and rows of tables."""

    sections: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=lambda: [("", [])])
    """Heading and lines; a line is a kind ("text", "head" or "row") and what it says."""
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
        elif self.in_cell and (tag in BLOCKS or tag == "br") and self.text.strip():
            self.text += " / "
        elif tag in BLOCKS and not self.in_cell:
            self.text = ""

    def handle_endtag(self, tag: str) -> None:
        """End a block, and keep what it said."""
        self.silent -= tag in SILENT
        said = re.sub(r" +([.,:;])", r"\1", " ".join(self.text.split()))
        lines = self.sections[-1][1]
        if tag in ("th", "td"):
            self.cells.append(said)
            self.in_cell = False
        elif tag == "thead":
            lines.append(("head", " | ".join(self.cells)))
            self.in_head = False
        elif tag == "tr" and not self.in_head and len(self.cells) > 1:
            lines.append(("row", " | ".join(self.cells)))
        elif tag in ("h1", "h2", "h3"):
            self.sections.append((said, []))
            self.text = ""
        elif tag in BLOCKS and not self.in_cell and said:
            lines.append(("text", said))
            self.text = ""
        elif tag == "span":
            self.text += " "

    def handle_data(self, data: str) -> None:
        """Take text in."""
        if not self.silent:
            self.text += data


def _of_page(where: str, page: str) -> Iterator[Card]:
    """Yield the lines of a page, each marked in its section."""
    read = Lines()
    read.feed(page)
    for heading, lines in read.sections:
        for at, (kind, said) in enumerate(lines):
            if kind != "head":
                yield Card(where, said, f"{heading}\n" + _marked(lines, at))


NEAR, WHOLE = 4, 14
"""Lines shown before and after a marked one, and lines of a section that is shown whole.  Conventions."""


def _marked(lines: list[tuple[str, str]], at: int) -> str:
    """Return the lines of a section, one of them marked; of a long section those near it, and the head of its table."""
    near = [i for i in range(len(lines)) if len(lines) <= WHOLE or abs(i - at) <= NEAR]
    head = [i for i in range(at) if lines[i][0] == "head"][-1:] if lines[at][0] == "row" else []
    shown = sorted({*near, *head})
    out = []
    for i, after in zip(shown, [*shown[1:], len(lines)], strict=True):
        out.append(("> " if i == at else "  ") + lines[i][1])
        out += ["  ..."] * (after != i + 1)
    return "\n".join(out)


def lines() -> Iterator[Card]:
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
        yield from _of_printed("receipt", str(one.receipt_))
    for one in plans:
        yield from _of_printed("plan", str(one))
    for name, page in pages.items():
        yield from _of_page(name, page)
    yield from _of_markdown("README.md of the folder to publish", readme)


PAGE_WIDTH = 80
"""Characters of a printed line of a receipt or a plan: ``synthdp.words``."""


def _of_printed(where: str, text: str) -> Iterator[Card]:
    """Yield the entries of a printed receipt or plan, each marked in the whole."""
    lines = text.splitlines()
    starts: list[int] = []
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        before = lines[i - 1] if i else ""
        fits = len(before) + 1 + len(line.split(" ")[-1] if not line.split() else line.split()[0]) <= PAGE_WIDTH
        in_table = len(re.split(r" {2,}", before.strip())) > 2 or before.startswith("    ")
        if i == 0 or indent in (0, 2, 4) or (indent > 6 and fits and not (in_table and indent < 10)):
            starts.append(i)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        table = end < len(lines) and lines[end].startswith("    ") and not lines[end].startswith("      ")
        if start and not (table and not lines[start].startswith("    ")):  # not the title, not the head of a table
            marked = "\n".join(("> " if start <= i < end else "  ") + line for i, line in enumerate(lines))
            yield Card(where, " ".join(" ".join(lines[start:end]).split()), marked)


def _of_each_kind(found: list[Card]) -> Iterator[Card]:
    """Yield the cards that differ in more than figures and names: of rows of figures and lists of pairs, the first two."""
    seen: dict[str, int] = {}
    for card in found:
        kind = re.sub(r"[\d.,±%()]+|\b[\w-]+ and [\w-]+(?=:)", "#", card.text)
        cells = card.text.split(" | ")
        if len(cells) > 1 and max(len(cell.split()) for cell in cells) <= 8:  # a row without prose
            kind = card.shown.partition("\n")[0] + str(len(cells))
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 2:
            yield card


def _of_markdown(where: str, text: str) -> Iterator[Card]:
    """Yield the sentences of a page and the rows of its tables, each marked in its paragraph, list or table."""
    text = re.sub(r"^\{container\}.*?$|^:+.*?$", "", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->|:::.*?:::", "", text, flags=re.DOTALL)
    title, heading = "", ""
    blocks = [
        one.strip("\n")
        for one in re.split(r"(^```.*?^```)|\n\s*\n|\n(?=#)", text, flags=re.DOTALL | re.MULTILINE)
        if one
    ]
    blocks = [one for one in blocks if one.strip() and not one.lstrip().startswith(("![", "[![", "```{toctree}"))]
    above = ""
    for number, block in enumerate(blocks):
        if block.startswith("```"):
            above = _beginning(block)
            continue
        if block.startswith("#"):
            heading, _, block = block.strip().partition("\n")
            heading = heading.lstrip("# ")
            title, above = title or heading, ""
            if not block.strip():
                continue
        after = blocks[number + 1] if number + 1 < len(blocks) else ""
        below = _beginning(after) if after.startswith("```") or block.rstrip().endswith(":") else ""
        where_in = f"page: {title}" + (f", section: {heading}" if heading != title else "")
        for text_of_it, marked in _parts(block):
            around = "\n\n".join(one for one in (where_in, above, marked, below) if one)
            yield Card(where, text_of_it, around)
        plain = _plain(block)
        above = (
            (plain if re.match(r"\s*([-*|]|\d+\.) ?", plain) else " ".join(plain.split()))
            if len(plain) < LONGEST_ABOVE
            else ""
        )


LONGEST_ABOVE = 600
"""Characters of a paragraph that is shown above the next one.  A convention."""


def _beginning(block: str) -> str:
    """Return the first lines of a block of code, a list or a table."""
    lines = block.splitlines()
    return "\n".join([*lines[:12], *["..."] * (len(lines) > 12)])


def _plain(text: str) -> str:
    """Return a text without the addresses of its links and without bold marks."""
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


def _parts(block: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences, items or rows of a block: each alone, and the block with it marked."""
    block = _plain(block)
    if block.lstrip().startswith("|"):
        rows = block.strip().splitlines()
        lines = [("head", rows[0]), *(("row", row) for row in rows[2:])]
        for at in range(1, len(lines)):
            yield lines[at][1].strip("| "), _marked(lines, at)
        return
    items = re.split(r"\n(?=\s*[-*] |\s*\d+\. )", block)
    listed = len(items) > 1
    for at, item in enumerate(items):
        said = " ".join(item.split())
        first = re.match(r"[-*>] |\d+\. ", said)
        parts = re.split(r"(?<=[.!?])\s+(?=[A-Z`*(])", said[first.end() :] if first else said)
        for i, one in enumerate(parts):
            text = " ".join([*parts[:i], f"«{one}»", *parts[i + 1 :]])  # the mark is all that a card adds
            if listed:
                others = [("row", " ".join(other.split())) for other in items]
                others[at] = ("row", (first.group() if first else "") + text)
                text = _marked(others, at)
            yield one, text


def sentences() -> Iterator[Card]:
    """Yield the sentences of the reader's part of the site: README, first pages, tutorials, how-tos."""
    pages = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("index.md", "tutorial.md"))]
    pages += sorted((ROOT / "docs" / "tutorial").glob("*.md")) + sorted((ROOT / "docs" / "how-to").glob("*.md"))
    for path in pages:
        yield from _of_markdown(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


def long_enough(card: Card) -> bool:
    """Return whether a card holds more than a title or figures."""
    return len(re.findall(r"[A-Za-z]{2,}", card.text)) >= FEWEST_WORDS


def _wrapped(text: str) -> str:
    """Return a text with its long lines broken."""
    return "\n".join(
        textwrap.fill(line, 110, subsequent_indent="    ") if len(line) > 110 else line for line in text.splitlines()
    )


def main() -> None:
    """Print the cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--all", type=Path)
    told = parser.parse_args()
    rows = map(json.loads, told.seen.read_text(encoding="utf-8").splitlines()) if told.seen else ()
    seen = {(row["path"], row["line"]): row for row in rows}
    kinds = {"message": list(messages(seen)), "line": list(_of_each_kind(list(lines()))), "sentence": list(sentences())}
    cards = {
        kind: list({card.text: card for card in made if long_enough(card)}.values()) for kind, made in kinds.items()
    }
    if told.all is not None:
        told.all.mkdir(exist_ok=True)
        for kind, found in cards.items():
            text = "\n\n".join(f"--- {card.where}\n{_wrapped(card.shown)}" for card in found)
            (told.all / f"{kind}s.txt").write_text(text + "\n", encoding="utf-8")
    draw = random.Random(told.seed)
    drawn = [(kind, card) for kind, found in cards.items() for card in draw.sample(found, EACH)]
    for number, (kind, card) in enumerate(drawn, 1):
        print(f"--- {number}. {kind}, {card.where}\n{_wrapped(card.shown)}\n")
    filled = sum(not card.shown.startswith("in ") for card in cards["message"])
    print("population: " + ", ".join(f"{len(found)} {kind}s" for kind, found in cards.items()), end="")
    print(f"; {filled} messages with their values")


if __name__ == "__main__":
    main()
