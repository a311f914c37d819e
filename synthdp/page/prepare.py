"""The first screens: the table, the protected persons, the declarations of columns, and rules between columns."""

from __future__ import annotations

import copy
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from synthdp.checks import whole
from synthdp.errors import DataError, SchemaError
from synthdp.page.asking import (
    SHORT,
    STEPS,
    TYPES,
    answer_of,
    from_document,
    from_short,
    in_short,
    in_words,
    number_of,
    rule_of,
)
from synthdp.page.jobs import Job
from synthdp.page.project import DOCUMENTS, TABLES
from synthdp.page.site import Site, fields, many, numbered
from synthdp.schema.known_columns import known_column, suggested

MOST_IN_SHEET = 500
"""Columns in the sheet, at most: three fields each stay below `guard.MOST_FIELDS`.  A safety limit."""

KINDS = {
    "less_equal": "is never above", "implies": "then, whenever it has these values, this one has those",
    "forbidden": "never has these values together with those of",
}  # fmt: skip
"""The page's texts for the kinds of rules."""


async def table(site: Site, _: Request) -> Response:
    """Show the files of the folder that can be tables, and the chosen table."""
    project = site.project
    chosen = None if project.current is None else project.state
    return site.show("table", files=project.listed(TABLES), state=chosen, job=site.jobs["read"])


async def choose(site: Site, request: Request) -> Response:
    """Make a file, or another sheet of the chosen file, the current table, and start a job that reads its columns."""
    typed = fields(request)
    name = site.project.table.name if "sheet" in typed else site.project.file(typed.get("file", ""), TABLES).name
    if site.jobs.busy:
        raise DataError("A job about the chosen table is still running: wait for its end, or stop it.")
    with site.project.changing() as project:
        project.choose(name)
        if "sheet" in typed and not project.take_sheet(typed["sheet"]):
            return site.go("table", note="This sheet is the table already.")
    site.jobs.forget()
    if project.state["columns"] is not None:
        return site.go("table", note="Your earlier answers about this table are here again.")
    site.jobs.start("read", project.rows(), at_end=lambda job: _read(site, name, job))
    return site.go("table")


def _read(site: Site, name: str, job: Job) -> None:
    """Save names and kinds of the columns from the job; counts from the rows are private, so shown but not saved."""
    if job.state == "done":
        with site.project.changing() as project:
            project.tables[name] |= {key: job.result[key] for key in ("columns", "csv", "sheets")}


async def dictionary(site: Site, request: Request) -> Response:
    """Start a job that reads the declarations of columns from a public document."""
    project = site.project
    path, name = project.file(fields(request).get("file", ""), DOCUMENTS), project.table.name
    if not project.columns:
        raise DataError("Wait until the table is read.")
    if path.name == name:
        raise DataError(f"'{name}' is the table itself: choose a data dictionary, which has one line per column.")
    site.jobs.start("document", {"path": path.name}, at_end=lambda job: _take(site, name, job))
    return site.go("columns")


def _take(site: Site, name: str, job: Job) -> None:
    """Save the answers of a public document for the columns of the table; raise DataError if no column matches.

    ``job.about`` gets three numbers for the screen: answers taken, entries without a column, columns without an entry.
    """
    if job.state != "done":
        return
    with site.project.changing() as project:
        known = [one["name"] for one in project.tables[name]["columns"]]
        found = {entry["name"]: from_document(entry) for entry in job.result if entry["name"] in known}
        if not found:
            raise DataError(
                "The document names no column of this table: choose a document with the column names of the table."
            )
        project.tables[name]["answers"] |= found
        job.about = (len(found), len(job.result) - len(found), len(known) - len(found))


def _earlier(site: Site) -> list[str]:
    """Return the names of all people in the ledger or in other tables of the folder, sorted.

    A table about any of these shares their budget.
    """
    others = [state["people"] for name, state in site.project.tables.items() if name != site.project.current]
    return sorted({*site.ledger.datasets(), *filter(None, others)})


