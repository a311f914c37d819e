"""Screens 4 to 8: the promise, the release, what is published, questions, and the ledger."""

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
"""Epsilons that are planned: half a power of ten apart, up to what docs/how-to/choose-epsilon.md begins with."""

ELSEWHERE = (
    ("Google's trends of searches for symptoms, of each day", "1.68"),
    ("Google's searches about vaccination, of each day", "2.19"), ("Israel's registry of live births, 2014", "9.98"),
)  # fmt: skip
"""Epsilons of tables that others published, as the abstracts of their publishers' papers state them: arXiv:2009.01265,
arXiv:2107.01179 (delta 1e-5) and arXiv:2405.00267.  Units and deltas differ."""

FILES = {
    "synthetic.csv": "The synthetic rows", "report.html": "A report about them, with expected accuracy",
    "receipt.json": "What was spent on what, and under which assumptions", "card.html": "The privacy card",
}  # fmt: skip
"""What is published, and what each file is; a file's number is its place here."""

SPENT = {"committed": "spent", "reserved": "started, never finished: counts as spent", "returned": "not spent"}
"""The states of a spend, as the page calls them."""

ABOUT = {
    "title": "Title of the table", "publisher": "Who publishes it", "region": "Which region it describes",
    "use": "What it is meant for", "contact": "Whom a reader may ask about it",
}  # fmt: skip
"""What only a publisher knows, by the fields of `synthdp.report.guidelines.About`, as the page asks for it."""

LONGEST_WORDS = 200
"""Characters of a note or of a field of `ABOUT`, at most.  A safety limit."""

QUESTIONS = {
    "mean": "What is the mean of a column?", "quantile": "What are the quartiles of a column?",
    "marginal": "How many rows have each value?", "count": "How many rows meet a condition?",
}  # fmt: skip
"""The questions that the page offers."""

BLOCK = 1 << 16
"""Bytes of a file that are sent at once.  A safety limit."""

LEAST_RELEASES = 1000
"""Releases for whose delta a cap has room: the default delta of 1e-9 then adds up to 1e-6, a safety limit."""


async def promise(site: Site, _: Request) -> Response:
    """Show what each epsilon means, and once a plan is there, how good the release would be."""
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
    """Start to plan: a rehearsal on made-up rows, which reads none and spends nothing."""
    typed = fields(request)
    rows = whole("the number of rows", number_of(typed.get("rows", "")), least=1, most=10**9)
    delta = number_of(typed.get("delta", "") or "1e-9")
    check_number("delta", delta, least=0, below=0.01)
    free = number_of(typed.get("epsilon", "").strip() or "1")
    check_number("epsilon", free, least=0.001, most=100)
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
    """Keep a plan that is done."""
    if job.state == "done":
        with site.project.changing() as project:
            project.tables[name].update(plan={"digest": digest, **job.result})


async def choose_promise(site: Site, request: Request) -> Response:
    """Take one epsilon of the plan; a large one is asked for twice."""
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


def _button(site: Site) -> str:
    """Return the number of the plan that may be released now; none if there is no such plan, or it was spent."""
    key = site.project.state["key"]
    if key is None or site.project.plan is None or site.ledger.entries(key=key):
        return ""
    return str(key)


async def release(site: Site, _: Request) -> Response:
    """Show what would be released, or how far the release is."""
    project, state = site.project, site.project.state
    promise, plan = state["promise"], project.plan
    last = _told(site, state["releases"][-1]) if state["releases"] else None
    chosen = [one for one in plan["plans"] if one["epsilon"] == promise["epsilon"]] if plan else []
    schema = project.schema() if chosen else None
    return site.show(
        "release", key=_button(site), job=site.jobs["release"], plan=chosen[0] if chosen else None, promise=promise,
        schema=schema, odds=best_odds(promise["epsilon"] or 0.0, promise["delta"]), left=site.left(), unit=project.unit(),
        unit_rows=state["unit_rows"], uncapped=site.ledger.cap(project.people or "?") is None,
        out=len(project.columns) - (len(schema.outputs) if schema else 0), last=last,
        spent=SPENT,
    )  # fmt: skip


