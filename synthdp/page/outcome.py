"""Screens 4 to 8: the promise, the release, what is published, questions, and the ledger."""

from __future__ import annotations

import math
import secrets
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

import synthdp
from synthdp.errors import DataError, ParameterError, SchemaError, SynthDPError
from synthdp.page.answers import number_of
from synthdp.page.guard import REPORT_POLICY
from synthdp.page.jobs import Job
from synthdp.page.site import Site, fields

CARDS = (0.3, 1.0, 3.0)
LARGE = 5.0
"""Epsilons that are offered, and the one above which a second click is asked for."""

FILES = {
    "synthetic.csv": "The synthetic rows", "report.html": "A report about them, with expected accuracy",
    "receipt.json": "What was spent on what, and under which assumptions", "card.html": "The privacy card",
}  # fmt: skip
"""What is published, and what each file is; a file's number is its place here."""

SPENT = {"committed": "spent", "reserved": "started, never finished: counts as spent"}
BLOCK = 1 << 16


def odds(epsilon: float, delta: float) -> float:
    """Return how often a 50:50 guess about one person becomes right at most, as the receipt has it."""
    return min(1.0, 1 / (1 + math.exp(-epsilon)) + delta)


def _fresh(site: Site) -> dict[str, Any] | None:
    """Return the plan, if nothing was answered otherwise since."""
    plan = site.project.state["plan"]
    return plan if plan is not None and plan["digest"] == _asked(site) else None


def _asked(site: Site) -> str:
    """Return the digest of everything but the epsilon that is chosen last."""
    state = site.project.state
    promise = state["promise"]
    state["promise"] = {**promise, "epsilon": None}
    try:
        return site.project.digest()
    except SchemaError:
        return ""
    finally:
        state["promise"] = promise


async def promise(site: Site, _: Request) -> Response:
    """Show what each epsilon means, and once a plan is there, how good the release would be."""
    state, plan = site.project.state, _fresh(site)
    told = state["promise"]
    shown = [one["epsilon"] for one in plan["plans"]] if plan else list(CARDS)
    cards = [
        {"epsilon": epsilon, "odds": odds(epsilon, told["delta"]), "plan": plan["plans"][i] if plan else None}
        for i, epsilon in enumerate(shown)
    ]
    return site.show(
        "promise", cards=cards, promise=told, plan=plan, stale=state["plan"] is not None and plan is None, large=LARGE,
        job=site.jobs["plan"], left=site.left(), open_columns=len(site.project.open_columns), unit=site.project.unit(),
    )  # fmt: skip


async def make_plan(site: Site, request: Request) -> Response:
    """Start to plan: a rehearsal on made-up rows, which reads none and spends nothing."""
    typed, state = fields(request), site.project.state
    rows, delta = number_of(typed.get("rows", "")), number_of(typed.get("delta", "") or "1e-9")
    if not isinstance(rows, int) or not 1 <= rows <= 10**9:
        raise ParameterError("About how many rows the table has must be a whole number, from 1 to 1 000 000 000.")
    if not 0 <= delta < 0.01:
        raise ParameterError("Delta must be 0 or a very small number, such as 1e-9.")
    neighbors = typed.get("neighbors", "add_remove")
    if neighbors not in ("add_remove", "replace_one"):
        raise ParameterError("Choose what the promise hides.")
    free = [number_of(typed["epsilon"])] if typed.get("epsilon", "").strip() else []
    if any(not 0.001 <= one <= 100 for one in free):
        raise ParameterError("Epsilon must be a number from 0.001 to 100.")
    state["promise"] = {"epsilon": None, "delta": delta, "neighbors": neighbors, "rows": rows}
    asked, digest = site.project.request(), _asked(site)
    site.project.save()
    epsilons = sorted({*CARDS, *map(float, free)})
    running = site.jobs["plan"]
    if running is not None:
        await running.stop()
    site.start(
        "plan", {**asked, "rows": rows, "epsilons": epsilons}, at_end=lambda job: _planned(site, state, digest, job)
    )
    return site.go("promise")


def _planned(site: Site, state: dict[str, Any], digest: str, job: Job) -> None:
    if job.state == "done":
        state["plan"] = {"digest": digest, "plans": job.result}
        try:
            site.project.save()
        except SynthDPError as error:
            job.state, job.error = "failed", str(error)


async def choose_promise(site: Site, request: Request) -> Response:
    """Take one epsilon of the plan; a large one is asked for twice."""
    state, plan, typed = site.project.state, _fresh(site), fields(request)
    if plan is None:
        raise ParameterError("The answers were changed since the plan: plan again.")
    chosen = [one["epsilon"] for one in plan["plans"] if f"{one['epsilon']:g}" == typed.get("choice")]
    if not chosen:
        raise ParameterError("Choose one of the epsilons that were planned.")
    if chosen[0] > LARGE and typed.get("sure") != "yes":
        return site.go("promise", confirm=chosen[0])
    state["promise"]["epsilon"] = chosen[0]
    state["key"] = {"number": secrets.token_hex(8), "digest": site.project.digest()}
    site.project.save()
    return site.go("release")


