"""What is loaded: a default release needs the modules of its own way, and no work's."""

import contextlib
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import synthdp
from synthdp import codec, works
from synthdp.mechanisms.named import named
from synthdp.queries.protocol import KeyStatistic, Statistic
from synthdp.registered import found_at, works as registered_works

MOST_MODULES = 166
"""Of a default release from import to report and plan, packages among them; 166 when last counted, and the aim is 170."""

NOT_NEEDED = (
    "answers.related", "cli", "fit.explicit", "nonprivate", "page", "queries.person_tables",
    "queries.persons", "works",
)  # fmt: skip
"""Folders and modules that a default release of one declared table has no use for."""

SESSION = """
import sys, warnings
warnings.simplefilter("ignore")
import pandas as pd
import synthdp as sd
schema = sd.Schema({"age": sd.Integer(0, 9), "member": sd.Boolean()})
estimator = sd.SyntheticRelease(schema=schema, random_state=0)
estimator.fit(pd.DataFrame({"age": [1, 2, 3, 4] * 50, "member": [True, False] * 100}))
estimator.sample(10)
estimator.answer(sd.mean("age"))
estimator.answer(sd.marginal("age", "member"))
estimator.save("a.release")
sd.load("a.release")
estimator.report("a.html")
estimator.plan(rows=200)
print(*(name for name in sys.modules if name.split(".")[0] == "synthdp"))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The modules of the package that a default fit, sample, answer, save, load, report and plan load."""
    folder = tmp_path_factory.mktemp("session")
    paths = str(Path(synthdp.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {paths!r})\n{SESSION}"
    found = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


@pytest.mark.style
def test_a_default_release_loads_no_work_and_nothing_of_other_ways(loaded: list[str]) -> None:
    unneeded = tuple(f"synthdp.{folder}" for folder in NOT_NEEDED)
    assert [name for name in loaded if f"{name}.".startswith(tuple(f"{one}." for one in unneeded))] == []


@pytest.mark.style
def test_a_default_release_loads_few_modules(loaded: list[str]) -> None:
    assert "synthdp.estimators.synthetic_release" in loaded
    assert len(loaded) <= MOST_MODULES


def test_every_folder_of_works_registers_itself() -> None:
    folders = {one.name for one in pkgutil.iter_modules(works.__path__)}
    assert {work.package for work in registered_works()} == {f"synthdp.works.{name}" for name in folders}


def test_every_named_mechanism_is_where_it_is_said_to_be() -> None:
    places = [one.place for one in named().values()]
    assert len(places) > 4
    assert all(inspect.isclass(found_at(place)) for place in places)


SELECTED = {
    "BoostingScores", "Deviations", "KeyTotal", "ListStatistic", "NetScores", "QueryDistances", "SparseCounts",
}  # fmt: skip
"""Statistics that no release keeps: scores, of which the largest alone is told, and what records' keys are asked."""


@pytest.fixture(scope="module")
def classes() -> set[type]:
    """All classes of the package."""
    for module in pkgutil.walk_packages(synthdp.__path__, "synthdp."):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("synthdp.")]
    found = {one for module in modules for one in vars(module).values() if inspect.isclass(one)}
    return {one for one in found if one.__module__.startswith("synthdp.")}


@pytest.mark.usefixtures("classes")
def test_each_name_in_files_is_listed_with_its_home() -> None:
    """The names that modules give their classes, and the list of the modules' names, are the same."""
    own = {name: form for name, form in codec._BY_NAME.items() if "." not in name}
    assert own.keys() == codec.homes().keys()
    assert len(own) > 50


@pytest.mark.slow
def test_each_home_registers_its_names_by_itself() -> None:
    code = "import sys; sys.path.insert(0, {path!r}); from synthdp.codec import form_named; form_named({name!r})"
    for name in codec.homes():
        run = [sys.executable, "-c", code.format(path=str(Path(synthdp.__file__).parents[1]), name=name)]
        assert subprocess.run(run, check=False, capture_output=True).returncode == 0, name


def test_every_statistic_of_the_package_can_be_saved(classes: set[type]) -> None:
    asked = {one for one in classes if hasattr(one, "bounds") and (hasattr(one, "sums") or hasattr(one, "key_totals"))}
    protocols = {one for one in asked if getattr(one, "_is_protocol", False)}
    assert {Statistic, KeyStatistic} <= protocols
    made = {one for one in asked - protocols if not inspect.isabstract(one)}
    assert {one.__name__ for one in made if one not in codec._BY_KIND} == SELECTED


def test_the_tables_of_works_are_light() -> None:
    """A name is looked up without loading a work: its `__init__` is text."""
    code = (
        "import sys, synthdp.registered as r; r.works(); print(*(m for m in sys.modules if m.startswith('synthdp.')))"
    )
    paths = Path(synthdp.__file__).parents[1]
    found = subprocess.run([sys.executable, "-c", code], cwd=paths, capture_output=True, text=True, check=True)
    names = {
        f"synthdp.works.{one.name}" for one in pkgutil.iter_modules(importlib.import_module("synthdp.works").__path__)
    }
    assert set(found.stdout.split()) == {"synthdp.errors", "synthdp.registered", "synthdp.works"} | names


HELP = """
import sys
from click.testing import CliRunner
from synthdp.cli.main import main
for asked in (["--help"], ["--version"], ["schema", "--help"], ["release", "--help"]):
    assert CliRunner().invoke(main, asked).exit_code == 0
print(*{name.split(".")[0] for name in sys.modules} & {"numpy", "pandas", "scipy", "sklearn", "opendp", "rich", "cvxpy"})
"""


def test_help_and_version_load_no_library_that_only_commands_need() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(synthdp.__file__).parents[1])!r})\n{HELP}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout.split()) == (0, []), found.stderr
