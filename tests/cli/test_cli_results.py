"""Commands about results: plan, answer, report, nonprivate-evaluate; and the tutorial's three commands, as written."""

import contextlib
import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_pages import numberless
from no_noise import with_repeatable_noise
from rich.console import Console

import synthdp as sd
from synthdp.cli.main import main
from synthdp.data import adult, adult_schema

ROOT = Path(__file__).parents[2]
RELEASE = "published/adult.release"
NARROW = "narrow.release"


def run(*arguments: str | Path, cwd: Path):
    with contextlib.chdir(cwd):
        return CliRunner(catch_exceptions=False).invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tutorial")
    adult().head(6000).to_csv(path / "adult.csv", index=False)
    adult().head(1500).to_csv(path / "few.csv", index=False)
    adult()[["age", "sex"]].head(50).to_csv(path / "narrow.csv", index=False)
    adult_schema().write(path / "adult.schema.json")
    (path / "drafts").mkdir()
    (path / "drafts" / "notes.txt").write_text("not a release", encoding="utf-8")
    draft = run("schema", "draft", "narrow.csv", "--out", "draft.json", cwd=path)
    assert draft.exit_code == 0
    return path


@pytest.fixture(scope="module")
def told(folder: Path) -> list[str]:
    """Run the tutorial's commands, with the same noise on every run, and return what they print."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- commands -->\s*```sh\n(.*?)\n```", text, re.DOTALL)
    assert block is not None
    commands = block[1].replace("\\\n", " ").splitlines()
    assert len(commands) == 3
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        with_repeatable_noise(patch)
        for command in commands:
            program, *arguments = shlex.split(command)
            assert program == "synthdp"
            result = run(*arguments, cwd=folder)
            assert result.exit_code == 0, result.stderr
            printed.append(result.stdout)
    return printed


@pytest.fixture(scope="module")
def narrow(folder: Path) -> sd.SyntheticRelease:
    """A release of few columns, which answers sooner, as the library reads it."""
    columns = ["age", "sex", "income", "fnlwgt", "education-num", "hours-per-week"]
    schema = sd.Schema({name: adult_schema()[name] for name in columns})
    sd.SyntheticRelease(schema=schema, delta=1e-9).fit(adult().head(1000)).save(folder / NARROW)
    return sd.load(folder / NARROW)


@pytest.fixture(scope="module")
def short(folder: Path, told: list[str]) -> str:
    """The first synthetic rows: comparing all takes long."""
    lines = (folder / "published" / "synthetic.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "short.csv").write_text("".join(lines[:1000]), encoding="utf-8")
    return "short.csv"


@pytest.mark.style
def test_the_tutorial_goes_from_a_csv_to_a_published_folder(folder: Path, told: list[str]) -> None:
    published = folder / "published"
    assert {"synthetic.csv", "report.html", "receipt.json"} <= {path.name for path in published.iterdir()}
    receipt = json.loads((published / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["total"]["epsilon"] == 1.0
    assert receipt["card"]["unit_of_privacy"] == "one row of the table"
    assert "Privacy card" in (published / "report.html").read_text(encoding="utf-8")
    assert "adaptive marginals" in told[0]
    assert "standard_error" in told[2]


@pytest.mark.style
def test_the_tutorial_shows_the_output_that_its_commands_have(told: list[str]) -> None:
    """Numbers differ from run to run; the words around them do not."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    shown = re.findall(r"<!-- output -->\s*```text\n(.*?)\n```", text, re.DOTALL)
    assert len(shown) == 3
    for output, printed in zip(shown, told, strict=True):
        varies = (
            "interactions",
            "of several",
            "merged bins",
            "of them",
            "strongest pairs",
            "digit preference",
            "rounding classes",
            "rank",
            "good enough",
            "more",
            "time about",
            "±",
        )  # as noise, and how busy the machine is, have it
        said = " ".join(" ".join(numberless(printed)).split())  # lines wrap where the numbers before have it
        clauses = re.split(r"[;,:()]|\n +(?=[a-z]+ +\S)|\n(?! {6})", output)
        for clause in clauses:
            words = " ".join(" ".join(numberless(clause)).split())
            words = words.removesuffix("measured").removesuffix("model")  # which of both, noise decides
            level = re.fullmatch(r"[\w-]*( #)*", words)  # one of the hardest columns, or numbers alone
            if not level and not any(word in words for word in varies):
                assert words in said  # a release may say more


