"""Every broken build is noticed by a named test; the table is docs/audit/mutations.md."""

import ast

import mutations
import pytest
from broken_builds.mutation import ROOT


@pytest.mark.style  # they are broken by moves of code, which that run is about; that they are caught is ``slow``
@pytest.mark.parametrize("part", range(8))
def test_every_edit_still_applies_and_names_tests_that_exist(part, tmp_path):
    for mutation in mutations.MUTATIONS[part::8]:
        check_that_it_applies(mutation, tmp_path)


def check_that_it_applies(mutation, tmp_path):
    original = (ROOT / "synthdp" / mutation.file).read_text(encoding="utf-8")
    copy = tmp_path / "synthdp" / mutation.file
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(original, encoding="utf-8")
    mutation.apply(tmp_path)
    changed = copy.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(original)), mutation.name
    compile(changed, mutation.file, "exec")
    for test in mutation.tests:
        path, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), mutation.name


@pytest.mark.style
def test_the_table_in_the_documentation_is_of_these_builds():
    text = (ROOT / "docs" / "audit" / "mutations.md").read_text(encoding="utf-8")
    assert text == mutations.table([True] * len(mutations.MUTATIONS))


@pytest.mark.slow
def test_every_broken_build_is_caught():
    assert mutations.sound()
    tried = [mutation for mutation in mutations.MUTATIONS if mutation.can_be_tried]
    missed = [mutation.name for mutation in tried if not mutations.caught(mutation)]
    assert missed == []
