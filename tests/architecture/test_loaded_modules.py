"""What is loaded: a default release needs the modules of its own way, and no work's."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import synthdp
from synthdp import file_forms, works
from synthdp.mechanisms.named import named
from synthdp.registered import found_at, place_of, statistics, works as registered_works

MOST_MODULES = 205
"""Of a default release from import to report and plan, packages among them; 200 when this was written."""

NOT_NEEDED = (
    "answers.related", "cli", "fit.explicit", "fit.moments", "nonprivate", "page", "queries.related", "works",
)  # fmt: skip
"""Folders that a default release of one declared table has no use for."""

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


def test_the_estimator_loads_no_work() -> None:
    code = "import sys, synthdp; synthdp.SyntheticRelease(); print(*(m for m in sys.modules if 'synthdp.works' in m))"
    root = Path(synthdp.__file__).parents[1]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_every_folder_of_works_registers_itself() -> None:
    folders = {one.name for one in pkgutil.iter_modules(works.__path__)}
    assert {work.package for work in registered_works()} == {f"synthdp.works.{name}" for name in folders}


def test_everything_that_is_registered_is_where_it_is_said_to_be() -> None:
    places = [*file_forms.forms().values(), *statistics().values(), *(one.place for one in named().values())]
    assert len(places) > 40
    for place in places:
        kind = found_at(place)
        assert inspect.isclass(kind)
        assert place_of(kind) == place


def test_no_two_saved_classes_have_one_name() -> None:
    own = [*file_forms.OUTPUTS, *file_forms.PARTS]
    places = own + [work.place(one) for work in registered_works() for one in (*work.outputs, *work.parts)]
    assert len(file_forms.forms()) == len(places)


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
    assert set(found.stdout.split()) == {"synthdp.registered", "synthdp.works"} | names


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
