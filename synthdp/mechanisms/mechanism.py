"""What every mechanism is: settings with a cost, and one method that asks the curator; and which of them yield tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.privacy.loss import Spend
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.sampling.structural_zeros import check_rules
from synthdp.schema.schema import Schema

NO_RELATION = (
    "no relation between columns was measured: synthetic columns have nothing to do with each other; a larger budget, more "
    "rows or fewer columns would tell some"
)
"""The note on the receipt where only single columns were measured, so that relations between columns are lost; a plan
that foresees this rates the release as weak or poor.
"""

OutputT_co = TypeVar("OutputT_co", covariant=True)


class HasPrivacyCost:
    """Base class of programs that spend privacy budget: gives their setting ``spend`` the public name ``loss``, too.

    Mechanisms, and what opens a session, inherit it; mechanisms of other packages need not.
    """

    __slots__ = ()

    gaussian: ClassVar[bool] = False
    """Whether a Gaussian-DP budget can pay for the whole mechanism; a discovery before it is then cheapest."""

    keeps_classes: ClassVar[bool] = False
    """Whether the mechanism models a column that is counted in classes, such as a survey weight, by these classes."""

    spend: Spend

    @property
    def loss(self) -> Spend:
        """The whole cost, known before any data is seen; `Remaining` stands for all that the curator has left."""
        return self.spend

    def prepare(self, curator: Curator) -> None:
        """Raise now every error that would come too late after spending, and load what is needed.

        The bounds or levels of a column may still be undeclared.

        Costs nothing, and asks nothing.
        """


@runtime_checkable
class Mechanism(Protocol[OutputT_co]):
    """A program that asks the curator and never sees a row.

    Costs ``spend`` when it is released, for the curator's neighbours.
    """

    @property
    def spend(self) -> Spend:
        """The whole cost, known before any data is seen; `Remaining` stands for all that the curator has left."""
        ...

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[OutputT_co]:
        """Ask the curator and return a release with the mechanism's output.

        Costs ``spend``, for the curator's neighbours.
        """
        ...


@runtime_checkable
class TableMechanism(Mechanism[Any], Protocol):
    """A mechanism whose release draws rows (`Release.model`): `SyntheticRelease` takes these and refuses all others.

    Costs ``spend`` when it is released, for the curator's neighbours.
    """

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the synthetic table for a private table of this schema, or raise an error.

        Whatever the mechanism cannot take is refused here, before anything is spent.  Undeclared bounds and levels are
        discovered before ``release`` is called, which must not refuse what is found.

        Raises
        ------
        ParameterError, SchemaError
            If the mechanism cannot take the schema; one sentence says what it needs.
        """
        ...


def part_of(schema: Schema, names: Iterable[str]) -> Schema:
    """Return the schema of some columns, in the original order, with the rules that concern these columns alone.

    A mechanism whose queries use only some columns releases only these.

    Raises
    ------
    SchemaError
        If the rules of these columns contradict each other.
    """
    part = schema.part(names)
    check_rules(part)
    return part


def left_out(schema: Schema, output: Schema) -> tuple[str, ...]:
    """Return the receipt's lines on columns that a mechanism leaves out, and on the rules dropped with them."""
    missing = [name for name in schema.outputs if name not in output.outputs]
    notes = [f"columns left out of the synthetic table: {', '.join(missing)}"] if missing else []
    dropped = [rule.in_words() for rule in schema.constraints if rule not in output.constraints]
    notes += [f"rules about columns that are left out: {'; '.join(dropped)}"] if dropped else []
    return tuple(notes)


def check_declared(schema: Schema, *, why: str) -> None:
    """Raise an error if a column's bounds or levels are not declared, for mechanisms that cannot discover them.

    Raises
    ------
    ParameterError
        Naming the first of them, and ``why`` it must be declared.
    """
    if schema.undeclared:
        raise ParameterError(f"column {schema.undeclared[0]!r} must have declared bounds or levels: {why}")
