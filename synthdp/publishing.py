"""From private rows to published files: one function, which the command line and the page both call.

Each file is written completely or not at all, in the format that its ending names.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import synthdp as sd
from synthdp.errors import DataError, FormatError, ParameterError, tell_of_budget
from synthdp.files import replacing, writing
from synthdp.privacy.receipt import Receipt
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import RandomState
from synthdp.release import Release, load, save
from synthdp.release_files import check_place, fingerprint
from synthdp.report import write_report
from synthdp.report.card import privacy_card
from synthdp.report.html_page import card_page
from synthdp.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The paths of the files of a release; ``None`` for a file that is not wanted.

    Parameters
    ----------
    table
        The synthetic rows, csv or parquet by ending.
    release
        A folder for the release itself, which can be sampled and asked again.
    receipt, card
        The receipt and the privacy card; text, JSON or HTML by ending.
    report
        A page about the release, HTML.
    """

    table: Path
    release: Path | None = None
    receipt: Path | None = None
    card: Path | None = None
    report: Path | None = None

    @classmethod
    def within(cls, folder: Path) -> Self:
        """Return the paths of all files in one folder to publish, under standard names."""
        return cls(
            table=folder / "synthetic.csv", release=folder / "release", receipt=folder / "receipt.json",
            card=folder / "card.html", report=folder / "report.html",
        )  # fmt: skip

    def check(self, *, inputs: Iterable[Path | None]) -> None:
        """Raise an error for impossible output paths, such as an input file, before anything is read or spent.

        Raises
        ------
        ParameterError
            If the table's path does not end in .csv or .parquet, or an output file is an input or occurs twice.
        DataError
            If the path of the release holds something else than a release.
        """
        check_ending(self.table)
        check_places((getattr(self, field.name) for field in fields(self)), inputs=inputs)
        if self.release is not None:
            check_place(self.release)

    @contextmanager
    def opened(self) -> Iterator[Places]:
        """Lend paths of scratch files, by the same names, which move to the real paths after the ``with`` body.

        Scratch files are deleted on an error.  The folder of the release is unchanged, since saving it is complete or
        fails by itself.
        """
        with ExitStack() as stack:
            scratch = {
                field.name: stack.enter_context(whole_file(place))
                for field in fields(self)
                if field.name != "release" and (place := getattr(self, field.name)) is not None
            }
            yield replace(self, **scratch)


def publish(
    source: Any,
    release: sd.SyntheticRelease,
    places: Places,
    *,
    rows: int | None = None,
    escape_formulas: bool = False,
    on_progress: ProgressCallback = silent,
) -> int:
    """Make a release of private rows and write the files to publish; return the number of synthetic rows.

    Files that cannot be written are found before anything is spent.  The release itself is saved as soon as it is paid
    for, so that `write_results` can write the other files again without another spend.  If writing fails and no path
    for the release is given, it is saved beside the table, or else in a folder for temporary files.

    Costs the loss of ``release``, for its neighbours.

    Parameters
    ----------
    source
        The rows.
    release
        The settings; it is fitted.
    places
        Paths of the files.
    rows
        Number of rows of the synthetic table; default: the noisy estimate of the real number.
    escape_formulas
        Whether to defuse texts that a spreadsheet would run.
    on_progress
        Called at each stage after the fit, which has a callback of its own.

    Raises
    ------
    SynthDPError
        In one sentence; after a refused spend no file is left.
    """
    before = getattr(release, "release_", None)
    try:
        with places.opened() as scratch:
            made: Release[Any] = release.fit(source).release_
            if places.release is not None:
                save(made, places.release)
            return _write(
                made, scratch, rows=rows, target=release.target, escape_formulas=escape_formulas,
                random_state=release.random_state, on_progress=on_progress,
            )  # fmt: skip
    except Exception as error:
        paid = getattr(release, "release_", None)
        if paid is not None and paid is not before:
            tell_of_budget(error, kept_in(paid, places.release, beside=places.table), instead=True)
        raise


def kept_in(release: Release[Any], asked: Path | None, *, beside: Path) -> str:
    """Save a paid release whose files could not be written, in the first place that works.

    Return a sentence on how much is spent and where the release is, or that it could be saved nowhere.

    Parameters
    ----------
    release
        The release that was paid for.
    asked
        Folder for the release that the user named, in which it may lie already; ``None`` without one.
    beside
        Path of the file that could not be written.
    """
    place = next((place for place in _safe_places(asked, beside) if _is_saved(release, place)), None)
    where = f"{release.receipt.total} is spent, {release.receipt.record}"
    if place is None:
        return f"{where}; the release could not be saved anywhere"
    return (
        f"{where}; the release is saved in '{place}': `synthdp sample '{place}'` draws rows from it at no further cost"
    )


