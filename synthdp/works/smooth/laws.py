"""Which law of noise a smooth mechanism insists on, by name, and whether it suits what may be spent."""

from __future__ import annotations

from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP

NAMES = {law.name.casefold(): law for law in NoiseLaw}


def law_named(law: object) -> NoiseLaw | None:
    """Return a law of noise, given as itself, by name or not at all.

    Raises
    ------
    ParameterError
        If there is no such law.
    """
    if law is None or isinstance(law, NoiseLaw):
        return law
    if not isinstance(law, str) or law not in NAMES:
        raise ParameterError(f"law ({law!r}) must be one of: {', '.join(NAMES)}")
    return NAMES[law]


def check_law(law: NoiseLaw | None, loss: PrivacyLoss) -> None:
    """Refuse a law that the loss of a whole mechanism cannot pay for.

    Raises
    ------
    ParameterError
        If pure epsilon is to pay for Gaussian noise, or another loss for other noise.
    """
    pure = isinstance(loss, PureDP) or (isinstance(loss, ApproxDP) and loss.delta == 0)
    if law is not None and (law is NoiseLaw.GAUSSIAN) == pure:
        suits = "laplace or linf" if pure else "gaussian"
        raise ParameterError(f"law ({law.name.casefold()}) does not suit a loss of {loss}: take {suits}")
