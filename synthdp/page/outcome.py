"""Screens 5 to 9 of `SCREENS`: the promise, the release, its publication, questions, and the ledger."""

from __future__ import annotations

import math
import secrets
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

import synthdp
from synthdp.checks import check_number, whole
from synthdp.errors import DataError, ParameterError
from synthdp.page.asking import number_of
from synthdp.page.guard import REPORT_POLICY
from synthdp.page.jobs import Job
from synthdp.page.site import Site, fields, numbered
from synthdp.page.work import BOARD, SUMS
from synthdp.privacy.loss import LARGE_EPSILON, best_odds
from synthdp.privacy.neighbors import neighbors_named

CARDS = (0.1, 0.3, 1.0, 3.0)
"""Epsilons for which the page plans: half a power of ten apart, up to the first value of docs/how-to/choose-epsilon.md.
A convention."""

ELSEWHERE = (
    ("Google's trends of searches for symptoms, of each day", "1.68"),
    ("Google's searches about vaccination, of each day", "2.19"), ("Israel's registry of live births, 2014", "9.98"),
)  # fmt: skip
"""Published tables of others and their epsilons, for comparison with a planned epsilon.

Sources are the abstracts of the publishers' papers: arXiv:2009.01265, arXiv:2107.01179 (delta 1e-5) and
arXiv:2405.00267.  Units and deltas differ.
"""

FILES = {
    "synthetic.csv": "The synthetic rows", "report.html": "A report about them, with expected accuracy",
    "receipt.json": "What was spent on what, and under which assumptions", "card.html": "The privacy card",
}  # fmt: skip
"""Published files with their descriptions; an address names a file by its position here."""

SPENT = {"committed": "spent", "reserved": "started, never finished: counts as spent", "returned": "not spent"}
"""The page's texts for the states of a ledger entry."""

ABOUT = {
    "title": "Title of the table", "publisher": "Who publishes it", "region": "Which region it describes",
    "use": "What it is meant for", "contact": "Whom a reader may ask about it",
}  # fmt: skip
"""The page's labels for five fields of `synthdp.report.guidelines.About`, which only a publisher can fill in."""

LONGEST_WORDS = 200
"""Characters of a note or of a field of `ABOUT`, at most, so that each stays one line in a ledger or a file. A safety
limit."""

QUESTIONS = {
    "mean": "What is the mean of a column?", "quantile": "What are the quartiles of a column?",
    "marginal": "How many rows have each value?", "count": "How many rows meet a condition?",
}  # fmt: skip
"""The page's texts for the kinds of questions about a release."""

BLOCK = 1 << 16
"""Bytes of a file that are sent in one piece.  A safety limit of memory."""

LEAST_EPSILON, MOST_EPSILON, MOST_DELTA = 0.001, 100, 0.01
"""Least and largest epsilon, and largest delta, that the forms take.  Safety limits: numbers beyond are typing errors."""

LEAST_RELEASES = 1000
"""Smallest number of releases whose deltas fit under a new cap.  A safety limit: the default delta of 1e-9 then adds up
to 1e-6."""


async def promise(site: Site, _: Request) -> Response:
    """Show the meaning of each epsilon, and the expected accuracy after a plan was made."""
    project, plan = site.project, site.project.plan
    told = project.state["promise"]
    plans = {one["epsilon"]: one for one in plan["plans"]} if plan else dict.fromkeys(CARDS)
    cards = [{"epsilon": one, "odds": best_odds(one, told["delta"]), "plan": plans[one]} for one in plans]
    chosen, reasons, picture = (plan.get(key) for key in ("chosen", "reasons", "picture")) if plan else (None, (), "")
    return site.show(
        "promise", cards=cards, chosen=chosen, reasons=reasons, picture=picture, elsewhere=ELSEWHERE,
        promise=told, plan=plan, stale=project.state["plan"] is not None and plan is None,
        job=site.jobs["plan"], left=site.left(), open_columns=len(project.open_columns), unit=project.unit(),
    )  # fmt: skip


async def make_plan(site: Site, request: Request) -> Response:
    """Start a plan: a child process rehearses the release on made-up rows; no budget is spent."""
    typed = fields(request)
    rows = whole("the number of rows", number_of(typed.get("rows", "")), least=1, most=10**9)
    delta = number_of(typed.get("delta", "") or "1e-9")
    check_number("delta", delta, least=0, below=MOST_DELTA)
    free = number_of(typed.get("epsilon", "").strip() or "1")
    check_number("epsilon", free, least=LEAST_EPSILON, most=MOST_EPSILON)
    neighbors = neighbors_named(typed.get("neighbors", "add_remove")).value
    with site.project.changing() as project:
        told = {"epsilon": None, "delta": delta, "neighbors": neighbors, "rows": rows}
        project.state.update(promise=told, key=None)
        name, digest = project.table.name, project.digest()
    await site.jobs.stop("plan")
    asked = {**project.request(), "rows": rows, "epsilon": sorted({*CARDS, float(free)})}
    site.jobs.start("plan", asked, at_end=lambda job: _planned(site, name, digest, job))
    return site.go("promise")


