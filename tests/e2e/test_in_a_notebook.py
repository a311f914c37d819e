"""What a notebook shows of a release is a page, not the text of one."""

from __future__ import annotations

import re

import pandas as pd

import synthdp as sd


def test_a_fitted_release_shows_its_diagram_and_its_receipt_and_no_style_sheet_as_text() -> None:
    made = sd.SyntheticRelease(schema=sd.Schema({"a": sd.Boolean()}))
    pages = [made._html_repr(), made.fit(pd.DataFrame({"a": [True, False] * 50}))._html_repr()]
    for page in pages:
        assert not re.search("&lt;(style|div|table)", page)
        text = re.sub(r"(?s)<(style|script).*?</\1>|<[^>]*>", "", page)
        assert not re.search(r"\{[^{}]*:[^{}]*;[^{}]*\}", text)  # a rule of a style sheet
    assert "add or remove one row" in pages[1]
