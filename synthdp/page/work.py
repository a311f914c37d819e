"""What a child process of the page does: one job on private rows or on a release, told on one pipe, answered on another.

Run as ``python -m synthdp.page.work``: a line of JSON on standard input is the request, lines of JSON on standard output are
progress and, last, the result.  The child ends with its job, when it is told to stop, and when the page has gone.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.errors import SynthDPError
from synthdp.progress import Progress
from synthdp.schema.csv_format import CsvFormat

if TYPE_CHECKING:
    from synthdp.tables.source import Source

Tell = Callable[[Progress], None]
Request = dict[str, Any]

UNEXPECTED = (
    "Something happened that synthdp did not expect. What it was is not shown, for it could quote private rows. Whether "
    "anything was spent, the ledger says."
)
NO_SPACE = "The disk is full, or the file would be too large: make room, then try again."
NO_FILE = "A file cannot be read or written: check the folder and its permissions."
NO_MEMORY = "There is not enough memory for this table: close other programs, or leave columns out."

SECONDS_TO_END = 5.0
"""Time that a job has to clear up after it was told to stop."""


def source_of_request(request: Request) -> Source:
    """Return the rows that a request is about, read as its schema or draft says."""
    from synthdp.nonprivate.draft_reading import known_encoding
    from synthdp.tables.sources.files import source_at

    csv = CsvFormat(**request["csv"]) if request.get("csv") else CsvFormat()
    return source_at(request["path"], csv=known_encoding(request["path"], csv))


def read(request: Request, tell: Tell) -> Any:
    """Return names and kinds of the columns; what was read off the rows beyond that stays here."""
    from synthdp.nonprivate.draft_schema import draft_schema

    tell(Progress(stage="reading", done=0, total=1))
    source = source_of_request(request)
    document = draft_schema(source)
    guessed = {entry["name"]: {"type": entry["type"]} | _unit(entry) for entry in document["columns"]}
    left_out = {one["name"]: one["why"] for one in document.get("left_out", [])}
    names = [*source.names, *(name for name in left_out if name not in source.names)]
    return {
        "columns": [{"name": name, "guess": guessed.get(name), "why": left_out.get(name)} for name in names],
        "csv": document.get("csv"),
    }


def _unit(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("resolution", "zone") if key in entry}


def document(request: Request, tell: Tell) -> Any:
    """Return what a public document says of the columns: a JSON Schema, or a data dictionary."""
    from synthdp.schema.public_documents import from_data_dictionary, from_json_schema
    from synthdp.tables.documents import document_lines, document_text

    tell(Progress(stage="document", done=0, total=1))
    path = Path(request["path"])
    if path.suffix.lower() == ".json":
        said = "the JSON Schema"
        return from_json_schema(document_text(path, said), source=said)["columns"]
    said = "the data dictionary"
    return from_data_dictionary(document_lines(path, said, CsvFormat()), source=said)["columns"]


def plan(request: Request, tell: Tell) -> Any:
    """Return plans, one for each epsilon."""
    from synthdp.planning.dry_run import plan as planned
    from synthdp.schema.schema import Schema

    found = planned(
        Schema.from_json(json.dumps(request["schema"])), rows=request["rows"], epsilon=request["epsilons"],
        delta=request["delta"], neighbors=request["neighbors"], max_rows_per_unit=request["max_rows_per_unit"],
        on_progress=tell,
    )  # fmt: skip
    return [one.to_document() for one in (found if isinstance(found, list) else [found])]


def look(request: Request, tell: Tell) -> Any:
    """Return a private look at one column."""
    from synthdp.nonprivate.look import look as looked

    tell(Progress(stage="reading", done=0, total=1))
    source = source_of_request(request)
    return asdict(looked(source, request["name"], CsvFormat(**request["csv"]) if request.get("csv") else None))


def release(request: Request, tell: Tell) -> Any:
    """Release the rows and write the folder to publish; the ledger is charged once under the request's key."""
    from synthdp.curator.curator import Ledger
    from synthdp.estimators.synthetic_release import SyntheticRelease
    from synthdp.publishing import Places, publish
    from synthdp.schema.schema import Schema
    from synthdp.tables.sources.files import source_at

    schema = Schema.from_json(json.dumps(request["schema"]))
    folder, path = Path(request["folder"]), Path(request["path"])
    places = Places.within(folder)
    places.check(inputs=[path, Path(request["ledger"])])
    made = SyntheticRelease(
        schema=schema, epsilon=request["epsilon"], delta=request["delta"], neighbors=request["neighbors"],
        privacy_unit=request["privacy_unit"], max_rows_per_unit=request["max_rows_per_unit"],
        ledger=Ledger(request["ledger"], key=request["key"], note=request["note"]), dataset=request["dataset"],
        random_state=request.get("seed"), on_progress=tell,
    )  # fmt: skip
    source = source_at(path, csv=schema.csv or CsvFormat())
    return {"rows": publish(source, made, places, escape_formulas=True, on_progress=tell)}