def _planned(site: Site, name: str, digest: str, job: Job) -> None:
    """Save the plan of a finished job, with the digest of the answers that it used."""
    if job.state == "done":
        with site.project.changing() as project:
            project.tables[name].update(plan={"digest": digest, **job.result})


async def choose_promise(site: Site, request: Request) -> Response:
    """Save the chosen epsilon of the plan; a large epsilon needs a confirmation first.

    A new key then permits one release.
    """
    plan, typed = site.project.plan, fields(request)
    if plan is None:
        raise ParameterError("The answers were changed since the plan: plan again.")
    offered = {f"{one['epsilon']:g}": one["epsilon"] for one in plan["plans"]}
    if typed.get("choice") not in offered:
        raise ParameterError("Choose one of the epsilons that were planned.")
    epsilon = offered[typed["choice"]]
    if epsilon > LARGE_EPSILON and typed.get("sure") != "yes":
        return site.go("promise", confirm=epsilon)
    with site.project.changing() as project:
        project.state["promise"]["epsilon"] = epsilon
        project.state["key"] = secrets.token_hex(8)
    return site.go("release")


def _release_key(site: Site) -> str:
    """Return the key that the form's release button sends; the ledger accepts a key once, so a plan is released once.

    Return "" if the plan is stale, spent, or not chosen: the form then has no button.
    """
    key = site.project.state["key"]
    if key is None or site.project.plan is None or site.ledger.entries(key=key):
        return ""
    return str(key)


async def release(site: Site, _: Request) -> Response:
    """Show the planned release, or the progress of a running release."""
    project, state = site.project, site.project.state
    promise, plan = state["promise"], project.plan
    last = _told(site, state["releases"][-1]) if state["releases"] else None
    chosen = [one for one in plan["plans"] if one["epsilon"] == promise["epsilon"]] if plan else []
    schema = project.schema() if chosen else None
    return site.show(
        "release", key=_release_key(site), job=site.jobs["release"], plan=chosen[0] if chosen else None, promise=promise,
        schema=schema, odds=best_odds(promise["epsilon"] or 0.0, promise["delta"]), left=site.left(), unit=project.unit(),
        unit_rows=state["unit_rows"], uncapped=site.ledger.cap(project.people or "?") is None,
        out=len(project.columns) - (len(schema.outputs) if schema else 0), last=last,
        spent=SPENT,
    )  # fmt: skip


async def start_release(site: Site, request: Request) -> Response:
    """Start the release in a child process, once for each plan; it spends budget.

    A repeated request finds the running job, or a spent key.
    """
    typed, running = fields(request), site.jobs["release"]
    if running is not None and running.running:
        return site.go("release", note="This release is running already. It was not started again.")
    key = typed.get("key", "")
    if not key or key != _release_key(site):
        raise ParameterError("This plan was released already, or an answer was changed after it: plan again.")
    if site.ledger.cap(str(site.project.people)) is None:
        _cap_before_the_first_spend(site, typed.get("cap", ""))
    with site.project.changing() as project:
        name, folder, epsilon = project.table.name, project.places().name, project.state["promise"]["epsilon"]
        record = {"key": key, "folder": folder, "epsilon": epsilon, "state": "running", "rows": None}
        project.state["releases"].append(record)
    note = _line(typed.get("note", "")) or "a release made on the page"
    told = {
        "path": name,
        "sheet": project.state["sheet"],
        "folder": folder,
        "ledger": project.ledger.name,
        "dataset": project.people,
        "key": key,
        "note": note,
        "about": site.project.about(),
    }
    asked = {**project.request(), **told, "epsilon": epsilon}
    site.jobs.forget("results", "describe", "answer", "compare")
    site.jobs.start("release", asked, at_end=lambda job: _released(site, name, key, job))
    return site.go("release")


def _line(text: str) -> str:
    """Return typed text as one line of at most `LONGEST_WORDS` characters, so that it fits in a ledger and a file."""
    return " ".join(text.split())[:LONGEST_WORDS]


def _cap_before_the_first_spend(site: Site, text: str) -> None:
    """Set the cap on the budget of the table's people before the first release, to the epsilon typed in ``text``.

    The cap's delta has room for all releases like the first that fit under its epsilon, and for at least
    `LEAST_RELEASES`.
    """
    promise = site.project.state["promise"]
    if not text.strip():
        raise ParameterError("Give the largest ε that all releases about these people together may ever cost.")
    most = float(number_of(text))
    if most < promise["epsilon"]:
        raise ParameterError(f"The cap must cover this release: at least ε = {promise['epsilon']:g}.")
    check_number("the cap", most, least=LEAST_EPSILON, most=MOST_EPSILON)
    _cap(
        site,
        synthdp.ApproxDP(
            most, min(MOST_DELTA, promise["delta"] * max(LEAST_RELEASES, math.ceil(most / promise["epsilon"])))
        ),
    )