def _is_spent(site: Site) -> bool:
    """Return whether budget was spent on the current table; its people cannot change then."""
    return any(site.ledger.entries(key=record["key"]) for record in site.project.state["releases"])


async def people(site: Site, _: Request) -> Response:
    """Show the form on who is protected, and whether an earlier table is about these people too."""
    project = site.project
    if not project.columns:
        return site.go("table", error="Choose a table first.")
    state, earlier = project.state, _earlier(site)
    saved = {"protects": "", "unit": "", "rows": "", "same": ""}
    if project.people is not None:
        place = state["unit"]
        saved |= {"protects": "row"} if place is None else {"protects": "person", "unit": str(place)}
        saved |= {"rows": str(state["unit_rows"]) if place is not None else ""}
    chosen = project.people if project.people in earlier else project.alike() if project.people is None else None
    saved["same"] = str(earlier.index(chosen)) if chosen in earlier else "new" if project.people else ""
    return site.show(
        "people", state=state, typed=site.said.get("typed") or saved, earlier=list(enumerate(earlier)), book=site.ledger,
        alike=project.alike(), spent=_is_spent(site),
    )  # fmt: skip


async def protect(site: Site, request: Request) -> Response:
    """Save who is protected, a row or a person with several rows, and the people whose budget is spent."""
    typed = fields(request)
    with site.project.changing() as project:
        if not project.columns:
            raise DataError("Choose a table first.")
        found: dict[str, Any] = {"unit": None, "unit_rows": 1}
        name = None
        if typed.get("protects") == "person":
            if not typed.get("unit"):
                raise DataError("Choose the column that names the person.")
            name = numbered(project.columns, typed["unit"], "column")["name"]
            if not typed.get("rows", "").strip():
                raise DataError("Say how many rows of each person are used at most.")
            found = {
                "unit": int(typed["unit"]),
                "unit_rows": whole("the most rows of a person", number_of(typed["rows"]), least=1),
            }
        elif typed.get("protects") != "row":
            raise DataError(
                "Say what one row is. No answer is set in advance, because the answer decides what is promised to a person."
            )
        whose = _whose(site, typed.get("same", ""))
        if _is_spent(site) and whose != project.people:
            raise DataError(
                "This table was released already, so you cannot change your answer about whose people these are: choose the "
                "answer that you gave for that release."
            )
        counted = site.ledger.adjacency(whose)
        if counted is not None and counted.unit != name and site.ledger.entries(whose):
            unit = "each row" if counted.unit is None else f"each value of {counted.quoted_unit}"
            raise DataError(f"Earlier releases about these people protect {unit}: protect {unit} here too.")
        if name is not None:
            project.state["answers"][name] = answer_of(name, {"how": "name"}, [], {})
        project.state.update(found, people=whose)
    return site.go("columns")


def _whose(site: Site, same: str) -> str:
    """Return the name of the people that a form selects; ``same`` is a position in `_earlier`, "new", or "" for nothing.

    For "new" and "", the table keeps its people if no other table or ledger entry has them; for "" also if their budget
    was spent on this table.  A new name is the table's own, with a number if the name is taken.  Raise
    DataError for "" if there are earlier people.
    """
    earlier, project = _earlier(site), site.project
    if same not in ("", "new"):
        return numbered(earlier, same, "table")
    if project.people is not None and (project.people not in earlier or (not same and _is_spent(site))):
        return project.people
    if earlier and not same:
        raise DataError("Say whether the people of this table are the people of an earlier table.")
    own = str(project.current)
    return next(one for one in (own, *(f"{own} ({i})" for i in range(2, len(earlier) + 3))) if one not in earlier)


async def missing(site: Site, request: Request) -> Response:
    """Save the texts of the file that mean a missing value."""
    typed = fields(request).get("codes", "")
    codes = list(dict.fromkeys(filter(None, (part.strip() for line in typed.splitlines() for part in line.split("|")))))
    with site.project.changing() as project:
        project.state["missing"] = codes
        if project.document()["columns"]:
            project.schema()
    return site.go("columns", note="Kept: these texts count as missing." if codes else "Kept: no code means missing.")


