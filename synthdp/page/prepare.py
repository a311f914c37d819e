"""Screens 1 to 3: the table, what is known about its columns, and rules between them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from synthdp.checks import whole
from synthdp.errors import DataError, SchemaError
from synthdp.page.answers import STEPS, TYPES, answer_of, from_document, in_words, number_of, rule_of
from synthdp.page.jobs import Job
from synthdp.page.project import DOCUMENTS, TABLES
from synthdp.page.site import Site, fields, many, numbered
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
    name = site.project.file(fields(request).get("file", ""), TABLES).name
    if site.jobs.busy:
        raise DataError("Something is still running about the chosen table: wait for its end, or stop it.")
    with site.project.changing() as project:
        project.choose(name)
    site.jobs.forget()
    if project.state["columns"] is not None:
        return site.go("table", note="Your earlier answers about this table are here again.")
    site.jobs.start("read", {"path": name}, at_end=lambda job: _read(site, name, job))
    return site.go("table")


def _read(site: Site, name: str, job: Job) -> None:
    """Keep the names and the kinds of the columns that a child has read."""
    if job.state == "done":
        with site.project.changing() as project:
            project.tables[name] |= job.result


async def dictionary(site: Site, request: Request) -> Response:
    """Take a public document that says what is known about the columns."""
    project = site.project
    path, name = project.file(fields(request).get("file", ""), DOCUMENTS), project.table.name
    if not project.columns:
        raise DataError("Wait until the table is read.")
    if path.name == name:
        raise DataError("That is the table itself. A data dictionary has a line for every column.")
    site.jobs.start("document", {"path": path.name}, at_end=lambda job: _take(site, name, job))
    return site.go("columns")


def _take(site: Site, name: str, job: Job) -> None:
    """Take over the answers of a document, for the columns that the table has."""
    if job.state != "done":
        return
    with site.project.changing() as project:
        known = [one["name"] for one in project.tables[name]["columns"]]
        found = {entry["name"]: from_document(entry) for entry in job.result if entry["name"] in known}
        if not found:
            raise DataError("The document describes no column of this table: its names are others.")
        project.tables[name]["answers"] |= found
        job.about = (len(found), len(job.result) - len(found), len(known) - len(found))


async def unit(site: Site, request: Request) -> Response:
    """Say whom to protect: a row, or a person who may have several."""
    typed = fields(request)
    with site.project.changing() as project:
        state, place = project.state, typed.get("unit", "")
        state |= {"unit": None, "unit_rows": 1}
        if place:
            name = numbered(project.columns, place, "column")["name"]
            rows = whole("the most rows of a person", number_of(typed.get("rows", "")), least=1)
            state |= {"unit": int(place), "unit_rows": rows}
            state["answers"][name] = answer_of(name, {"how": "name"}, [], {})
    return site.go("table", note="Saved.")


async def columns(site: Site, _: Request) -> Response:
    """Show all columns and what was said about each."""
    state = site.project.state
    words = {name: in_words(answer) for name, answer in state["answers"].items()}
    return site.show(
        "columns", columns=site.project.columns, answers=state["answers"], words=words,
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
    number, state = request.path_params["column"], site.project.state
    one, job = numbered(site.project.columns, number, "column"), site.jobs["look"]
    saved = state["answers"].get(one["name"])
    drawer = job if job is not None and job.about["column"] == number and job.state != "stopped" else None
    typed = site.said.get("typed") or (drawer and drawer.about["typed"]) or (saved["typed"] if saved else {})
    known = [(name, known_column(name).in_words()) for name in suggested(one["name"])]
    sources = {answer["typed"].get("source", "") for answer in state["answers"].values()}
    return site.show(
        "column", column=one, place=int(number), count=len(site.project.columns), typed=typed, drawer=drawer, known=known,
        ticked=site.said.get("ticked", []), types=TYPES, steps=STEPS, price=_price(state), saved=saved is not None,
        sources=sorted(sources - {""}),
    )  # fmt: skip


async def answer(site: Site, request: Request) -> Response:
    """Keep what was said about a column, and go to the next one that has no answer."""
    number = request.path_params["column"]
    with site.project.changing() as project:
        one = numbered(project.columns, number, "column")
        made = answer_of(one["name"], fields(request), many(request, "tick"), one["guess"] or {})
        project.state["answers"][one["name"]] = made
        if project.state["rules"]:
            try:
                project.schema()
            except SchemaError as error:
                raise SchemaError(f"{error} (A rule speaks of this column: change the rule first.)") from None
    site.jobs.forget("look")
    left = project.open_columns
    if not left:
        return site.go("promise", note="Every column has an answer. Rules between columns are optional: see Rules.")
    return site.go(f"columns/{next((i for i in left if i > int(number)), left[0])}")


async def look(site: Site, request: Request) -> Response:
    """Open the drawer: a child reads the rows of one column; what was typed so far stays in the form."""
    number, project = request.path_params["column"], site.project
    name = numbered(project.columns, number, "column")["name"]
    await site.jobs.stop("look")
    about = {"column": number, "typed": fields(request)}
    site.jobs.start("look", {"path": project.table.name, "csv": project.state["csv"], "name": name}, about=about)
    return site.go(f"columns/{number}")


async def hide(site: Site, request: Request) -> Response:
    """Close the drawer, and forget what was in it."""
    await site.jobs.stop("look")
    site.jobs.forget("look")
    return site.go(f"columns/{request.path_params['column']}", typed=fields(request))


async def rules(site: Site, _: Request) -> Response:
    """Show the rules between columns."""
    project = site.project
    schema = project.schema() if project.document()["columns"] else None
    held = [name for name, column in schema.items() if not column.names_rows] if schema else []
    names = [(i, one["name"]) for i, one in enumerate(project.columns) if one["name"] in held]
    said = [rule.in_words() for rule in schema.constraints] if schema else []
    return site.show("rules", rules=said, names=names, kinds=KINDS)


async def add_rule(site: Site, request: Request) -> Response:
    """Add a rule, if the schema can hold it."""
    typed = fields(request)
    with site.project.changing() as project:
        names = [numbered(project.columns, typed.get(side, ""), "column")["name"] for side in ("first", "second")]
        texts = [typed.get(f"{side}_values", "") for side in ("first", "second")]
        project.state["rules"].append(rule_of(typed.get("kind", ""), names, texts, project.schema()))
        project.schema()
    return site.go("rules", note="The rule is kept: every synthetic row will obey it.")


async def drop_rule(site: Site, request: Request) -> Response:
    """Take a rule away."""
    with site.project.changing() as project:
        project.state["rules"].remove(numbered(project.state["rules"], request.path_params["rule"], "rule"))
    return site.go("rules", note="The rule is gone.")