def _released(site: Site, name: str, key: str, job: Job) -> None:
    """Save the result of a release job: its state, number of rows, verdicts and relations, for later visits."""
    with site.project.changing() as project:
        for record in project.tables[name]["releases"]:
            if record["key"] == key:
                found = job.result or {}
                record.update(state=job.state, rows=found.get("rows"), verdicts=found.get("verdicts"))
                record.update(relations=found.get("relations"))


async def stop_release(site: Site, _: Request) -> Response:
    """Stop the running release; the ledger has the budget that it spent until then."""
    await site.jobs.stop("release")
    return site.go("release")


def _folder(site: Site, record: dict[str, Any]) -> Path:
    """Return the folder of a release; raise DataError if it is a link or outside of the page's folder.

    A file of answers that somebody changed must not lead to other files.
    """
    folder = site.project.folder / str(record["folder"])
    if folder.is_symlink() or folder.resolve().parent != site.project.folder:
        raise DataError(
            "The folder of this release is a link, or lies outside the folder of the page: move the folder back."
        )
    return folder


def _asked_for(site: Site, request: Request) -> Path:
    """Return the folder of the release whose position is in the address."""
    return _folder(site, numbered(site.project.state["releases"], request.path_params["release"], "release"))


def _is_there(path: Path) -> bool:
    """Return whether a path is a file and no symbolic link, which could lead to private files."""
    return path.is_file() and not path.is_symlink()


def _file(folder: Path, name: str) -> Path:
    """Return the path of a published file; raise DataError if it is missing."""
    if not _is_there(folder / name):
        raise DataError(
            f"The folder '{folder.name}' has no file '{name}', because this release is not finished: "
            "press 'Write them now' on the screen Publish."
        )
    return folder / name


def _told(site: Site, record: dict[str, Any]) -> dict[str, Any]:
    """Return a stored release with its ledger entry, and "there": "finished" with all files, "saved", or "nothing"."""
    folder = _folder(site, record)
    saved = "saved" if _is_there(folder / "release" / "release.json") else "nothing"
    there = "finished" if all(_is_there(folder / name) for name in FILES) else saved
    judged = {"verdicts": record.get("verdicts"), "relations": record.get("relations")}
    return {**record, **judged, "there": there, "entry": next(iter(site.ledger.entries(key=record["key"])), None)}


async def publish(site: Site, _: Request) -> Response:
    """Show all releases with their files, the last release first."""
    made = [{"place": i, **_told(site, record)} for i, record in enumerate(site.project.state["releases"])]
    return site.show(
        "publish",
        releases=made[::-1],
        files=FILES,
        spent=SPENT,
        job=site.jobs["results"],
        describing=site.jobs["describe"],
        about=site.project.about(),
        asked=ABOUT,
        compared=site.jobs["compare"],
    )


async def finish(site: Site, request: Request) -> Response:
    """Start a job that writes the missing files of a saved release; no budget is spent."""
    site.jobs.start("results", {"folder": _asked_for(site, request).name, "about": site.project.about()})
    return site.go("publish")


async def describe(site: Site, request: Request) -> Response:
    """Save the publisher's statements about the table, and start a job that writes them into the folder for a board.

    A board decides whether the rows may be published; `synthdp publish` writes the same folder.  No budget is
    spent.
    """
    typed, folder = fields(request), _asked_for(site, request)
    _file(folder, "synthetic.csv")
    with site.project.changing() as project:
        project.state["about"] = {name: words for name in ABOUT if (words := _line(typed.get(name, "")))}
    await site.jobs.stop("describe")
    site.jobs.start("describe", {"folder": folder.name, "about": site.project.state["about"]}, about=folder.name)
    return site.go("publish")


async def compare(site: Site, request: Request) -> Response:
    """Start a child process that compares a release with the real rows.  The result is private."""
    project, folder = site.project, _asked_for(site, request).name
    asked = {**project.rows(), "folder": folder}
    site.jobs.start("compare", asked, about=request.path_params["release"])
    return site.go("publish")


async def forget_comparison(site: Site, _: Request) -> Response:
    """Stop the comparison and delete its result from memory."""
    await site.jobs.stop("compare")
    site.jobs.forget("compare")
    return site.go("publish")


async def file(site: Site, request: Request) -> Response:
    """Send one published file, by its position in `FILES`."""
    path = _file(_asked_for(site, request), numbered(list(FILES), request.path_params["file"], "file"))
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


