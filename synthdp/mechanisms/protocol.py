"""What every mechanism is: settings with a cost, and one method that asks the curator."""

from __future__ import annotations

from typing import Protocol, TypeVar

from synthdp.curator.curator import Curator
from synthdp.privacy.loss import Spend
from synthdp.randomness import RandomState
from synthdp.release import Release

OutputT_co = TypeVar("OutputT_co", covariant=True)


class Mechanism(Protocol[OutputT_co]):
    """A program that asks the curator and never sees a row.

    Costs ``loss`` when it is released, for the curator's neighbours.
    """

    @property
    def loss(self) -> Spend:
        """The whole cost, known before any data is seen; `Remaining` stands for all that the curator has left."""
        ...

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[OutputT_co]:
        """Ask the curator and make a release.

        Costs ``loss``, for the curator's neighbours.
        """
        ...