async def start_release(site: Site, request: Request) -> Response:
    """Spend and release, once for each plan: what comes a second time finds the running job, or a spent plan."""
    typed, running = fields(request), site.jobs["release"]
    if running is not None and running.running:
        return site.go("release", note="This release is running already. It was not started again.")
    key = typed.get("key", "")
    if not key or key != _button(site):
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
    """Return what was typed as one line that is not too long."""
    return " ".join(text.split())[:LONGEST_WORDS]


def _cap_before_the_first_spend(site: Site, text: str) -> None:
    """Set the cap that a first release asks for; its delta is for all releases like this one that fit."""
    promise = site.project.state["promise"]
    if not text.strip():
        raise ParameterError("Give the largest ε that all releases about these people together may ever cost.")
    most = float(number_of(text))
    if most < promise["epsilon"]:
        raise ParameterError(f"The cap must cover this release: at least ε = {promise['epsilon']:g}.")
    check_number("the cap", most, least=0.001, most=100)
    _cap(
        site,
        synthdp.ApproxDP(most, min(0.01, promise["delta"] * max(LEAST_RELEASES, math.ceil(most / promise["epsilon"])))),
    )


def _released(site: Site, name: str, key: str, job: Job) -> None:
    """Keep what became of a release."""
    with site.project.changing() as project:
        for record in project.tables[name]["releases"]:
            if record["key"] == key:
                found = job.result or {}
                record.update(state=job.state, rows=found.get("rows"), verdicts=found.get("verdicts"))
                record.update(relations=found.get("relations"))


async def stop_release(site: Site, _: Request) -> Response:
    """End the child that releases; what it spent by then, the ledger says."""
    await site.jobs.stop("release")
    return site.go("release")


def _folder(site: Site, record: dict[str, Any]) -> Path:
    """Return the folder of a release, inside the folder of the page."""
    folder = site.project.folder / str(record["folder"])
    if folder.is_symlink() or folder.resolve().parent != site.project.folder:
        raise DataError(
            "The folder of this release is a link, or lies outside the folder of the page: move the folder back."
        )
    return folder


def _asked_for(site: Site, request: Request) -> Path:
    """Return the folder of the release that an address names."""
    return _folder(site, numbered(site.project.state["releases"], request.path_params["release"], "release"))