def _button(site: Site) -> str:
    """Return the number of the plan that may be released now; none if there is no such plan, or it was spent."""
    state = site.project.state
    key = state["key"]
    if key is None or _fresh(site) is None or key["digest"] != site.project.digest():
        return ""
    return "" if site.ledger().entries(key=key["number"]) else str(key["number"])


async def release(site: Site, _: Request) -> Response:
    """Show what would be released, or how far the release is."""
    project, state, job = site.project, site.project.state, site.jobs["release"]
    key, plan = _button(site), _fresh(site)
    book, last = site.ledger(), state["releases"][-1] if state["releases"] else None
    entries = [] if last is None else book.entries(key=last["key"])
    chosen = [one for one in plan["plans"] if one["epsilon"] == state["promise"]["epsilon"]] if plan else []
    schema = project.schema() if state["answers"] and not project.open_columns else None
    return site.show(
        "release", key=key, job=job, plan=chosen[0] if chosen else None, promise=state["promise"], schema=schema,
        odds=odds(state["promise"]["epsilon"] or 0.0, state["promise"]["delta"]), left=site.left(), unit=project.unit(),
        unit_rows=state["unit_rows"], out=len(project.columns) - (len(schema.outputs) if schema else 0), last=last,
        entry=entries[0] if entries else None, spent=SPENT, place=len(state["releases"]) - 1,
        finished=last is not None and _state(site, last) == "finished",
    )  # fmt: skip


async def start_release(site: Site, request: Request) -> Response:
    """Spend and release, once for each plan: what comes a second time finds the running job, or a spent plan."""
    typed, project, state = fields(request), site.project, site.project.state
    running = site.jobs["release"]
    if running is not None and running.running:
        return site.go("release", note="This release is running already. It was not started again.")
    number = typed.get("key", "")
    if not number or number != _button(site):
        raise ParameterError("This plan was released already, or something was changed since: plan again.")
    folder, promise = project.places(), state["promise"]
    record = {"key": number, "folder": folder.name, "epsilon": promise["epsilon"], "state": "running", "rows": None}
    note = " ".join(typed.get("note", "").split())[:200] or "a release made on the page"
    request_ = project.request() | {
        "path": project.table.name, "folder": folder.name, "ledger": project.ledger.name, "dataset": project.current,
        "key": number, "note": note, "epsilon": promise["epsilon"],
    }  # fmt: skip
    state["releases"].append(record)
    try:
        project.save()
    except SynthDPError:
        state["releases"].pop()
        raise
    site.jobs.forget("results", "answer", "compare")
    site.start("release", request_, at_end=lambda job: _released(site, record, job))
    return site.go("release")


def _released(site: Site, record: dict[str, Any], job: Job) -> None:
    record["state"] = job.state
    record["rows"] = (job.result or {}).get("rows")
    try:
        site.project.save()
    except SynthDPError as error:
        job.warnings.append(str(error))


async def stop_release(site: Site, _: Request) -> Response:
    """End the child that releases; what it spent by then, the ledger says."""
    running = site.jobs["release"]
    if running is not None:
        await running.stop()
    return site.go("release")


def _folder(site: Site, record: dict[str, Any]) -> Path:
    """Return the folder of a release, inside the folder of the page."""
    folder = site.project.folder / str(record["folder"])
    if folder.is_symlink() or folder.resolve().parent != site.project.folder:
        raise DataError("The folder of this release is not inside the folder of the page any more.")
    return folder


def _state(site: Site, record: dict[str, Any]) -> str:
    """Return what is there of a release: finished, saved without its pages, or nothing."""
    folder = _folder(site, record)
    if all(_file(folder, name) is not None for name in FILES):
        return "finished"
    return "saved" if (folder / "release" / "release.json").is_file() else "nothing"


def _file(folder: Path, name: str) -> Path | None:
    path = folder / name
    return path if path.is_file() and not path.is_symlink() else None


def _record(site: Site, number: str) -> dict[str, Any]:
    releases = site.project.state["releases"]
    if not number.isdecimal() or int(number) >= len(releases):
        raise DataError("There is no such release.")
    return dict(releases[int(number)])


async def publish(site: Site, _: Request) -> Response:
    """Show what was released, and its files."""
    book, made = site.ledger(), []
    for i, record in enumerate(site.project.state["releases"]):
        entries = book.entries(key=record["key"])
        made.append({**record, "place": i, "there": _state(site, record), "entry": entries[0] if entries else None})
    return site.show(
        "publish",
        releases=made[::-1],
        files=FILES,
        spent=SPENT,
        job=site.jobs["results"],
        compared=site.jobs["compare"],
    )


