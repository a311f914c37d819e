"""The mechanisms that have a name: the class of each, and the settings that it takes.

The table below, and the registered works, are the only lists of them.  A setting that a mechanism does not take is
refused before anything is spent.  The mechanism's own constructor checks values.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from synthdp.errors import ParameterError, SolverUnavailableError
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.mechanism import Mechanism, TableMechanism
from synthdp.privacy.loss import Remaining
from synthdp.progress import ProgressCallback, silent
from synthdp.registered import MECHANISMS, extensions, found_at, mechanisms

_WORDS = {"true": True, "false": False}
"""Texts that the command line reads as truth values."""

_KINDS: dict[object, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
"""How an error message names the values of each type."""


def check_options(name: str, kind: type[Any], options: object, *, without: Collection[str]) -> None:
    """Raise an error for options that a mechanism's constructor does not take, before anything is spent.

    Parameters
    ----------
    name
        The mechanism's name for users.
    kind
        The mechanism's class, a dataclass.
    options
        Names and values.
    without
        Fields of it that are set elsewhere.

    Raises
    ------
    ParameterError
        If there is no such option, or a value is of another kind than it takes.
    """
    if not isinstance(options, Mapping):
        raise ParameterError("mechanism_options must map names of options to their values")
    known = _hints(kind, without)
    for option, value in options.items():
        hint = _hint(name, known, option)
        if not _fits(value, hint):
            raise ParameterError(f"option {option!r} of {name} ({value!r}) must be {_described(hint)}")


def option_of_text(name: str, kind: type[Any], option: str, text: str, *, without: Collection[str]) -> Any:
    """Convert the text of an option, from the command line, to the type that the mechanism's constructor takes.

    Raises
    ------
    ParameterError
        If there is no such option, or the text is not a value of its kind.
    """
    hint = _hint(name, _hints(kind, without), option)
    for reader in _readers(hint):
        try:
            value = reader(text)
        except (ValueError, KeyError):
            continue
        if _fits(value, hint):
            return value
    raise ParameterError(f"option {option!r} of {name} ({text!r}) must be {_described(hint)}")


def _hints(kind: type[Any], without: Collection[str]) -> dict[str, Any]:
    """Return the types of a constructor's fields, by name, except those in ``without``: options are checked by them."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init and field.name not in without}


