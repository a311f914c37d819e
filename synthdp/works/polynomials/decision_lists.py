"""Decision lists as rows of a table: a class, a parser, and the columns that hold the lists.

An example is "if rural: no; elif top10: yes; else no". A list of k rules takes k columns, whose levels are the possible
rules, and a column for the default answer. `list_coefficients` computes statistics from these columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from synthdp.checks import check_whole
from synthdp.errors import ParameterError
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema

ELSE = "else"
"""Name of the column with a list's default answer."""

_RULE = re.compile(r"(?P<word>if|elif)\s+(?P<negated>not\s+)?(?P<variable>[^:;]+?)\s*:\s*(?P<output>yes|no)")
"""Pattern of one rule in the text of a decision list."""

_LAST = re.compile(r"(?:else\s*:?\s*)?(?P<output>yes|no)")
"""Pattern of the last part, the default answer, in the text of a decision list."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a decision list: if ``variable`` is ``value``, the answer is ``output``."""

    variable: str
    value: bool
    output: bool

    def __str__(self) -> str:
        return f"{'' if self.value else 'not '}{self.variable}: {_word(self.output)}"


@dataclass(frozen=True, slots=True)
class DecisionList:
    """Rules that are tried in turn; the first rule that applies gives the answer, else ``default`` does.

    Parameters
    ----------
    rules
        The rules in order.
    default
        The answer when no rule applies.

    Examples
    --------
    >>> rule = DecisionList.parse("if rural: no; elif top10: yes; else no")
    >>> rule({"rural": 0, "top10": 1})
    True
    >>> str(rule)
    'if rural: no; elif top10: yes; else no'
    """

    rules: tuple[Rule, ...]
    default: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))

    def __call__(self, values: Mapping[str, object]) -> bool:
        """Return the answer on an input: variable -> true or false."""
        for rule in self.rules:
            if bool(values[rule.variable]) is rule.value:
                return rule.output
        return self.default

    def __str__(self) -> str:
        rules = [f"{'elif' if i else 'if'} {rule}" for i, rule in enumerate(self.rules)]
        return "; ".join([*rules, f"else {_word(self.default)}"])

    @classmethod
    def parse(cls, text: str) -> DecisionList:
        """Return the decision list of a text such as ``"if rural: no; elif not top10: yes; else no"``.

        Raises
        ------
        ParameterError
            If a part is not a rule, or the last part is not an answer.
        """
        *parts, last = [part.strip() for part in text.split(";")]
        ending = _LAST.fullmatch(last)
        rules = [_RULE.fullmatch(part) for part in parts]
        for i, (part, rule) in enumerate(zip(parts, rules, strict=True)):
            if rule is None or rule["word"] != ("elif" if i else "if"):
                raise ParameterError(
                    f"part {i + 1} ({part!r}) of the decision list must have the form '{'elif' if i else 'if'} "
                    "[not] variable: yes|no'"
                )
        if ending is None or (parts and not last.startswith(ELSE)):
            raise ParameterError(f"the last part ({last!r}) of the decision list must be 'else yes' or 'else no'")
        return cls(
            tuple(Rule(r["variable"], r["negated"] is None, r["output"] == "yes") for r in rules if r is not None),
            ending["output"] == "yes",
        )


def decision_list_schema(variables: Sequence[str], *, length: int) -> Schema:
    """Return the schema of a table whose rows are decision lists of at most ``length`` rules.

    The columns are ``"rule 1"``, ..., with a level per possible rule, and ``"else"``.

    Parameters
    ----------
    variables
        Names of the Boolean inputs.
    length
        k, the most rules of a list.

    Raises
    ------
    ParameterError
        If there is no variable, a variable occurs twice or cannot be written in a rule, or ``length`` is below 1.
    """
    rules = [str(rule) for rule in possible_rules(variables)]
    check_whole("length", length)
    columns = {f"rule {i}": Categorical(rules) for i in range(1, length + 1)}
    return Schema(columns | {ELSE: Categorical(["no", "yes"])})


def possible_rules(variables: Sequence[str]) -> tuple[Rule, ...]:
    """Return the four rules of each variable, (4 m,), in the order of the schema's levels.

    Raises ParameterError for repeated names, or names that cannot be written in a rule.
    """
    names = list(variables)
    if not names or len(set(names)) < len(names):
        raise ParameterError("variables must hold at least one name, and each name once")
    for name in names:
        if not name.strip() or name != name.strip() or set(name) & set(":;") or name.startswith("not "):
            raise ParameterError(
                f"variable ({name!r}) must be a name without ':', ';' and spaces at its ends, which does not begin "
                "with 'not '"
            )
    return tuple(Rule(name, value, output) for name in names for value in (False, True) for output in (False, True))


def variables_of(schema: Schema, *, length: int) -> tuple[str, ...]:
    """Return the variables' names of a schema that `decision_list_schema` made.

    Raises
    ------
    ParameterError
        If the schema's columns are not decision lists of ``length`` rules.
    """
    column = schema.get("rule 1")
    levels = column.levels or () if isinstance(column, Categorical) else ()
    names = [str(level).removeprefix("not ").rpartition(":")[0] for level in levels]
    variables = tuple(dict.fromkeys(names))
    expected = dict(decision_list_schema(variables, length=length)) if variables else {}
    fits = all(schema.get(name) == own for name, own in expected.items()) and f"rule {length + 1}" not in schema
    if not expected or not fits:
        raise ParameterError(f"schema must be the result of decision_list_schema(variables, length={length})")
    return variables


def decision_list_columns(lists: Iterable[DecisionList | str], *, length: int) -> dict[str, list[str]]:
    """Return the columns of a table of decision lists by name, ready for a dataframe.

    A shorter list repeats its last rule, which changes no answer. A list without rules has missing rules, which never
    apply.

    Raises
    ------
    ParameterError
        If a list has more than ``length`` rules.
    """
    parsed = [DecisionList.parse(one) if isinstance(one, str) else one for one in lists]
    if any(len(one.rules) > length for one in parsed):
        raise ParameterError(f"each of lists must have at most {length} rules")
    columns: dict[str, list[str]] = {f"rule {i}": [] for i in range(1, length + 1)}
    for one in parsed:
        rules = [str(rule) for rule in one.rules]
        for i in range(length):
            columns[f"rule {i + 1}"].append(rules[min(i, len(rules) - 1)] if rules else "")
    return columns | {ELSE: [_word(one.default) for one in parsed]}


def _word(output: bool) -> str:
    """Return "yes" or "no" for an output, as the text of a decision list has it."""
    return "yes" if output else "no"