def _is_there(path: Path) -> bool:
    """Say whether a path is a file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def _file(folder: Path, name: str) -> Path:
    """Return a file that was published."""
    if not _is_there(folder / name):
        raise DataError(
            f"The folder '{folder.name}' has no file '{name}', because this release is not finished: "
            "press 'Write them now' on the screen Publish."
        )
    return folder / name


def _told(site: Site, record: dict[str, Any]) -> dict[str, Any]:
    """Return a release with what the ledger says of it, and what is there: all files, the saved release, or nothing."""
    folder = _folder(site, record)
    saved = "saved" if _is_there(folder / "release" / "release.json") else "nothing"
    there = "finished" if all(_is_there(folder / name) for name in FILES) else saved
    judged = {"verdicts": record.get("verdicts"), "relations": record.get("relations")}
    return {**record, **judged, "there": there, "entry": next(iter(site.ledger.entries(key=record["key"])), None)}


async def publish(site: Site, _: Request) -> Response:
    """Show what was released, and its files."""
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
    """Write the pages of a release that was saved without them; nothing is spent."""
    site.jobs.start("results", {"folder": _asked_for(site, request).name, "about": site.project.about()})
    return site.go("publish")


async def describe(site: Site, request: Request) -> Response:
    """Keep what the publisher says of the table, and write it into the folder for a board; nothing is spent."""
    typed, folder = fields(request), _asked_for(site, request)
    _file(folder, "synthetic.csv")
    with site.project.changing() as project:
        project.state["about"] = {name: words for name in ABOUT if (words := _line(typed.get(name, "")))}
    await site.jobs.stop("describe")
    site.jobs.start("describe", {"folder": folder.name, "about": site.project.state["about"]}, about=folder.name)
    return site.go("publish")


async def compare(site: Site, request: Request) -> Response:
    """Compare with the real rows, in a child: private, and only on request."""
    project, folder = site.project, _asked_for(site, request).name
    asked = {**project.rows(), "folder": folder}
    site.jobs.start("compare", asked, about=request.path_params["release"])
    return site.go("publish")


async def forget_comparison(site: Site, _: Request) -> Response:
    """Forget what a comparison found."""
    await site.jobs.stop("compare")
    site.jobs.forget("compare")
    return site.go("publish")


async def file(site: Site, request: Request) -> Response:
    """Hand out one published file, by its number."""
    path = _file(_asked_for(site, request), numbered(list(FILES), request.path_params["file"], "file"))
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


async def framed(site: Site, request: Request) -> Response:
    """Show the report in a frame that may run nothing."""
    path = _file(_asked_for(site, request), "report.html")
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


async def packed(site: Site, request: Request) -> Response:
    """Hand out all published files as one."""
    folder = _asked_for(site, request)
    files = {name: _file(folder, name) for name in FILES} | _of_the_board(folder)
    zipped = await run_in_threadpool(_zipped, files)
    blocks = iter(lambda: zipped.read(BLOCK), b"")
    there = {"content-disposition": 'attachment; filename="synthetic.zip"'}
    return StreamingResponse(blocks, 200, there, "application/zip", BackgroundTask(zipped.close))


def _of_the_board(folder: Path) -> dict[str, Path]:
    """Return the files that the checksums of the folder for a board name, by their names in an archive."""
    sums = folder / BOARD / SUMS
    if (folder / BOARD).is_symlink() or not _is_there(sums):
        return {}
    names = [SUMS, *(line.partition("  ")[2] for line in sums.read_text(encoding="utf-8").splitlines())]
    paths = {f"{BOARD}/{name}": folder / BOARD / name for name in names}
    inside = (folder / BOARD).resolve()
    return {name: path for name, path in paths.items() if _is_there(path) and path.resolve().is_relative_to(inside)}


def _zipped(paths: dict[str, Path]) -> Any:
    """Return some files, and nothing else that may be in their folder, as one."""
    file = tempfile.SpooledTemporaryFile(32 * 2**20)  # noqa: SIM115 - who reads it closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in paths.items():
            archive.write(path, name)
    file.seek(0)
    return file


async def questions(site: Site, _: Request) -> Response:
    """Show a form for questions about the last release, and the answer to the last one."""
    folder, job = _last(site), site.jobs["answer"]
    names = [(i, one["name"]) for i, one in enumerate(site.project.columns)]
    return site.show("questions", names=names, folder=folder, job=job, kinds=QUESTIONS)


def _last(site: Site) -> str | None:
    """Return the folder of the last release that can be asked."""
    told = [_told(site, record) for record in site.project.state["releases"]]
    return next((str(one["folder"]) for one in reversed(told) if one["there"] != "nothing"), None)


async def ask(site: Site, request: Request) -> Response:
    """Ask the last release; that costs nothing."""
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
    """Show what was spent on the people of the current table, and on others."""
    book, own = site.ledger, site.project.people if site.project.current else None
    names = sorted({*book.datasets(), *([own] if own else [])})
    tables = {name: [file for file, state in site.project.tables.items() if state["people"] == name] for name in names}
    return site.show("ledger", book=book, names=names, spent=SPENT, own=own, tables=tables)


def _cap(site: Site, most: synthdp.ApproxDP) -> None:
    """Set the cap of the people of the current table."""
    name = site.project.people
    if name is None:
        raise DataError("Choose first who is protected.")
    promised = {"neighbors": site.project.state["promise"]["neighbors"], "privacy_unit": site.project.unit()}
    site.ledger.set_cap(name, most, **promised)


async def set_cap(site: Site, request: Request) -> Response:
    """Set the most that may ever be spent on the people of the current table: the only thing that this screen writes."""
    typed = fields(request)
    epsilon, delta = number_of(typed.get("epsilon", "")), number_of(typed.get("delta", "") or "0")
    _cap(site, synthdp.ApproxDP(float(epsilon), float(delta)))
    return site.go("ledger", note="The cap is set. A release that does not fit under it will be refused.")
