"""The work of a child process of the page: one job on private rows or on a release.

Run as ``python -m synthdp.page.work``: a line of JSON on standard input is the request.  Lines of JSON on standard
output are progress and, last, the result.  The child ends with its job, at SIGTERM, and when the page ends.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.errors import SynthDPError
from synthdp.progress import Progress
from synthdp.schema.csv_format import CsvFormat

if TYPE_CHECKING:
    from synthdp.publishing import Places
    from synthdp.tables.source import Source

Tell = Callable[[Progress], None]
"""The job's callback for progress."""
Request = dict[str, Any]
"""A job's request, as a JSON object."""

UNEXPECTED = (
    "Something happened that synthdp did not expect. What it was is not shown, for it could quote private rows. Whether "
    "anything was spent, the ledger says."
)
"""Text of an unexpected error, whose own text could quote private rows."""

NO_SPACE = "The disk is full, or the file would be too large: make room, then try again."
"""Text of the error for a full disk."""

NO_FILE = "A file cannot be read or written: check the folder and its permissions."
"""Text of the error for a file that cannot be read or written."""

NO_MEMORY = "There is not enough memory for this table: close other programs, or leave columns out."
"""Text of the error for too little memory."""

BOARD, SUMS, REPORT = "for-the-board", "SHA256SUMS", "report.html"
"""Names in a release's folder: the folder for a board, its file of checksums, and its report."""

MOST_LINES = 200
"""Rows of an answer that the page shows, at most.  A safety limit of space."""

SECONDS_TO_END = 5.0
"""Seconds that a job has to clean up after it was stopped.  A safety limit of time."""


def reason_of(error: OSError) -> str:
    """Return the text for an operating-system error; it contains no file name."""
    return NO_SPACE if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT) else NO_FILE


def source_of_request(request: Request) -> Source:
    """Return the rows of a request as a source, read in the request's format."""
    from synthdp.tables.sources.file_source import source_at

    return source_at(request["path"], csv=CsvFormat(**request.get("csv") or {}), sheet=request.get("sheet"))


def read(request: Request, tell: Tell) -> Any:
    """Return the table's "columns", with name, guess and why, the file's "csv" format and "sheets", and "uneven" rows.

    A guess holds type, resolution and zone; "why" is the reason to leave a column out; "uneven" is a number.  Other
    results of the draft, such as bounds and levels, are private and are left out.
    """
    from synthdp.nonprivate.draft_schema import draft_schema
    from synthdp.nonprivate.look import count_uneven

    tell(Progress(stage="reading", done=0, total=1))
    source = source_of_request(request)
    document = draft_schema(source)
    guessed = {
        entry["name"]: {key: entry[key] for key in ("type", "resolution", "zone") if key in entry}
        for entry in document["columns"]
    }
    left_out = {one["name"]: one["why"] for one in document.get("left_out", [])}
    names = dict.fromkeys([*source.names, *left_out])
    return {
        "columns": [{"name": name, "guess": guessed.get(name), "why": left_out.get(name)} for name in names],
        "csv": document.get("csv"),
        "sheets": list(getattr(source, "sheets", ())),
        "uneven": count_uneven(source),
    }


def document(request: Request, tell: Tell) -> Any:
    """Return the schema entries in a public document, a JSON Schema or a data dictionary, as a list of dicts."""
    from synthdp.schema.public_documents import from_data_dictionary, from_json_schema
    from synthdp.tables.sources.file_source import document_lines, document_text

    tell(Progress(stage="document", done=0, total=1))
    path = Path(request["path"])
    if path.suffix.lower() == ".json":
        said = "the JSON Schema"
        found = from_json_schema(document_text(path, said), source=said)["columns"]
        return [entry if entry["type"] == "identifier" else {"nullable": False} | entry for entry in found]
    said = "the data dictionary"
    return from_data_dictionary(document_lines(path, said, CsvFormat()), source=said)["columns"]


def plan(request: Request, tell: Tell) -> Any:
    """Return "plans", a document for each epsilon, the recommended epsilon, "chosen", its "reasons", and a "picture".

    The picture is an SVG text of the plans' expected errors.
    """
    from synthdp.planning.dry_run import plan as planned
    from synthdp.planning.plan import accuracy_chart, recommended
    from synthdp.schema.schema import schema_given

    asked = {name: request[name] for name in ("rows", "epsilon", "delta", "neighbors", "max_rows_per_unit")}
    plans: Any = planned(schema_given(request["schema"]), **asked, on_progress=tell)
    chosen, reasons = recommended(plans)
    told = {"chosen": chosen.epsilon, "reasons": list(reasons), "picture": str(accuracy_chart(plans))}
    return {"plans": [one.to_document() for one in plans], **told}


