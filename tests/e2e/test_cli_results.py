"""Commands about results: plan, answer, report, nonprivate-evaluate; and the tutorial's three commands, as written."""

import contextlib
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli import main
from synthdp.data import adult, adult_schema

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path, cwd: Path):
    with contextlib.chdir(cwd):
        return CliRunner(catch_exceptions=False).invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tutorial")
    adult().to_csv(path / "adult.csv", index=False)
    adult().head(1500).to_csv(path / "few.csv", index=False)
    adult_schema().write(path / "adult.schema.json")
    return path


@pytest.fixture(scope="module")
def told(folder: Path) -> list[str]:
    """Run the tutorial's commands and return what they print."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- commands -->\s*```sh\n(.*?)\n```", text, re.DOTALL)
    assert block is not None
    commands = block[1].replace("\\\n", " ").splitlines()
    assert len(commands) == 3
    printed = []
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "synthdp"
        result = run(*arguments, cwd=folder)
        assert result.exit_code == 0, result.stderr
        printed.append(result.stdout)
    return printed


def test_the_tutorial_goes_from_a_csv_to_a_published_folder(folder: Path, told: list[str]) -> None:
    published = folder / "published"
    assert {"synthetic.csv", "report.html", "receipt.json"} <= {path.name for path in published.iterdir()}
    receipt = json.loads((published / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["total"]["epsilon"] == 1.0
    assert receipt["card"]["unit_of_privacy"] == "one row of the table"
    assert "Privacy card" in (published / "report.html").read_text(encoding="utf-8")
    assert "adaptive marginals" in told[0]
    assert "standard_error" in told[2]


def test_the_tutorial_shows_the_output_that_its_commands_have(told: list[str]) -> None:
    """Numbers differ from run to run; the words around them do not."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    shown = re.findall(r"<!-- output -->\s*```text\n(.*?)\n```", text, re.DOTALL)
    assert len(shown) == 3
    for output, printed in zip(shown, told, strict=True):
        first = [re.sub(r"[\d.,e+-]+", "#", line).split() for line in (output.splitlines()[0], printed.splitlines()[0])]
        assert first[0] == first[1]


def test_answers_on_the_command_line_are_those_of_the_library(folder: Path, told: list[str]) -> None:
    saved = "published/adult.release"
    result = run("answer", saved, "--count", "age >= 40", "--json", cwd=folder)
    found = json.loads(result.stdout)[0]["estimate"]
    assert found == pytest.approx(sd.load(folder / saved).answer(sd.count("age >= 40"))["estimate"][0])
    assert (
        len(json.loads(run("answer", saved, "--marginal", "age", "sex", "--bins", "5", "--json", cwd=folder).stdout))
        == 10
    )
    assert "0.7500" in run("answer", saved, "--quantile", "age", cwd=folder).stdout
    assert "measured" in run("answer", saved, "--mean", "age", cwd=folder).stdout


def test_a_report_of_a_saved_release_is_the_one_made_with_it(folder: Path, told: list[str]) -> None:
    result = run("report", "published/adult.release", "--out", "again.html", cwd=folder)
    assert result.stdout == "report: again.html\n"
    assert (folder / "again.html").read_bytes() == (folder / "published" / "report.html").read_bytes()


def test_the_nonprivate_comparison_is_stamped(folder: Path, told: list[str]) -> None:
    result = run(
        "nonprivate-evaluate", "few.csv", "published/synthetic.csv", "--schema", "adult.schema.json", "--out", "np.html",
        cwd=folder,
    )  # fmt: skip
    assert result.exit_code == 0
    assert result.stdout.startswith("NON-PRIVATE")
    assert "not for publication" in (folder / "np.html").read_text(encoding="utf-8")


def test_a_plan_for_several_budgets_is_a_curve(folder: Path) -> None:
    result = run(
        "plan", "adult.schema.json", "--rows", 2000, "--epsilon", "0.1", "--epsilon", "3", "--json", cwd=folder
    )
    low, high = json.loads(result.stdout)
    assert low["errors"]["2"] > high["errors"]["2"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("answer", "missing.release", "--marginal", "age"), "missing.release"),
        (("answer", "published/adult.release"), "ask one question"),
        (("answer", "published/adult.release", "age"), "ask one question"),
        (("answer", "published/adult.release", "--count", "age >"), "character 6"),
        (("answer", "published/adult.release", "--count", "age > 3", "sex"), "is no option"),
        (("report", "published/adult.release", "--out", "no/such/page.html"), "cannot be written"),
        (("plan", "adult.schema.json", "--rows", "0"), "rows (0)"),
        (("nonprivate-evaluate", "adult.csv", "adult.csv", "--schema", "adult.schema.json", "--target", "x"), "'x'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, told: list[str], arguments: tuple[str, ...], word: str
) -> None:
    result = run(*arguments, cwd=folder)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert word in result.stderr


@pytest.mark.parametrize(
    "command", ["plan", "answer", "report", "nonprivate-evaluate", "release", "sample", "ledger", "demo"]
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert f"synthdp {command} " in result.stdout.split("Example", 1)[1]
