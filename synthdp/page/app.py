"""The addresses of the page.  None holds a value, a level, a bound, or a name: columns and files go by numbers."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from synthdp.page import outcome, prepare
from synthdp.page.site import Screen, Site, answered


async def _first(site: Site, _: Request) -> Response:
    """Go to where the answers end: after a crash, to the same card."""
    project = site.project
    if project.current is None or project.state["columns"] is None:
        return site.go("table")
    if project.people is None:
        return site.go("people")
    if project.open_columns:
        return site.go(f"columns/{project.open_columns[0]}")
    return site.go("release" if project.state["key"] else "promise")


async def _progress(site: Site, request: Request) -> Response:
    """Return how far a job is, for the script; once it has ended, that it has."""
    job = site.jobs[request.path_params["job"]]
    if job is None or not job.running:
        return Response(status_code=204)
    return site.show("progress", job=job)


async def _nothing(_: Request, __: Exception) -> Response:
    return PlainTextResponse("There is nothing at this address.", 404)


GET: dict[str, Screen] = {
    "": _first, "table": prepare.table, "people": prepare.people,
    "columns": prepare.columns, "columns/{column}": prepare.column, "rules": prepare.rules,
    "promise": outcome.promise, "release": outcome.release, "publish": outcome.publish,
    "publish/{release}/file/{file}": outcome.file, "publish/{release}/report": outcome.framed,
    "publish/{release}/zip": outcome.packed, "questions": outcome.questions, "ledger": outcome.ledger,
    "progress/{job}": _progress,
}  # fmt: skip
POST: dict[str, tuple[Screen, str]] = {
    "table": (prepare.choose, "table"), "people": (prepare.protect, "people"), "document": (prepare.dictionary, "columns"),
    "missing": (prepare.missing, "columns"),
    "columns/{column}": (prepare.answer, "columns/{column}"), "columns/{column}/look": (prepare.look, "columns/{column}"),
    "columns/{column}/hide": (prepare.hide, "columns/{column}"), "rules": (prepare.add_rule, "rules"),
    "rules/{rule}/drop": (prepare.drop_rule, "rules"), "promise": (outcome.make_plan, "promise"),
    "promise/choose": (outcome.choose_promise, "promise"), "release": (outcome.start_release, "release"),
    "release/stop": (outcome.stop_release, "release"), "publish/{release}/finish": (outcome.finish, "publish"),
    "publish/{release}/compare": (outcome.compare, "publish"), "publish/forget": (outcome.forget_comparison, "publish"),
    "questions": (outcome.ask, "questions"), "ledger": (outcome.set_cap, "ledger"),
}  # fmt: skip
"""What answers each form, and the screen that says why it was refused."""


def application(site: Site) -> Starlette:
    """Return the page as an application; `Guard` stands before it."""
    routes: list[BaseRoute] = [Mount("/static", StaticFiles(packages=[("synthdp.page", "static")]))]
    routes += [Route(f"/{path}", answered(site, screen, "table")) for path, screen in GET.items()]
    routes += [Route(f"/{path}", answered(site, do, back), methods=["POST"]) for path, (do, back) in POST.items()]
    return Starlette(routes=[Mount(site.base, routes=routes)], exception_handlers={404: _nothing, 405: _nothing})