def look(request: Request, tell: Tell) -> Any:
    """Return a look at the rows of one column as a dict: "missing", "bars", "levels" and "rarer", see `Look`.

    NOT private: it helps the person who declares the column, and is not stored.
    """
    from synthdp.nonprivate.look import look as looked

    tell(Progress(stage="reading", done=0, total=1))
    csv = CsvFormat(**request["csv"]) if request["csv"] else None
    return asdict(looked(source_of_request(request), request["name"], csv))


def propose(request: Request, tell: Tell) -> Any:
    """Return rules that one column is at most another, which nearly all rows obey, as a list of dicts.

    Each has the "rule" as a document, its "words", and "kept", a comment with the number of rows that obey it.  NOT
    private.
    """
    from synthdp.nonprivate.draft_rules import proposed_rules
    from synthdp.schema.schema import schema_given

    tell(Progress(stage="reading", done=0, total=1))
    schema = schema_given(request["schema"])
    found = []
    for rule in proposed_rules(source_of_request(request), dict(schema.items())):
        comment = rule.pop("comment")
        if (
            rule["rule"] == "less_equal"
        ):  # what follows from another column is a list of values, which no click declares
            found.append({"rule": rule, "words": f"{rule['left']} is never above {rule['right']}", "kept": comment})
    return found


def release(request: Request, tell: Tell) -> Any:
    """Release the rows and write the published files; return "rows", "verdicts" and "relations".

    "rows" is the number of synthetic rows; the others are texts on columns and on significant relations.  The ledger is
    charged once for the request's key.
    """
    from synthdp.curator import Ledger
    from synthdp.estimators.synthetic_release import SyntheticRelease
    from synthdp.publishing import publish
    from synthdp.schema.schema import schema_given
    from synthdp.tables.sources.file_source import source_at

    schema, path = schema_given(request["schema"]), Path(request["path"])
    places = _places(Path(request["folder"]))
    places.check(inputs=[path, Path(request["ledger"])])
    told = ("epsilon", "delta", "neighbors", "privacy_unit", "max_rows_per_unit", "dataset")
    made = SyntheticRelease(
        schema=schema, ledger=Ledger(request["ledger"], key=request["key"], note=request["note"]),
        random_state=request.get("seed"), on_progress=tell, **{name: request[name] for name in told},
    )  # fmt: skip
    source = source_at(path, csv=schema.csv or CsvFormat(), sheet=request.get("sheet"))
    rows = publish(source, made, places, escape_formulas=True, on_progress=tell)
    _for_the_board(made.release_, places.table, rows, request["about"], tell)
    return {"rows": rows, **_judged(made.release_)}


def _places(folder: Path) -> Places:
    """Return the paths of a release's files without the report, which `_for_the_board` writes."""
    from synthdp.publishing import Places

    return replace(Places.within(folder), report=None)


def _for_the_board(release: Any, table: Path, rows: int, about: dict[str, str], tell: Tell) -> None:
    """Write the folder for a board, as `synthdp publish` does, and copy its report next to the synthetic rows.

    No budget is spent.  ``about`` holds the publisher's statements by the fields of `About`.
    """
    import datetime as dt
    import shutil

    from synthdp.dossier import write_folder
    from synthdp.publishing import whole_file
    from synthdp.report.guidelines import About

    texts: dict[str, Any] = {**about}
    said = About(date=dt.datetime.now(dt.UTC).date().isoformat(), **texts)
    saved = table.with_name("release")
    write_folder(
        release, table.parent / BOARD, about=said, table=table, rows=rows, saved=saved, on_progress=tell
    )  # fmt: skip
    with whole_file(table.with_name(REPORT)) as scratch:
        shutil.copyfile(table.parent / BOARD / REPORT, scratch)


def _judged(release: Any) -> Request:
    """Return the "verdicts" on a release's columns, and its significant "relations", as texts that the page shows.

    A verdict is [column, word, sentence], a relation [column, column, sentence].
    """
    from synthdp.report.verdicts import judged

    verdicts, relations = judged(release)
    return {
        "verdicts": [[one.name, one.word, one.in_words()] for one in verdicts],
        "relations": [[*one.columns, one.in_words()] for one in relations],
    }


