"""What the publisher says of columns: units and meanings from a CSV file, in the dictionary and in the report."""

from pathlib import Path

import pandas as pd
import pytest

import synthdp as sd
from synthdp.errors import DataError, ParameterError
from synthdp.report import report_page
from synthdp.report.dictionary import NOT_SAID, dictionary_rows, read_descriptions
from synthdp.report.guidelines import About

SCHEMA = sd.Schema({"age": sd.Integer(0, 99), "member": sd.Boolean()})


def test_units_and_meanings_are_read_and_empty_cells_say_nothing(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text("column,unit,meaning\nage,years,at last birthday\nmember,,\n", encoding="utf-8-sig")
    assert read_descriptions(file) == ({"age": "years"}, {"age": "at last birthday"})


@pytest.mark.parametrize("text", ["", "name,unit\na,b\n", "column,what\na,b\n"])
def test_a_file_that_describes_no_columns_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(ParameterError, match=r"d\.csv"):
        read_descriptions(tmp_path / "d.csv")
    with pytest.raises(DataError):
        read_descriptions(tmp_path / "none.csv")


def test_the_dictionary_says_what_nobody_said() -> None:
    age, member = dictionary_rows(SCHEMA, units={"age": "years"})
    assert (age["unit"], age["meaning"], member["unit"]) == ("years", NOT_SAID, "")


def test_the_report_shows_what_was_said_escaped_and_no_empty_heads() -> None:
    table = pd.DataFrame({"age": range(100), "member": [True, False] * 50})
    release = sd.SyntheticRelease(schema=SCHEMA, epsilon=3.0, random_state=0).fit(table).release_
    about = About(publisher="An office", use="teaching", units={"age": "<b>years"})
    page = report_page(release, fingerprint="f", about=about)
    assert "Published by An office" in page
    assert "Meant for teaching" in page
    assert "&lt;b&gt;years" in page
    assert '<th scope="col">meaning</th>' not in page
    assert '<th scope="col">unit</th>' in page