def results(request: Request, tell: Tell) -> Any:
    """Write the files of a release that was saved but not finished; nothing is spent."""
    from synthdp.publishing import Places, write_results
    from synthdp.storage import load

    places = Places.within(Path(request["folder"]))
    made = load(Path(request["folder"]) / "release")
    return {"rows": write_results(made, places, escape_formulas=True, on_progress=tell)}


def answer(request: Request, tell: Tell) -> Any:
    """Answer a question from a release."""
    import synthdp
    from synthdp.storage import load

    tell(Progress(stage="answer", done=0, total=1))
    made = load(Path(request["folder"]) / "release")
    columns, where = request["columns"], request["where"] or None
    match request["kind"]:
        case "marginal":
            question: Any = synthdp.marginal(*columns)
        case "count":
            question = synthdp.count(where)
        case "mean":
            question = synthdp.mean(columns[0], where=where)
        case _:
            question = synthdp.quantile(columns[0], (0.25, 0.5, 0.75), where=where)
    table = made.answer(question)
    return {
        "heads": [str(head) for head in table.columns],
        "rows": [[_cell(value) for value in row] for row in table.head(200).itertuples(index=False)],
        "more": max(0, len(table) - 200),
    }


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "missing" if value != value else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return "missing" if value is None else str(value)


def compare(request: Request, tell: Tell) -> Any:
    """Compare the real rows with the published ones.  NOT private."""
    from synthdp.nonprivate.evaluate import nonprivate_evaluate
    from synthdp.schema.schema import Schema
    from synthdp.tables.sources.csv import CsvSource
    from synthdp.tables.sources.files import source_at

    tell(Progress(stage="reading", done=0, total=1))
    schema = Schema.from_json(json.dumps(request["schema"]))
    synthetic = CsvSource(Path(request["folder"]) / "synthetic.csv", escaped_formulas=True)
    schema = schema.part([name for name in schema if name in synthetic.names])
    real = source_at(request["path"], csv=schema.csv or CsvFormat())
    return str(nonprivate_evaluate(real, synthetic, schema, on_progress=tell))


JOBS: dict[str, Callable[[Request, Tell], Any]] = {
    one.__name__: one for one in (read, document, plan, look, release, results, answer, compare)
}


def run(request: Request, tell: Tell) -> dict[str, Any]:
    """Do a job; return its result and the warnings that it gave, or one sentence on why there is none."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = {"result": JOBS[request["job"]](request, tell)}
        except SynthDPError as error:
            result = {"error": str(error)}
        except MemoryError:
            result = {"error": NO_MEMORY}
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
            result = {"error": NO_SPACE if full else NO_FILE}
        except Exception:  # noqa: BLE001 - whatever it says may quote rows
            result = {"error": UNEXPECTED}
    said = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
    return result | {"warnings": list(dict.fromkeys(said))}


class _StoppedError(BaseException):
    """The page asked the job to stop."""


def _stop(*_: object) -> None:
    raise _StoppedError


def _end_with_the_page() -> None:
    """Wait until the page's end of the pipe is closed, then stop, gently first."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_END)
    os._exit(1)


def main() -> None:
    """Serve one request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    signal.signal(signal.SIGTERM, _stop)

    def put(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        request = json.loads(sys.stdin.readline())
        threading.Thread(target=_end_with_the_page, daemon=True).start()
        put(run(request, lambda progress: put({"progress": asdict(progress)})))
    except _StoppedError:
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
