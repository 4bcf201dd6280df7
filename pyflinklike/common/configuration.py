# SPDX-License-Identifier: Apache-2.0
"""Settings of a program by key, as `pyflink.common.Configuration`; values are text inside."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

from pyflinklike.engine.shown import shown
from pyflinklike.errors import DeclarationValueError

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """Settings by key.

    Args:
        other: Whose settings it begins with.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, str] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:  # noqa: A002  PyFlink's name
        """Settings of a dict."""
        made = cls()
        for key, value in map.items():
            made._values[key] = _text(value)
        return made

    def get_string(self, key: str, default_value: str) -> str:
        """The value of a key as text."""
        return self._values.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Give a key a value."""
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """The value of a key as an int.

        Raises:
            DeclarationValueError: It is none.
        """
        return self._get(key, default_value, int)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Give a key a value."""
        return self._set(key, int(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """The value of a key as a bool.

        Raises:
            DeclarationValueError: It is none.
        """
        return self._get(key, default_value, lambda text: _BOOLEANS[text.lower()])

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Give a key a value."""
        return self._set(key, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
        """The value of a key as a float.

        Raises:
            DeclarationValueError: It is none.
        """
        return self._get(key, default_value, float)

    def set_float(self, key: str, value: float) -> Configuration:
        """Give a key a value."""
        return self._set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """The value of a key as bytes.

        Raises:
            DeclarationValueError: It is none.
        """
        return self._get(key, default_value, lambda text: bytearray(ast.literal_eval(text)))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Give a key a value."""
        return self._set(key, bytes(value))

    def key_set(self) -> set[str]:
        """The keys that have a value."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Whether a key has a value."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Take a key's value away; whether it had one."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over the settings of another one.

        Args:
            other: Whose.
            prefix: Before each of its keys.
        """
        self._values |= {f"{prefix or ''}{key}": value for key, value in other._values.items()}
        return self

    def add_all_to_dict(self, target_dict: MutableMapping[str, str]) -> None:
        """Put all settings into a dict."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """All settings, as text."""
        return dict(self._values)

    def _set(self, key: str, value: Any) -> Configuration:
        self._values[key] = _text(value)
        return self

    def _get(self, key: str, default: T, convert: Callable[[str], T]) -> T:
        text = self._values.get(key)
        if text is None:
            return default
        try:
            return convert(text)
        except (ValueError, KeyError, SyntaxError) as error:
            kind = type(default).__name__
            msg = f"Could not parse value {shown(text)} for key {shown(key)} as {kind}; set another one"
            raise DeclarationValueError(msg) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __deepcopy__(self, _: Any) -> Configuration:
        return Configuration(self)

    def __str__(self) -> str:
        return str(self._values)


_BOOLEANS = {"true": True, "false": False}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