async def columns(site: Site, _: Request) -> Response:
    """Show all columns with their answers."""
    state = site.project.state
    words = {name: in_words(answer) for name, answer in state["answers"].items()}
    typed, short = (
        site.said.get("typed", {}),
        [in_short(state["answers"].get(one["name"])) for one in site.project.columns],
    )
    shown = [typed.get(f"what-{i}", text) for i, text in enumerate(short)]
    return site.show(
        "columns", shown=shown, types=TYPES, typed=typed, short=SHORT, most=MOST_IN_SHEET,
        earlier=list(enumerate(_told(site))), columns=site.project.columns, answers=state["answers"], words=words,
        left=len(site.project.open_columns), job=site.jobs["document"], price=_price(state), missing=state["missing"],
        texts=state["csv"] is not None, unprotected=site.project.unprotected(),
        documents=[one for one in site.project.listed(DOCUMENTS) if one[1] != site.project.current],
    )  # fmt: skip


def _told(site: Site) -> list[tuple[str, int]]:
    """Return each other table with answers about columns of this table, and the number of such columns.

    The page offers to take these answers over.
    """
    own = {one["name"] for one in site.project.columns}
    found = [
        (name, len(own & set(state["answers"])))
        for name, state in sorted(site.project.tables.items())
        if name != site.project.current
    ]
    return [(name, common) for name, common in found if common]


async def recall(site: Site, request: Request) -> Response:
    """Copy the answers about another table to the unanswered columns of this table, with rules and missing texts."""
    name, _ = numbered(_told(site), fields(request).get("table", ""), "table")
    with site.project.changing() as project:
        state, other = project.state, project.tables[name]
        own = {one["name"] for one in project.columns}
        taken = {key: answer for key, answer in other["answers"].items() if key in own and key not in state["answers"]}
        state["answers"] |= copy.deepcopy(taken)
        state["missing"] = list(dict.fromkeys([*state["missing"], *other["missing"]]))
        kept = set(project.document()["columns"] and project.schema())
        for rule in other["rules"]:
            if rule not in state["rules"] and _columns_of(rule) <= kept:
                state["rules"].append(copy.deepcopy(rule))
        project.schema()
    return site.go("columns", note=f"{len(taken)} columns were answered as before. Is all of it still true?")


def _columns_of(rule: dict[str, Any]) -> set[str]:
    """Return the names of the columns in a rule's document; a table must have them all to take the rule over."""
    parts = [rule.get(part, {}) for part in ("when", "then", "values")]
    return {name for part in parts for name in part} | {rule[side] for side in ("left", "right") if side in rule}


async def sheet(site: Site, request: Request) -> Response:
    """Save the typed answers about many columns at once; empty and unchanged fields change nothing."""
    typed = fields(request)
    changed = 0
    with site.project.changing() as project:
        answers = project.state["answers"]
        for i, one in enumerate(project.columns[:MOST_IN_SHEET]):
            text, kind, saved = typed.get(f"what-{i}", "").strip(), typed.get(f"type-{i}", ""), answers.get(one["name"])
            before = {} if saved is None else saved["typed"]
            complete = typed.get(f"complete-{i}", "")
            same = saved is not None and (before.get("type", kind), before.get("complete", "")) == (kind, complete)
            if not text or (same and text == in_short(saved)):
                continue
            try:
                form = from_short(text, before) | {"type": kind, "complete": complete}
                form["source"] = form.get("source") or typed.get("source", "")
                answers[one["name"]] = answer_of(one["name"], form, [], one["guess"] or {})
            except SchemaError as error:
                raise SchemaError(f"{one['name']}: {error}") from None
            changed += 1
        if project.state["rules"]:
            project.schema()
    return site.go("columns", note=f"{changed} column{'' if changed == 1 else 's'} saved.")


def _price(state: dict[str, Any]) -> str:
    """Return the plan's sentence on the price of undeclared columns at epsilon 1, as a reason to declare them.

    Return "" without a plan or without undeclared columns.
    """
    for one in (state["plan"] or {}).get("plans", []):
        if one["epsilon"] == 1 and one["like_epsilon"] is not None:
            return str(one["advice"][0])
    return ""


