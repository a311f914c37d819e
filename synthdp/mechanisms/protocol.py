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

OutputT_co = TypeVar("OutputT_co", covariant=True)


class HasPrivacyCost:
    """The settings of a program that spends: their ``spend`` has the public name ``loss`` too.

    Mechanisms, and what opens a session, inherit it; a mechanism from elsewhere need not.
    """

    __slots__ = ()

    gaussian: ClassVar[bool] = False
    """Whether a Gaussian-DP budget pays for all of it; then what is discovered first costs the least."""

    keeps_classes: ClassVar[bool] = False
    """Whether a column that is counted in classes, as a survey weight is, is modelled by these."""

    spend: Spend

    @property
    def loss(self) -> Spend:
        """The whole cost, known before any data is seen; `Remaining` stands for all that the curator has left."""
        return self.spend

    def prepare(self, curator: Curator) -> None:
        """Refuse what a release could not ask later, and load what it needs later; columns may still be open.

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
        """Ask the curator and make a release.

        Costs ``spend``, for the curator's neighbours.
        """
        ...


@runtime_checkable
class TableMechanism(Mechanism[Any], Protocol):
    """A mechanism whose release draws rows (`Release.model`): `SyntheticRelease` takes these and refuses all others.

    Costs ``spend`` when it is released, for the curator's neighbours.
    """

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the synthetic table, for a private table of this schema, or refuse to make one.

        Whatever the mechanism cannot take is refused here, before anything is spent.  Bounds and levels may still be
        open; then they are discovered before ``release`` is called, which must not refuse what is found.

        Raises
        ------
        ParameterError, SchemaError
            With one sentence that says what the mechanism needs.
        """
        ...


def part_of(schema: Schema, names: Iterable[str]) -> Schema:
    """Return some columns of a schema, in its order, with the rules about these alone.

    Raises
    ------
    SchemaError
        If these rules contradict each other.
    """
    part = schema.part(names)
    check_rules(part)
    return part


def left_out(schema: Schema, output: Schema) -> tuple[str, ...]:
    """Return lines for the receipt: which columns a mechanism leaves out, and which rules go with them."""
    missing = [name for name in schema.outputs if name not in output.outputs]
    notes = [f"columns left out of the synthetic table: {', '.join(missing)}"] if missing else []
    dropped = [rule.in_words() for rule in schema.constraints if rule not in output.constraints]
    notes += [f"rules about columns that are left out: {'; '.join(dropped)}"] if dropped else []
    return tuple(notes)


def check_declared(schema: Schema, *, why: str) -> None:
    """Refuse columns whose bounds or levels are open.

    Raises
    ------
    ParameterError
        Naming the first of them, and ``why`` it must be declared.
    """
    if schema.undeclared:
        raise ParameterError(f"column {schema.undeclared[0]!r} must have declared bounds or levels: {why}")