def written_in(receipt: Receipt, out: Path) -> str:
    """Return the sentence on how much is spent, and that the files in ``out`` are usable, after a later failure."""
    return f"{receipt.total} is spent, {receipt.record}; what was to be written is in '{out}'"


def _safe_places(asked: Path | None, beside: Path) -> Iterator[Path]:
    """Yield paths to save a paid release at, in order: the user's folder for it, beside the table, a temporary folder."""
    if asked is not None:
        yield asked
    yield beside.with_name(beside.name + ".release")
    yield Path(tempfile.mkdtemp(prefix="synthdp-")) / "release"


def _is_saved(release: Release[Any], place: Path) -> bool:
    """Return whether a paid release lies at a path and loads unchanged; save it there first if nothing is there.

    The release is so rescued after a failed write.  After any failure here the caller tries the next place.
    """
    with suppress(Exception):
        if not place.exists():
            save(release, place)
        return fingerprint(load(place)) == fingerprint(release)
    return False


def write_results(
    release: Release[Any],
    places: Places,
    *,
    rows: int | None = None,
    target: str | None = None,
    escape_formulas: bool = False,
    random_state: RandomState = None,
    on_progress: ProgressCallback = silent,
) -> int:
    """Write the files of an existing release, from it alone and at no cost; return the number of synthetic rows."""
    with places.opened() as scratch:
        return _write(
            release, scratch, rows=rows, target=target, escape_formulas=escape_formulas, random_state=random_state,
            on_progress=on_progress,
        )  # fmt: skip


def _write(
    release: Release[Any],
    places: Places,
    *,
    rows: int | None,
    target: str | None,
    escape_formulas: bool,
    random_state: RandomState,
    on_progress: ProgressCallback,
) -> int:
    """Write the table, receipt, card and report of a release, each if it is wanted; return the number of synthetic rows."""
    on_progress(Progress(stage="drawing rows", done=0, total=1))
    count = release.output.rows if rows is None else rows
    release.sample_to(places.table, rows=count, random_state=random_state, escape_formulas=escape_formulas)
    for path in (places.receipt, places.card):
        if path is not None:
            path.write_text(receipt_text(release, path.suffix), encoding="utf-8")
    if places.report is not None:
        known = target if target in release.output.schema.outputs else None
        write_report(release, places.report, target=known, on_progress=on_progress)
    return int(count)


def without_source(schema: Schema) -> tuple[str, ...]:
    """Return the columns whose bounds or levels are declared without a source, to warn the user.

    Bounds that come from the private rows would break the guarantee.
    """
    read = [name for name, column in schema.items() if not column.names_rows and column.quantity != "truth"]
    return tuple(name for name in read if name not in schema.undeclared and schema[name].source is None)


@contextmanager
def whole_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Lend a scratch file that moves to ``path`` at the end of the ``with`` body, and is deleted on an error.

    The folder of ``path`` is made if its parent exists.  Only its owner may read a ``private`` file.
    """
    if path.is_dir():
        raise DataError(f"'{path}' is a folder: give the path of a file")
    new_folder = not path.parent.exists()
    try:
        with writing(path):
            path.parent.mkdir(exist_ok=True)
            with replacing(path, private=private) as scratch:
                try:
                    yield scratch
                except FormatError as error:
                    raise FormatError(str(error).replace(str(scratch), str(path))) from None
    finally:
        if new_folder:
            with suppress(OSError):  # not empty: all went well
                path.parent.rmdir()


def check_places(outputs: Iterable[Path | None], *, inputs: Iterable[Path | None]) -> None:
    """Raise ParameterError if an output file is an input file, such as the private table, or is written twice."""
    taken = {path.resolve(): "read" for path in inputs if path is not None}
    for path in outputs:
        if path is not None:
            if use := taken.get(path.resolve()):
                raise ParameterError(
                    f"'{path}' is already {use} by this command: give another file name for the output"
                )
            taken[path.resolve()] = "written"


def check_ending(path: Path) -> None:
    """Raise ParameterError unless a path ends in .csv or .parquet, the formats of tables."""
    if path.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"'{path}' must end in .csv or .parquet")


def receipt_text(release: Any, ending: str) -> str:
    """Return a release's receipt as text, or receipt and privacy card as JSON or HTML, by a file's ending."""
    if ending == ".html":
        return card_page(release, fingerprint=fingerprint(release))
    if ending != ".json":
        return f"{release.receipt}\n"
    card = privacy_card(release, fingerprint=fingerprint(release))
    return json.dumps({**card.pop("receipt"), "card": card}, indent=1, ensure_ascii=False) + "\n"