def _hint(name: str, known: Mapping[str, Any], option: object) -> Any:
    """Return the annotated type of an option; raise ParameterError if the mechanism has no such option."""
    if option not in known:
        raise ParameterError(f"{name} has no option {option!r}; it has: {', '.join(known)}")
    return known[str(option)]


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union type, or the type alone if it is no union; each is checked alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type; only plain types are checked, no finer annotations."""
    return any(_is(value, part) for part in _parts(hint))


def _is(value: object, hint: Any) -> bool:
    """Return whether a value is of one annotated type that is no union; used by `_fits`."""
    origin = get_origin(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin is Literal:
        return any(value is one or (isinstance(value, str) and value == one) for one in get_args(hint))
    if origin is tuple and get_args(hint)[1:] == (Ellipsis,):
        return isinstance(value, (tuple, list)) and all(_is(one, get_args(hint)[0]) for one in value)
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return hint is Any or not isinstance(origin or hint, type) or isinstance(value, origin or hint)


def _readers(hint: Any) -> list[Callable[[str], Any]]:
    """Return the functions that convert text to an annotated type, those to be tried first at the front."""
    parts = _parts(hint)
    readers: list[Callable[[str], Any]] = []
    if type(None) in parts:
        readers.append({"none": None}.__getitem__)
    readers += [kind for kind in (int, float) if kind in parts]
    if bool in parts:
        readers.append(lambda text: _WORDS[text.casefold()])
    if any(get_origin(part) is tuple and get_args(part) == (str, ...) for part in parts):
        readers.append(lambda text: tuple(name.strip() for name in text.split(",")))
    if str in parts or any(get_origin(part) is Literal for part in parts):
        readers.append(str)
    return readers


def _described(hint: Any) -> str:
    """Return in words which values an annotated type allows, for error messages."""
    words = []
    for part in _parts(hint):
        if part is type(None):
            words.append("none")
        elif get_origin(part) is Literal:
            words += [repr(one) for one in get_args(part)]
        elif get_origin(part) is tuple:
            words.append("a list of names")
        else:
            words.append(_KINDS.get(part, f"a {getattr(part, '__name__', part)}"))
    return " or ".join(words)


AUTO = "auto"
"""Name of the mechanism, and of the solver, that stands for "choose by the data's shape"."""

MAXENT = "maxent"
"""Name of the maximum-entropy solver."""

UNSET: Mapping[str, Any] = MappingProxyType(
    {"workload": None, "target": None, "solver": AUTO, "bins": 32, "places": None, "public": None}
)
"""The settings that only some mechanisms take, each with the value that means "not set". A convention."""

SET_ELSEWHERE = ("spend", "on_progress", "public")
"""Fields of mechanisms that mechanism options may not set, as other arguments do: the budget, the callback, a public
table.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a name of a mechanism stands for: its class, and the settings that it takes.

    Parameters
    ----------
    place
        Place of the mechanism's class, ``"module:Class"``.
    takes
        The settings that it takes, each with the constructor's argument that it becomes.
    solvers
        The solvers that apply to it, besides ``"auto"``.
    options
        Whether it takes options of its own.
    """

    place: str
    takes: Mapping[str, Callable[[Any], dict[str, Any]]] = field(default_factory=dict)
    solvers: tuple[str, ...] = ()
    options: bool = True

    @property
    def kind(self) -> type[Any]:
        """The mechanism's class, imported on first use so that unused mechanisms cost no import time."""
        kind: type[Any] = found_at(self.place)
        return kind