async def column(site: Site, request: Request) -> Response:
    """Show the form of one column; its private values are shown only after a request by `look`."""
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
        sources=sorted(sources - {""}), texts=state["csv"] is not None,
    )  # fmt: skip


async def answer(site: Site, request: Request) -> Response:
    """Save the answer about a column, and redirect to the next column without an answer."""
    number = request.path_params["column"]
    with site.project.changing() as project:
        one = numbered(project.columns, number, "column")
        made = answer_of(one["name"], fields(request), many(request, "tick"), one["guess"] or {})
        project.state["answers"][one["name"]] = made
        if project.state["rules"]:
            try:
                project.schema()
            except SchemaError as error:
                raise SchemaError(f"{error} (A rule names this column: change the rule first.)") from None
    site.jobs.forget("look")
    left = project.open_columns
    if not left:
        return site.go("promise", note="Every column has an answer. Rules between columns are optional: see Rules.")
    return site.go(f"columns/{next((i for i in left if i > int(number)), left[0])}")


async def look(site: Site, request: Request) -> Response:
    """Start a child process that reads the private values of one column, to show them next to its form.

    Typed fields stay in the form.
    """
    number, project = request.path_params["column"], site.project
    name = numbered(project.columns, number, "column")["name"]
    await site.jobs.stop("look")
    about = {"column": number, "typed": fields(request)}
    site.jobs.start("look", {**project.rows(), "name": name}, about=about)
    return site.go(f"columns/{number}")


async def hide(site: Site, request: Request) -> Response:
    """Hide the private values of a column, and delete them from memory."""
    await site.jobs.stop("look")
    site.jobs.forget("look")
    return site.go(f"columns/{request.path_params['column']}", typed=fields(request))


async def rules(site: Site, _: Request) -> Response:
    """Show the declared rules, the found rules, and the form for a new rule."""
    project = site.project
    schema = project.schema() if project.document()["columns"] else None
    held = [name for name, column in schema.items() if not column.names_rows] if schema else []
    names = [(i, one["name"]) for i, one in enumerate(project.columns) if one["name"] in held]
    said = [rule.in_words() for rule in schema.constraints] if schema else []
    return site.show(
        "rules", rules=said, names=names, kinds=KINDS, proposed=site.jobs["propose"], known=project.state["rules"]
    )


async def propose_rules(site: Site, _: Request) -> Response:
    """Start a child process that finds rules that nearly all rows obey; it declares none."""
    project = site.project
    site.jobs.start("propose", {**project.rows(), "schema": project.document()})
    return site.go("rules")


async def forget_proposals(site: Site, _: Request) -> Response:
    """Delete the found rules from memory."""
    await site.jobs.stop("propose")
    site.jobs.forget("propose")
    return site.go("rules")


async def take_proposal(site: Site, request: Request) -> Response:
    """Declare a found rule, because a person confirms that it holds by its meaning."""
    job = site.jobs["propose"]
    found = job.result if job is not None and job.state == "done" else []
    with site.project.changing() as project:
        project.state["rules"].append(numbered(found, request.path_params["rule"], "rule")["rule"])
        project.schema()
    return site.go("rules", note="The rule is kept: every synthetic row will obey it.")


async def add_rule(site: Site, request: Request) -> Response:
    """Declare a typed rule, if the schema accepts it."""
    typed = fields(request)
    with site.project.changing() as project:
        names = [numbered(project.columns, typed.get(side, ""), "column")["name"] for side in ("first", "second")]
        texts = [typed.get(f"{side}_values", "") for side in ("first", "second")]
        project.state["rules"].append(rule_of(typed.get("kind", ""), names, texts, project.schema()))
        project.schema()
    return site.go("rules", note="The rule is kept: every synthetic row will obey it.")


async def drop_rule(site: Site, request: Request) -> Response:
    """Remove a declared rule."""
    with site.project.changing() as project:
        project.state["rules"].remove(numbered(project.state["rules"], request.path_params["rule"], "rule"))
    return site.go("rules", note="The rule is gone.")
