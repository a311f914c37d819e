"""Values are read by the declared types of their fields, also where a type is declared by an alias that is no class."""

from __future__ import annotations

import typing
from types import GenericAlias
from typing import Any, Literal, TypeVar

import numpy as np
import pytest

from synthdp.codec import DocumentSource, constructor_fields, form_named, homes, plain_type
from synthdp.errors import FormatError

T, U = TypeVar("T"), TypeVar("U")


class StandIn:
    """What ``type Name[T] = ...`` makes from Python 3.12 on, and NumPy's NDArray is from 2.5 on."""

    def __init__(self, name: str, value: Any, *, type_params: tuple[Any, ...] = ()) -> None:
        self.__name__, self.__value__, self.__type_params__ = name, value, type_params

    def __getitem__(self, parts: Any) -> GenericAlias:
        return GenericAlias(self, parts)


@pytest.fixture(params=[StandIn, *([typing.TypeAliasType] if hasattr(typing, "TypeAliasType") else [])])
def alias(request):
    """What makes an alias: our stand-in, and Python's own from 3.12 on."""
    return request.param


def array_of(alias):
    return alias("Array", np.ndarray[Any, np.dtype[T]], type_params=(T,))


def test_an_array_that_an_alias_declares_is_read_and_its_numbers_are_checked(alias):
    kept = {"a0": np.arange(3.0)}
    np.testing.assert_array_equal(DocumentSource(kept).read("a0", array_of(alias)[np.float64]), kept["a0"])
    np.testing.assert_array_equal(
        DocumentSource(kept).read(["a0"], tuple[array_of(alias)[np.floating[Any]], ...])[0], kept["a0"]
    )
    with pytest.raises(FormatError):
        DocumentSource(kept).read("a0", array_of(alias)[np.int64])


def test_aliases_within_aliases_are_what_they_stand_for(alias):
    turned = alias("Turned", tuple[U, T], type_params=(T, U))
    assert DocumentSource({}).read([1, "a"], turned[str, int]) == (1, "a")
    assert DocumentSource({}).read([[1, "a"]], alias("Named", dict[int, str])) == {1: "a"}
    assert DocumentSource({}).read(1.5, alias("Outer", alias("Inner", float))) == 1.5
    assert DocumentSource({}).read(None, alias("Perhaps", int | None)) is None
    for wrong in (["a", 1], {"kind": "Stack"}, "a0"):
        with pytest.raises(FormatError):
            DocumentSource({}).read(wrong, turned[str, int])


def test_a_declared_type_that_is_no_class_is_an_error_in_one_sentence():
    with pytest.raises(FormatError):
        DocumentSource({}).read("one", Literal["one"])


@pytest.mark.parametrize("name", homes())
def test_every_field_of_a_form_has_a_type_that_can_be_read(name):
    kind = form_named(name).kind
    if hasattr(kind, "of_saved") or kind.__module__ != homes()[name]:  # they read themselves
        return
    hints = typing.get_type_hints(kind)
    for field in constructor_fields(kind):
        waiting = [hints[field]]
        while waiting:
            hint = plain_type(waiting.pop())
            origin = typing.get_origin(hint)
            if origin is not np.ndarray:
                assert isinstance(origin or hint, type), (field, hint)
                waiting += [part for part in typing.get_args(hint) if part is not ...]