async def framed(site: Site, request: Request) -> Response:
    """Send the report for a frame in which no script runs."""
    path = _file(_asked_for(site, request), "report.html")
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


async def packed(site: Site, request: Request) -> Response:
    """Send all published files as one ZIP file."""
    folder = _asked_for(site, request)
    files = {name: _file(folder, name) for name in FILES} | _of_the_board(folder)
    zipped = await run_in_threadpool(_zipped, files)
    blocks = iter(lambda: zipped.read(BLOCK), b"")
    there = {"content-disposition": 'attachment; filename="synthetic.zip"'}
    return StreamingResponse(blocks, 200, there, "application/zip", BackgroundTask(zipped.close))


def _of_the_board(folder: Path) -> dict[str, Path]:
    """Return the files for a board by name in the archive: the checksums and the files that the checksums name.

    Links out of the folder are left out.
    """
    sums = folder / BOARD / SUMS
    if (folder / BOARD).is_symlink() or not _is_there(sums):
        return {}
    names = [SUMS, *(line.partition("  ")[2] for line in sums.read_text(encoding="utf-8").splitlines())]
    paths = {f"{BOARD}/{name}": folder / BOARD / name for name in names}
    inside = (folder / BOARD).resolve()
    return {name: path for name, path in paths.items() if _is_there(path) and path.resolve().is_relative_to(inside)}


def _zipped(paths: dict[str, Path]) -> Any:
    """Return an open file with a ZIP archive of the given files, which the reader must close.

    An archive of up to 32 MB stays in memory, a larger one is a temporary file.
    """
    file = tempfile.SpooledTemporaryFile(32 * 2**20)  # noqa: SIM115 - who reads it closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in paths.items():
            archive.write(path, name)
    file.seek(0)
    return file


async def questions(site: Site, _: Request) -> Response:
    """Show the form for questions about the last release, and the last answer."""
    folder, job = _last(site), site.jobs["answer"]
    names = [(i, one["name"]) for i, one in enumerate(site.project.columns)]
    return site.show("questions", names=names, folder=folder, job=job, kinds=QUESTIONS)


def _last(site: Site) -> str | None:
    """Return the folder name of the last release that can answer questions, or None."""
    told = [_told(site, record) for record in site.project.state["releases"]]
    return next((str(one["folder"]) for one in reversed(told) if one["there"] != "nothing"), None)


async def ask(site: Site, request: Request) -> Response:
    """Start a job that answers a question from the last release; no budget is spent."""
    folder, typed = _last(site), fields(request)
    if folder is None:
        raise DataError("There is no release yet: make a release before you ask a question.")
    kind, where = typed.get("kind", ""), typed.get("where", "").strip()
    if kind not in QUESTIONS:
        raise ParameterError("Choose a kind of question.")
    chosen = [place for side in ("first", "second") if (place := typed.get(side, ""))]
    columns = list(dict.fromkeys(numbered(site.project.columns, place, "column")["name"] for place in chosen))
    if kind == "count" and not where:
        raise ParameterError("Write which rows to count, such as age >= 40.")
    if kind == "marginal" and where:
        raise ParameterError("'How many rows have each value?' is answered for all rows only: leave the condition out.")
    if kind != "count" and not columns:
        raise ParameterError("Choose a column.")
    await site.jobs.stop("answer")
    asked = {"kind": kind, "columns": columns, "where": where, "folder": folder}
    site.jobs.start("answer", asked, about=typed)
    return site.go("questions")


async def ledger(site: Site, _: Request) -> Response:
    """Show the spent budget of the current table's people, and of all others in the ledger."""
    book, own = site.ledger, site.project.people if site.project.current else None
    names = sorted({*book.datasets(), *([own] if own else [])})
    tables = {name: [file for file, state in site.project.tables.items() if state["people"] == name] for name in names}
    return site.show("ledger", book=book, names=names, spent=SPENT, own=own, tables=tables)


def _cap(site: Site, most: synthdp.ApproxDP) -> None:
    """Set the cap on the budget of the current table's people."""
    name = site.project.people
    if name is None:
        raise DataError("Choose first who is protected.")
    promised = {"neighbors": site.project.state["promise"]["neighbors"], "privacy_unit": site.project.unit()}
    site.ledger.set_cap(name, most, **promised)


async def set_cap(site: Site, request: Request) -> Response:
    """Set the cap on the budget of the current table's people, from the ledger's form."""
    typed = fields(request)
    epsilon, delta = number_of(typed.get("epsilon", "")), number_of(typed.get("delta", "") or "0")
    _cap(site, synthdp.ApproxDP(float(epsilon), float(delta)))
    return site.go("ledger", note="The cap is set. A release that does not fit under it will be refused.")