async def finish(site: Site, request: Request) -> Response:
    """Write the pages of a release that was saved without them; nothing is spent."""
    record = _record(site, request.path_params["release"])
    site.start("results", {"folder": _folder(site, record).name})
    return site.go("publish")


async def compare(site: Site, request: Request) -> Response:
    """Compare with the real rows, in a child: private, and only on request."""
    place = request.path_params["release"]
    folder = _folder(site, _record(site, place))
    asked = {"path": site.project.table.name, "schema": site.project.document(), "folder": folder.name}
    site.start("compare", asked, about=place)
    return site.go("publish")


async def forget_comparison(site: Site, _: Request) -> Response:
    """Forget what a comparison found."""
    if (job := site.jobs["compare"]) is not None:
        await job.stop()
        site.jobs.forget("compare")
    return site.go("publish")


async def file(site: Site, request: Request) -> Response:
    """Hand out one published file, by its number."""
    folder, place = _folder(site, _record(site, request.path_params["release"])), request.path_params["file"]
    names = list(FILES)
    path = _file(folder, names[int(place)]) if place.isdecimal() and int(place) < len(names) else None
    if path is None:
        raise DataError("There is no such file.")
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


async def framed(site: Site, request: Request) -> Response:
    """Show the report in a frame that may run nothing."""
    path = _file(_folder(site, _record(site, request.path_params["release"])), "report.html")
    if path is None:
        raise DataError("There is no report.")
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


async def packed(site: Site, request: Request) -> Response:
    """Hand out all published files as one."""
    folder = _folder(site, _record(site, request.path_params["release"]))
    if any(_file(folder, name) is None for name in FILES):
        raise DataError("The folder of this release is not finished.")
    file = await run_in_threadpool(_zipped, folder)

    def blocks() -> Any:
        with file:
            while block := file.read(BLOCK):
                yield block

    there = {"content-disposition": 'attachment; filename="synthetic.zip"'}
    return StreamingResponse(blocks(), media_type="application/zip", headers=there)


def _zipped(folder: Path) -> Any:
    """Return the published files, and nothing else that may be in their folder, as one."""
    file = tempfile.SpooledTemporaryFile(32 * 2**20)  # noqa: SIM115 - who reads it closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            with (folder / name).open("rb") as source, archive.open(name, "w") as target:
                shutil.copyfileobj(source, target)
    file.seek(0)
    return file


async def questions(site: Site, _: Request) -> Response:
    """Show a form for questions about the last release, and the answer to the last one."""
    record = _last(site)
    names = [(i, one["name"]) for i, one in enumerate(site.project.columns)] if record else []
    return site.show("questions", names=names, record=record, job=site.jobs["answer"])


def _last(site: Site) -> dict[str, Any] | None:
    releases = [one for one in site.project.state["releases"] if _state(site, one) != "nothing"]
    return releases[-1] if releases else None


async def ask(site: Site, request: Request) -> Response:
    """Ask the last release; that costs nothing."""
    record, typed = _last(site), fields(request)
    if record is None:
        raise DataError("There is no release to ask yet.")
    kind = typed.get("kind", "")
    if kind not in ("count", "mean", "quantile", "marginal"):
        raise ParameterError("Choose a kind of question.")
    chosen = [typed.get("first", ""), typed.get("second", "")]
    columns = [site.project.columns[int(place)]["name"] for place in chosen if place.isdecimal()]
    if kind == "count" and not typed.get("where", "").strip():
        raise ParameterError("Write which rows to count, such as age >= 40.")
    if kind != "count" and not columns:
        raise ParameterError("Choose a column.")
    about = {"kind": kind, "columns": list(dict.fromkeys(columns)), "where": typed.get("where", "").strip()}
    running = site.jobs["answer"]
    if running is not None:
        await running.stop()
    site.start("answer", {**about, "folder": _folder(site, record).name}, about={**about, "typed": typed})
    return site.go("questions")


async def ledger(site: Site, _: Request) -> Response:
    """Show what was spent on the current table, and on the others."""
    book = site.ledger()
    names = sorted({*book.datasets(), *([site.project.current] if site.project.current else [])})
    shown = [(name, book.entries(name), book.cap(name), book.left(name), book.adjacency(name)) for name in names]
    return site.show("ledger", books=shown, spent=SPENT)


async def set_cap(site: Site, request: Request) -> Response:
    """Set the most that may ever be spent on the current table: the only thing that this screen writes."""
    typed, name = fields(request), site.project.table.name
    epsilon, delta = number_of(typed.get("epsilon", "")), number_of(typed.get("delta", "") or "0")
    state = site.project.state
    declared = {"neighbors": state["promise"]["neighbors"], "privacy_unit": site.project.unit()}
    known = site.ledger().adjacency(name) is not None
    site.ledger().set_cap(name, synthdp.ApproxDP(float(epsilon), float(delta)), **({} if known else declared))
    return site.go("ledger", note="The cap is set. A release that does not fit under it will be refused.")
