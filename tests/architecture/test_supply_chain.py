"""Where the package comes from: actions pinned by hash, one version, one list of dependencies, a wheel without tests."""

import re
import tomllib
from pathlib import Path

import pytest

import synthdp

pytestmark = pytest.mark.style
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_hash_and_says_its_version(workflow: Path) -> None:
    used = re.findall(r"uses:\s*(.*)", workflow.read_text("utf-8"))
    assert used
    assert [
        one for one in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[\d.]+( .*)?", one.strip())
    ] == []


def test_no_job_may_write_the_repository() -> None:
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert "contents: write" not in workflow.read_text("utf-8")


def test_the_citation_has_the_version_of_the_package() -> None:
    assert f"\nversion: {synthdp.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_the_package() -> None:
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8")
    assert f'version: "{PROJECT["version"]}"' in recipe
    run = recipe.partition("  run:")[2].partition("\n\n")[0]
    listed = {line.replace(" ", "") for line in re.findall(r"- (.*)", run)}
    assert listed == {f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]}
