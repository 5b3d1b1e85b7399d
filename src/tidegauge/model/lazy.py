"""A property that is computed once for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class lazy(Generic[Owner, Value]):  # noqa: N801 - used as a decorator
    """Like `functools.cached_property`, but without its lock, which until Python 3.12 all objects of a class
    share: parallel flows would wait for each other's queries. Only one thread may use each object."""

    def __init__(self, make: Callable[[Owner], Value]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[Owner, Value]: ...
    @overload
    def __get__(self, instance: Owner, owner: type) -> Value: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._make(instance)
        return found