def results(request: Request, tell: Tell) -> Any:
    """Write the files of a release that was saved but not finished; return ``{"rows": n}``.

    n is the number of synthetic rows.  No budget is spent, as it reads the saved release alone.
    """
    from synthdp.publishing import write_results
    from synthdp.release import load

    folder = Path(request["folder"])
    made = load(folder / "release")
    places = _places(folder)
    rows = write_results(made, places, escape_formulas=True, on_progress=tell)
    _for_the_board(made, places.table, rows, request["about"], tell)
    return {"rows": rows}


def describe(request: Request, tell: Tell) -> Any:
    """Write the folder for a board again, with new statements of the publisher; return ``{"rows": n}``.

    n is the number of synthetic rows.  No budget is spent, as it reads the saved release alone.
    """
    from synthdp.release import load

    folder = Path(request["folder"])
    made = load(folder / "release")
    rows = int(made.output.rows)  # as many as `release` and `results` draw
    _for_the_board(made, folder / "synthetic.csv", rows, request["about"], tell)
    return {"rows": rows}


def answer(request: Request, tell: Tell) -> Any:
    """Return a release's answer to a question as texts: the "heads" of its columns, and at most `MOST_LINES` "rows".

    "more" is the number of rows that are left out.
    """
    import synthdp

    tell(Progress(stage="answer", done=0, total=1))
    columns, where = request["columns"], request["where"] or None
    ask: dict[str, Callable[[], Any]] = {
        "marginal": lambda: synthdp.marginal(*columns), "count": lambda: synthdp.count(where),
        "mean": lambda: synthdp.mean(columns[0], where=where),
        "quantile": lambda: synthdp.quantile(columns[0], (0.25, 0.5, 0.75), where=where),
    }  # fmt: skip
    table = synthdp.load(Path(request["folder"]) / "release").answer(ask[request["kind"]]())
    rows = [[_cell(value) for value in row] for row in table.head(MOST_LINES).itertuples(index=False)]
    return {"heads": [str(head) for head in table.columns], "rows": rows, "more": max(0, len(table) - MOST_LINES)}


def _cell(value: Any) -> str:
    """Return a value of an answer as text for the page, real numbers with six digits; "missing" for None and NaN."""
    from synthdp.figures import in_figures

    if value is None or value != value:
        return "missing"
    return in_figures(value, digits=6) if isinstance(value, float) else str(value)


def compare(request: Request, tell: Tell) -> Any:
    """Return the text of a comparison of the real rows with the published rows, by the release's schema.

    NOT private.
    """
    from synthdp.nonprivate.evaluate import nonprivate_evaluate
    from synthdp.release import load
    from synthdp.tables.sources.csv import CsvSource

    tell(Progress(stage="reading", done=0, total=1))
    schema = load(Path(request["folder"]) / "release").output.schema
    synthetic = CsvSource(Path(request["folder"]) / "synthetic.csv", escaped_formulas=True)
    return str(nonprivate_evaluate(source_of_request(request), synthetic, schema, on_progress=tell))


JOBS: dict[str, Callable[[Request, Tell], Any]] = {
    one.__name__: one for one in (read, document, plan, look, propose, release, results, describe, answer, compare)
}
"""The functions of all jobs by name."""


def run(request: Request, tell: Tell) -> dict[str, Any]:
    """Return a job's "result" or the text of its "error", and its "warnings", a list of texts.

    Unexpected errors become fixed texts, because their own texts could quote rows.
    """
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = {"result": JOBS[request["job"]](request, tell)}
        except SynthDPError as error:
            result = {"error": str(error)}
        except MemoryError:
            result = {"error": NO_MEMORY}
        except OSError as error:
            result = {"error": reason_of(error)}
        except Exception:  # noqa: BLE001 - whatever it says may quote rows
            result = {"error": UNEXPECTED}
    said = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
    return result | {"warnings": list(dict.fromkeys(said))}


def _end_with_the_page() -> None:
    """Wait until the page closes standard input, then end this process, first by SIGTERM, which clears up.

    No job outlives its page.
    """
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_END)
    os._exit(1)


def main() -> None:
    """Run the one job of this process and write its messages.

    Standard output and error of all libraries are discarded, because they could quote rows.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was begun is cleared up

    def put(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        request = json.loads(sys.stdin.readline())
        threading.Thread(target=_end_with_the_page, daemon=True).start()
        put(run(request, lambda progress: put({"progress": asdict(progress)})))
    except KeyboardInterrupt:
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