def test_answers_on_the_command_line_are_those_of_the_library(folder: Path, narrow: sd.SyntheticRelease) -> None:
    saved = NARROW
    result = run("answer", saved, "--count", "age >= 40", "--json", cwd=folder)
    found = json.loads(result.stdout)[0]["estimate"]
    assert found == pytest.approx(narrow.answer(sd.count("age >= 40"))["estimate"][0])
    assert (
        len(json.loads(run("answer", saved, "--marginal", "age", "sex", "--bins", "5", "--json", cwd=folder).stdout))
        == 10
    )
    assert "0.7500" in run("answer", saved, "--quantile", "age", cwd=folder).stdout
    assert "measured" in run("answer", saved, "--mean", "age", cwd=folder).stdout


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["--count", "age >= 40", "--by", "sex"], sd.count("age >= 40", by=["sex"])),
        (["--count", "age >= 40", "--weight", "fnlwgt"], sd.count("age >= 40", weight="fnlwgt")),
        (["--share", "age in (30, 31)", "--where", "sex == 'Male'"], sd.share("age in (30, 31)", where="sex == 'Male'")),
        (["--sum", "age"], sd.sum("age")),
        (["--sum", "age", "--weight", "fnlwgt", "--by", "sex"], sd.sum("age", by="sex", weight="fnlwgt")),
        (["--mean", "age", "--by", "sex", "--by", "income"], sd.mean("age", by=["sex", "income"])),
        (["--variance", "age", "--where", "25 <= age < 60"], sd.variance("age", where="25 <= age < 60")),
        (["--quantile", "age", "--q", "0.5", "--by", "sex"], sd.quantile("age", 0.5, by="sex")),
        (["--correlation", "age", "education-num", "--by", "sex"], sd.correlation("age", "education-num", by="sex")),
        (["--regression", "hours-per-week ~ age + sex"], sd.regression("hours-per-week ~ age + sex")),
        (["--regression", "age ~ income", "--where", "age > 20", "--by", "sex"],
         sd.regression("age ~ income", where="age > 20", by="sex")),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)  # fmt: skip
def test_every_question_can_be_asked_on_the_command_line(
    folder: Path, narrow: sd.SyntheticRelease, words: list[str], question: object
) -> None:
    result = run("answer", NARROW, *words, "--json", cwd=folder)
    assert result.exit_code == 0, result.stderr
    wanted = narrow.answer(question)
    printed = json.loads(result.stdout)
    rounded = 5e-6  # six digits are printed: half of the last one, relative to 1.00000
    assert [row["estimate"] for row in printed] == pytest.approx(wanted["estimate"].tolist(), rel=rounded)
    assert list(printed[0]) == list(wanted.columns)


@pytest.mark.style
def test_a_report_of_a_saved_release_is_the_one_made_with_it(folder: Path, told: list[str]) -> None:
    result = run("report", "published/adult.release", "--out", "again.html", cwd=folder)
    assert result.stdout == "report: again.html\n"
    assert (folder / "again.html").read_bytes() == (folder / "published" / "report.html").read_bytes()


