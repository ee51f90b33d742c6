"""Frozen dataclasses that Python makes in a quarter of the time.

`dataclasses.dataclass` compiles six methods for each frozen class. For the hundred classes of a
graph that was a sixth of the time of ``modelflow check``. Here the classes share the code of all
methods but ``__init__``. In all other respects they are dataclasses of the standard library.
"""

# ruff: noqa: ANN001, ANN003, ANN201, N807 - the methods get these names, and mypy the real function

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """Makes a dataclass; see `dataclasses.dataclass`. No field may be an `InitVar`."""
        if cls is None:
            return partial(dataclass, **options)
        is_derived = any(map(dataclasses.is_dataclass, cls.__mro__))
        if is_derived or not options.get("frozen") or options.get("order"):
            return dataclasses.dataclass(cls, **options)
        own = {name for name, value in vars(cls).items() if value is not None}
        without = {"init": False, "repr": False, "eq": False, "frozen": False}
        made = dataclasses.dataclass(cls, **options | without)
        made.__dataclass_params__.frozen = True
        methods = [*_make_methods(made)]
        if options.get("eq", True):
            methods += _make_comparing(made)
        if options.get("slots"):
            methods += [__getstate__, __setstate__]
        for method in methods:
            if method.__name__ not in own:
                method.__qualname__ = f"{made.__qualname__}.{method.__name__}"
                setattr(made, method.__name__, method)
        return made


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


def _compile_init(made: Any) -> Callable[..., None]:
    """Returns ``__init__``: a copy of each argument in its field, then ``__post_init__``."""
    scope: dict[str, Any] = {"put": object.__setattr__, "FACTORY": _Factory()}
    scope["__name__"] = made.__module__
    positional, body = ["self"], []
    keywords: list[str] = []
    for field in dataclasses.fields(made):
        name, argument, value = field.name, field.name, field.name
        if field.default is not dataclasses.MISSING:
            scope[f"default_{name}"] = field.default
            argument, value = f"{name}=default_{name}", name if field.init else f"default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"make_{name}"] = field.default_factory
            argument, value = f"{name}=FACTORY", f"make_{name}()"
            if field.init:
                value += f" if {name} is FACTORY else {name}"
        if field.init:
            (keywords if field.kw_only else positional).append(argument)
        if field.init or argument != name:
            body.append(f"put(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    exec("\n ".join([f"def __init__({arguments}):", *body, "pass"]), scope)
    init: Callable[..., None] = scope["__init__"]
    types = {field.name: field.type for field in dataclasses.fields(made) if field.init}
    init.__annotations__ = types | {"return": None}
    return init


def _make_methods(made: Any) -> Iterator[Callable[..., Any]]:
    fields = dataclasses.fields(made)
    names = [field.name for field in fields]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = [f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    yield from (_compile_init(made), __repr__, __setattr__, __delattr__)


def _make_comparing(made: Any) -> Iterator[Callable[..., Any]]:
    names = [field.name for field in dataclasses.fields(made) if field.compare]

    def values(self: Any) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in names])

    if len(names) > 1:  # of one name, `attrgetter` returns no tuple
        values = attrgetter(*names)  # type: ignore[assignment]

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if type(self) is type(other) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    yield from (__eq__, __hash__)


# A slotted object has no `__dict__`, and its fields cannot be set as `pickle` and `copy` do it.
def __getstate__(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def __setstate__(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
