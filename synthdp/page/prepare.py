"""Screens 1 to 3: the table, what is known about its columns, and rules between them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from synthdp.checks import whole
from synthdp.errors import DataError, SchemaError, SynthDPError
from synthdp.page.answers import TYPES, answer_of, from_document, in_words, rule_of
from synthdp.page.jobs import Job
from synthdp.page.project import DOCUMENTS, TABLES
from synthdp.page.site import Site, fields, many
from synthdp.schema.known_columns import known_column, suggested

KINDS = {
    "less_equal": "is never above", "implies": "then, whenever it has these values, this one has those",
    "forbidden": "never has these values together with those of",
}  # fmt: skip


async def table(site: Site, _: Request) -> Response:
    """Show the tables of the folder, and whom to protect."""
    project = site.project
    chosen = None if project.current is None else project.state
    return site.show(
        "table", files=project.listed(TABLES), documents=project.listed(DOCUMENTS), state=chosen, job=site.jobs["read"],
        dictionary=site.jobs["document"], unit=None if chosen is None else project.unit(),
    )  # fmt: skip


async def choose(site: Site, request: Request) -> Response:
    """Take a table of the folder, and read which columns it has."""
    project, path = site.project, site.project.file(fields(request).get("file", ""), TABLES)
    if site.jobs.busy:
        raise DataError("Something is still running about the chosen table: wait for its end, or stop it.")
    project.choose(path.name)
    project.save()
    site.jobs.forget("read", "document", "look", "plan", "release", "results", "answer", "compare")
    if project.state["columns"] is None:
        site.start("read", {"path": path.name}, at_end=lambda job: _read(site, path.name, job))
        return site.go("table")
    return site.go("table", note="Your earlier answers about this table are here again.")


def _read(site: Site, name: str, job: Job) -> None:
    """Keep the names and the kinds of the columns that a child has read."""
    if job.state == "done":
        state = site.project.tables[name]
        state["columns"], state["csv"] = job.result["columns"], job.result["csv"]
        _saved(site, job)


def _saved(site: Site, job: Job) -> None:
    try:
        site.project.save()
    except SynthDPError as error:
        job.state, job.error = "failed", str(error)


async def dictionary(site: Site, request: Request) -> Response:
    """Take a public document that says what is known about the columns."""
    path = site.project.file(fields(request).get("file", ""), DOCUMENTS)
    if site.project.state["columns"] is None:
        raise DataError("Wait until the table is read.")
    if path == site.project.table:
        raise DataError("That is the table itself. A data dictionary has a line for every column.")
    site.start("document", {"path": path.name}, at_end=lambda job: _take(site, site.project.state, job))
    return site.go("columns")


def _take(site: Site, state: dict[str, Any], job: Job) -> None:
    """Take over the answers of a document, for the columns that the table has."""
    if job.state != "done":
        return
    known = {one["name"]: one for one in state["columns"]}
    try:
        found = {entry["name"]: from_document(entry) for entry in job.result if entry["name"] in known}
    except SynthDPError as error:
        job.state, job.error = "failed", str(error)
        return
    if not found:
        job.state, job.error = "failed", "The document describes no column of this table: its names are others."
        return
    state["answers"] |= found
    job.about = (len(found), len(job.result) - len(found), len([name for name in known if name not in found]))
    _saved(site, job)


async def unit(site: Site, request: Request) -> Response:
    """Say whom to protect: a row, or a person who may have several."""
    project, typed = site.project, fields(request)
    place, rows = typed.get("unit", ""), typed.get("rows", "1")
    state = project.state
    if place == "":
        state |= {"unit": None, "unit_rows": 1}
    else:
        column = _column(site, place)
        state |= {"unit": int(place), "unit_rows": whole("the most rows of a person", _whole(rows), least=1)}
        state["answers"][column["name"]] = {
            "entry": {"name": column["name"], "type": "identifier"}, "typed": {"how": "name"},
        }  # fmt: skip
    project.save()
    return site.go("table", note="Saved.")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError("Write a whole number in plain digits, such as 30000.") from None


def _column(site: Site, number: str) -> dict[str, Any]:
    columns = site.project.columns
    if not number.isdecimal() or int(number) >= len(columns):
        raise DataError("There is no such column.")
    return columns[int(number)]


async def columns(site: Site, _: Request) -> Response:
    """Show all columns and what was said about each."""
    state = site.project.state
    words = {name: in_words(answer) for name, answer in state["answers"].items()}
    return site.show(
        "columns", columns=site.project.columns, answers=state["answers"], words=words, types=TYPES,
        left=len(site.project.open_columns), job=site.jobs["document"], price=_price(state),
    )  # fmt: skip


def _price(state: dict[str, Any]) -> str:
    """Return what a plan said about the price of open columns."""
    for one in (state["plan"] or {}).get("plans", [])[1:2]:
        if one["like_epsilon"] is not None:
            return str(one["advice"][0])
    return ""


async def column(site: Site, request: Request) -> Response:
    """Show the card of one column; the drawer with its private rows is closed unless it was asked for."""
    number = request.path_params["column"]
    one, state = _column(site, number), site.project.state
    saved = state["answers"].get(one["name"])
    typed = site.said.get("typed") or (saved["typed"] if saved else {})
    job = site.jobs["look"]
    drawer = job if job is not None and job.about["column"] == number and job.state != "stopped" else None
    if drawer is not None and not site.said.get("typed"):
        typed = drawer.about["typed"] or typed
    known = [(name, known_column(name).in_words()) for name in suggested(one["name"])]
    sources = [answer["typed"].get("source", "") for answer in state["answers"].values()]
    return site.show(
        "column", column=one, place=int(number), count=len(site.project.columns), typed=typed, drawer=drawer, known=known,
        ticked=site.said.get("ticked", []), types=TYPES, price=_price(state), saved=saved is not None,
        sources=sorted({source for source in sources if source}),
    )  # fmt: skip


async def answer(site: Site, request: Request) -> Response:
    """Keep what was said about a column, and go to the next one that has no answer."""
    one, state = _column(site, request.path_params["column"]), site.project.state
    made = answer_of(one["name"], fields(request), many(request, "tick"), one["guess"] or {})
    answers = {**state["answers"], one["name"]: made}
    try:
        if any(each["entry"] for each in answers.values()):
            site.project.schema(answers=answers)
    except SchemaError as error:
        raise SchemaError(f"{error} (A rule may speak of this column: change the rule first.)") from None
    before, state["answers"] = state["answers"], answers
    try:
        site.project.save()
    except SynthDPError:
        state["answers"] = before
        raise
    site.jobs.forget("look")
    left = site.project.open_columns
    if not left:
        return site.go("promise", note="Every column has an answer. Rules between columns are optional: see Rules.")
    return site.go(f"columns/{next((i for i in left if i > int(request.path_params['column'])), left[0])}")


async def look(site: Site, request: Request) -> Response:
    """Open the drawer: a child reads the rows of one column; what was typed so far stays in the form."""
    number, state = request.path_params["column"], site.project.state
    one = _column(site, number)
    running = site.jobs["look"]
    if running is not None:
        await running.stop()
    about = {"column": number, "typed": {**fields(request), "ticked": many(request, "tick")}}
    asked = {"path": site.project.table.name, "csv": state["csv"], "name": one["name"]}
    site.start("look", asked, about=about)
    return site.go(f"columns/{number}")


async def hide(site: Site, request: Request) -> Response:
    """Close the drawer, and forget what was in it."""
    running = site.jobs["look"]
    if running is not None:
        await running.stop()
        site.jobs.forget("look")
    return site.go(f"columns/{request.path_params['column']}", typed=fields(request))


async def rules(site: Site, _: Request) -> Response:
    """Show the rules between columns."""
    kept = site.project.state["rules"]
    schema = site.project.schema() if site.project.state["answers"] else None
    said = [] if schema is None else [rule.in_words() for rule in schema.constraints]
    names = [] if schema is None else [
        (i, one["name"]) for i, one in enumerate(site.project.columns) if one["name"] in schema
    ]  # fmt: skip
    return site.show("rules", rules=said, names=names, kinds=KINDS, kept=kept)


async def add_rule(site: Site, request: Request) -> Response:
    """Add a rule, if the schema can hold it."""
    typed, state = fields(request), site.project.state
    names = [_column(site, typed.get(side, ""))["name"] for side in ("first", "second")]
    texts = [typed.get(f"{side}_values", "") for side in ("first", "second")]
    known = site.project.schema()
    if strange := [name for name in names if name not in known]:
        raise SchemaError(f"Column {strange[0]!r} has no answer yet, or is left out.")
    kept = [*state["rules"], rule_of(typed.get("kind", ""), names, texts, known)]
    site.project.schema(rules=kept)
    state["rules"] = kept
    site.project.save()
    return site.go("rules", note="The rule is kept: every synthetic row will obey it.")


async def drop_rule(site: Site, request: Request) -> Response:
    """Take a rule away."""
    place, state = request.path_params["rule"], site.project.state
    state["rules"] = [rule for i, rule in enumerate(state["rules"]) if str(i) != place]
    site.project.save()
    return site.go("rules", note="The rule is gone.")