def _as(argument: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function from a setting's value to ``{argument: value}``, keyword arguments of a mechanism's constructor."""
    return lambda value: {argument: value}


def _one_ways(bins: Any) -> dict[str, Any]:
    """Turn the setting ``bins`` into the constructor argument ``one_ways``, whose first histograms have this many."""
    return {"one_ways": OneWayTree(bins=bins)}


_WORKLOAD = {"workload": _as("workload")}
"""The setting ``workload``, for mechanisms that take sets of columns, as entry of `Named.takes`."""
_ADAPTIVE = {**_WORKLOAD, "target": _as("target"), "bins": _one_ways, "places": _as("places"), "public": _as("public")}
"""The settings of adaptive marginals, and of what chooses them, as entry of `Named.takes`."""
_FITTER = {"solver": _as("solver")}
"""The setting ``solver``, for mechanisms that fit weights on a support, as entry of `Named.takes`."""

OWN: Mapping[str, Named] = MappingProxyType(
    {
        AUTO: Named(place="synthdp.mechanisms.automatic:Automatic", takes=_ADAPTIVE, options=False),
        "adaptive_marginals": Named(
            place="synthdp.mechanisms.adaptive.adaptive_marginals:AdaptiveMarginals", takes=_ADAPTIVE, solvers=(MAXENT,)
        ),
    }
)
"""The mechanisms that are always known; all others come from `named`, which imports more."""

BY_SOLVER: Mapping[str, str] = MappingProxyType(
    {"lp": "l1_fit", "mw": "l1_fit", "sifting": "l1_fit", MAXENT: "adaptive_marginals"}
)
"""The mechanism that ``"auto"`` stands for if the user names a solver: the most general one that fits with it, so that
a solver alone can be asked for."""


@cache
def fitters() -> tuple[str, ...]:
    """Return the names of the solvers that fit weights on an explicit support."""
    from synthdp.fit.explicit.registry import SOLVERS

    return tuple(SOLVERS)


@cache
def named() -> Mapping[str, Named]:
    """Return all mechanisms by name: these here, the registered works', and installed extensions'."""
    l1_fit = Named(place="synthdp.mechanisms.l1_fit:L1Fit", takes=_WORKLOAD | _FITTER, solvers=fitters())
    registered = {
        name: Named(
            place=one.place,
            takes={setting: _as(setting) for setting in one.takes},
            solvers=fitters() if "solver" in one.takes else (),
        )
        for name, one in mechanisms().items()
    }
    direct = {
        name: Named(place=f"synthdp.mechanisms.direct_answers:{kind}")
        for name, kind in (("laplace_answers", "LaplaceAnswers"), ("gaussian_answers", "GaussianAnswers"))
    }
    ours = {**OWN, "l1_fit": l1_fit, **registered, **direct}
    others = {name: Named(place=one.value) for name, one in extensions(MECHANISMS).items() if name not in ours}
    return MappingProxyType({**ours, **others})


def _entry(name: str) -> Named:
    """Return the class path and settings that a mechanism's name stands for; names in `OWN` need no further import."""
    return OWN[name] if name in OWN else named()[name]


def mechanism_named(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: ProgressCallback = silent,
    **settings: Any,
) -> Mechanism[Any]:
    """Make the mechanism of this name with the user's settings.

    Unlike `table_mechanism_named`, it need not yield tables.

    Parameters
    ----------
    name
        One of `named`.
    options
        More of its constructor's arguments, by name.
    on_progress
        Called at each stage, where the mechanism has any.
    settings
        The settings of `UNSET`, with values that may be unset.

    Raises
    ------
    ParameterError
        If there is no such mechanism, or it does not take what is set.
    SolverUnavailableError
        If there is no such solver.
    """
    name = resolved(name, settings["solver"])
    entry = _entry(name)
    arguments: dict[str, Any] = {}
    for setting, value in settings.items():
        if not _is_set(setting, value):
            continue
        if setting == "solver":
            _check_solver(name, entry, value)
        elif setting not in entry.takes:
            raise ParameterError(
                f"{setting} does not apply to {name}: leave {setting} out; {name} takes: {_taken(entry)}"
            )
        if setting in entry.takes:
            arguments |= entry.takes[setting](value)
    if options is not None and options != {}:
        _check_has_options(name, entry)
        check_options(name, entry.kind, options, without=SET_ELSEWHERE)
        twice = [option for option in options if option in arguments]
        if twice:
            raise ParameterError(f"option {twice[0]!r} of {name} is set twice: leave out one of the two")
    progress = {"on_progress": on_progress} if "on_progress" in entry.kind.__dataclass_fields__ else {}
    given = {**arguments, **(options or {}), **progress}
    needed = [one.name for one in fields(entry.kind) if one.init and one.default is one.default_factory is MISSING]
    missing = [option for option in needed if option not in given]
    if missing:
        raise ParameterError(f"{name} needs the option {missing[0]!r}: set it in mechanism_options, or by --option")
    made: Mechanism[Any] = entry.kind(**given)
    return made


def table_mechanism_named(name: str, **settings: Any) -> TableMechanism:
    """Make the mechanism of this name; raise an error if it yields only answers and no table.

    Raises
    ------
    ParameterError, SolverUnavailableError
        As `mechanism_named` does.
    """
    made = mechanism_named(name, **settings)
    if not isinstance(made, TableMechanism):
        raise ParameterError(_no_table(type(made)))
    return made


def yields_tables(name: str, solver: str = AUTO) -> bool:
    """Return whether the mechanism of this name yields synthetic tables rather than answers alone."""
    return hasattr(_entry(resolved(name, solver)).kind, "output_schema")


def _no_table(kind: type[Any]) -> str:
    """Return the error message for a mechanism that yields no table."""
    tables = ", ".join(name for name in named() if yields_tables(name))
    return (
        f"{kind.__name__} makes no synthetic table (it has no output_schema): call its release() with a Curator, run "
        f"`synthdp release --save` without --out, or choose one of {tables}"
    )


def mechanism_given(mechanism: object, *, options: object = None, **settings: Any) -> TableMechanism:
    """Return a mechanism object that the user made unchanged; raise an error if it cannot be used here.

    Raises
    ------
    ParameterError
        If it is not a mechanism, yields no table, has a cost of its own, or something is set beside it.
    """
    kind = mechanism if isinstance(mechanism, type) else type(mechanism)
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        hint = f": make one, {kind.__name__}(...)" if isinstance(mechanism, type) else f", not {kind.__name__}"
        raise ParameterError(f"mechanism must be a mechanism object or one of {', '.join(named())}{hint}")
    if not isinstance(mechanism, TableMechanism):
        raise ParameterError(_no_table(kind))
    if not isinstance(mechanism.spend, Remaining):
        raise ParameterError(
            f"epsilon and delta of the release set the budget of {kind.__name__}: make {kind.__name__}(...) without "
            "spend="
        )
    given = [setting for setting, value in settings.items() if _is_set(setting, value)]
    given += ["mechanism_options"] if options else []
    if given:
        raise ParameterError(f"{given[0]} does not apply to a mechanism object: set it in {kind.__name__}(...)")
    return mechanism


def parsed_options(name: str, solver: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the mechanism options that command-line texts of the form ``name=value`` set.

    Raises
    ------
    ParameterError
        If one has another form, is given twice, or the mechanism has no such option.
    """
    name = resolved(name, solver)
    options: dict[str, Any] = {}
    for text in texts:
        option, found, value = text.partition("=")
        if not found or option in options:
            raise ParameterError(f"an option ({text!r}) must read NAME=VALUE, each name once")
        _check_has_options(name, _entry(name))
        options[option] = option_of_text(name, _entry(name).kind, option, value, without=SET_ELSEWHERE)
    return options


def resolved(name: object, solver: object) -> str:
    """Return the mechanism's name, with ``"auto"`` replaced by the mechanism that a named solver implies.

    Unknown names raise an error.
    """
    if not isinstance(name, str) or (name not in OWN and name not in named()):
        raise ParameterError(f"mechanism ({name!r}) must be one of {', '.join(named())}")
    if not isinstance(solver, str) or (solver not in (AUTO, MAXENT) and solver not in fitters()):
        solvers = ", ".join((AUTO, *fitters(), MAXENT))
        raise SolverUnavailableError(f"solver {solver!r} is not available: use one of {solvers}")
    return BY_SOLVER.get(solver, name) if name == AUTO else name


def _is_set(setting: str, value: object) -> bool:
    """Return whether the user set a setting, that is, whether it differs from its value in `UNSET`."""
    unset = UNSET[setting]
    return value is not None if unset is None else not (type(value) is type(unset) and value == unset)


def _check_solver(name: str, entry: Named, solver: str) -> None:
    """Raise ParameterError unless the mechanism can use this solver."""
    if solver not in entry.solvers:
        raise ParameterError(
            f"solver {solver!r} does not apply to {name}: use one of {', '.join((AUTO, *entry.solvers))}"
        )


def _check_has_options(name: str, entry: Named) -> None:
    """Raise ParameterError if the mechanism takes no mechanism options."""
    if not entry.options:
        having = ", ".join(other for other, one in named().items() if one.options)
        raise ParameterError(
            f"{name} takes no options: leave the options out, or choose a mechanism that has options: {having}"
        )


def _taken(entry: Named) -> str:
    """Return the names of the settings that a mechanism takes, as text for error messages; "nothing" if there are none.

    "mechanism_options" is one of them where the mechanism has options of its own.
    """
    taken = [setting for setting in UNSET if setting in entry.takes or (setting == "solver" and entry.solvers)]
    return ", ".join([*taken, *(["mechanism_options"] if entry.options else [])]) or "nothing"