@pytest.mark.style
def test_the_nonprivate_comparison_is_stamped(folder: Path, short: str) -> None:
    result = run(
        "nonprivate-evaluate", "few.csv", short, "--schema", "adult.schema.json", "--out", "np.html",
        cwd=folder,
    )  # fmt: skip
    assert result.exit_code == 0
    assert result.stdout.startswith("NON-PRIVATE")
    assert "not for publication" in (folder / "np.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_plan_for_several_budgets_is_a_curve(folder: Path) -> None:
    result = run(
        "plan", "adult.schema.json", "--rows", 2000, "--epsilon", "0.1", "--epsilon", "3", "--json", cwd=folder
    )
    low, high = json.loads(result.stdout)
    assert low["errors"]["2"] > high["errors"]["2"]


PLAN = ("plan", "adult.schema.json", "--rows", 2000)


@pytest.mark.slow
def test_a_plan_counts_the_rows_of_a_unit(folder: Path) -> None:
    one, ten = (
        json.loads(run(*PLAN, "--max-rows-per-unit", most, "--json", cwd=folder).stdout)[0]["errors"]["1"]
        for most in (1, 10)
    )
    assert ten > 2 * one


@pytest.mark.slow
def test_the_nonprivate_comparison_says_how_far_it_is_on_a_terminal(folder, short, monkeypatch) -> None:
    """The longest command of all says what it does; in a pipe it says nothing."""
    compare = ("nonprivate-evaluate", "few.csv", short, "--schema", "adult.schema.json")
    monkeypatch.setenv("COLUMNS", "100")
    silent = run(*compare, cwd=folder)
    monkeypatch.setattr("rich.console.Console", partial(Console, force_terminal=True))
    shown = run(*compare, cwd=folder)
    assert (silent.exit_code, silent.stderr) == (0, "")
    assert shown.exit_code == 0
    assert "distances between rows" in shown.stderr


COMPARE = ("nonprivate-evaluate", "few.csv")
BAD_INPUTS = [
    (("answer", "missing.release", "--marginal", "age"), "missing.release"),
    (("answer", NARROW), "exactly one question"),
    (("answer", NARROW, "age"), "exactly one question"),
    (("answer", NARROW, "--count", "age > 1", "--mean", "age"), "exactly one question"),
    (("answer", NARROW, "--count", "age >"), "character 6"),
    (("answer", NARROW, "--count", "height > 3"), "'height'"),
    (("answer", NARROW, "--count", "__import__('os')"), "character"),
    (("answer", NARROW, "--count", "age > 3", "sex"), "leave 'sex' out"),
    (("answer", NARROW, "--marginal", "height"), "'height'"),
    (("answer", NARROW, "--marginal", "age", "--bins", "0"), "bins (0)"),
    (("answer", NARROW, "--mean", "sex"), "no mean"),
    (("answer", NARROW, "--quantile", "age", "--q", "2"), "q ("),
    (("answer", NARROW, "--mean", "age", "--q", "0.5"), "not with --mean"),
    (("answer", NARROW, "--count", "age > 3", "--where", "age > 1"), "not with --count"),
    (("answer", NARROW, "--marginal", "age", "--by", "sex"), "not with --marginal"),
    (("answer", NARROW, "--variance", "age", "--weight", "fnlwgt"), "not with --variance"),
    (("answer", NARROW, "--correlation", "age"), "--correlation"),
    (("answer", NARROW, "--correlation", "age", "age"), "two different columns"),
    (("answer", NARROW, "--correlation", "age", "sex"), "have no correlation"),
    (("answer", NARROW, "--regression", "age"), "formula, character 4"),
    (("answer", NARROW, "--regression", "sex ~ age"), "cannot be the response of a regression"),
    (("answer", NARROW, "--share", "age >"), "character 6"),
    (("answer", NARROW, "--sum", "age", "--weight", "sex"), "cannot be weights"),
    (("answer", "missing.release", "--regression", "age ~ *"), "formula, character 7"),
    (("answer", "missing.release", "--marginal", "age", "--bins", "0"), "bins (0)"),
    (("report", NARROW, "--out", "no/such/page.html"), "cannot be written"),
    (("report", NARROW, "--out", "drafts"), "is a folder"),
    (("report", "adult.csv", "--out", "page.html"), "adult.csv"),
    (("sample", NARROW, "--given", "height=3", "--out", "page.csv"), "'height'"),
    (("sample", NARROW, "--given", "age", "--out", "page.csv"), "'age' holds numbers"),
    (("sample", NARROW, "--given", "age > 30 or age < 3 or", "--out", "page.csv"), "found the end"),
    (("plan", "adult.schema.json", "--rows", "0"), "rows (0)"),
    (("plan", "adult.schema.json", "--rows", "many"), "'many'"),
    (("plan", "adult.schema.json"), "--rows"),
    (("plan", "adult.schema.json", "--rows", "9", "--epsilon", "0"), "epsilon (0.0)"),
    (("plan", "adult.schema.json", "--rows", "9", "--target", "height"), "'height'"),
    (("plan", "adult.schema.json", "--rows", "9", "--mechanism", "magic"), "'magic'"),
    (("plan", "missing.json", "--rows", "9"), "missing.json"),
    ((*COMPARE, "missing.csv", "--schema", "adult.schema.json"), "missing.csv"),
    ((*COMPARE, "few.csv", "--schema", "adult.schema.json", "--target", "height"), "'height'"),
    (("nonprivate-evaluate", "narrow.csv", "adult.csv", "--schema", "adult.schema.json"), "is missing from the real"),
    (("release", "few.csv", "--schema", "draft.json", "--out", "page.csv"), "review"),
    (
        ("release", "few.csv", "--schema", "adult.schema.json", "--out", "page.csv", "--save", "drafts"),
        "not a release",
    ),
    (("release", "few.csv", "--out", "page.csv"), "--schema"),
    (("publish",), "publish"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("arguments", "word"), BAD_INPUTS, ids=lambda value: value if isinstance(value, str) else None)
def test_bad_input_is_one_line_and_exit_code_2_and_writes_nothing(
    folder: Path, narrow: sd.SyntheticRelease, arguments: tuple[str, ...], word: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = run(*arguments, cwd=folder)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert word in result.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    "command",
    [
        "plan", "answer", "report", "nonprivate-evaluate", "release", "sample", "ledger", "demo", "doctor", "audit",
        "schema draft",
    ],
)  # fmt: skip
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(main, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert f"synthdp {command} " in result.stdout.split("Example", 1)[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_completion(shell: str) -> None:
    result = CliRunner().invoke(main, [], prog_name="synthdp", env={"_SYNTHDP_COMPLETE": f"{shell}_source"})
    assert "_SYNTHDP_COMPLETE" in result.stdout
    asked = {"_SYNTHDP_COMPLETE": "bash_complete", "COMP_WORDS": "synthdp non", "COMP_CWORD": "1"}
    assert "nonprivate-evaluate" in CliRunner().invoke(main, [], prog_name="synthdp", env=asked).stdout
