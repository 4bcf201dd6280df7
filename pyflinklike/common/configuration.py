# SPDX-License-Identifier: Apache-2.0
"""Settings of a program by key, as `pyflink.common.Configuration`; values are stored as text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.foreign_names import WithoutJava
from pyflinklike.engine.shown import shown
from pyflinklike.errors import DeclarationValueError

__all__ = ["Configuration"]

__getattr__ = of_pyflink(__name__)

T = TypeVar("T")


class Configuration(WithoutJava):
    """Settings by key.

    Args:
        other: The configuration whose settings it begins with; None for no settings.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, str] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:  # noqa: A002  PyFlink's name
        """Make a configuration of a dict.

        Args:
            map: Values by key; a value that is no text is stored as its text.
        """
        made = cls()
        for key, value in map.items():
            made._values[key] = _text(value)
        return made

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Return the texts of a list, which is written as `a;b` or as `[a, b]`.

        Args:
            value: The text of the list; an empty one has none.
        """
        text = value.strip() if value else ""
        if text.startswith("[") and text.endswith("]"):
            return [part.strip().strip("'\"") for part in text[1:-1].split(",") if part.strip()]
        return text.split(";") if text else []

    def get_string(self, key: str, default_value: str) -> str:
        """Return the value of a key as text.

        Args:
            key: The key.
            default_value: The result if the key has no value.
        """
        return self._values.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key.
            value: The value, which replaces a former one.
        """
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value of a key as an int.

        Args:
            key: The key.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no int.
        """
        return self._get(key, default_value, int)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key.
            value: The value, which replaces a former one.
        """
        return self._set(key, int(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the value of a key as a bool.

        Args:
            key: The key.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no bool.
        """
        return self._get(key, default_value, lambda text: _BOOLEANS[text.lower()])

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key.
            value: The value, which replaces a former one.
        """
        return self._set(key, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value of a key as a float.

        Args:
            key: The key.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no float.
        """
        return self._get(key, default_value, float)

    def set_float(self, key: str, value: float) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key.
            value: The value, which replaces a former one.
        """
        return self._set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return the value of a key as bytes.

        Args:
            key: The key.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no bytes.
        """
        return self._get(key, default_value, lambda text: bytearray(ast.literal_eval(text)))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key.
            value: The value, which replaces a former one.
        """
        return self._set(key, bytes(value))

    def key_set(self) -> set[str]:
        """Return the keys that have a value."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether a key has a value.

        Args:
            key: The key.
        """
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Remove the value of a key, and return whether it had one.

        Args:
            key: The key.
        """
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over the settings of another configuration.

        Args:
            other: The other configuration; its values replace former ones.
            prefix: A text put before each of its keys; None for no text.
        """
        self._values |= {f"{prefix or ''}{key}": value for key, value in other._values.items()}
        return self

    def add_all_to_dict(self, target_dict: MutableMapping[str, str]) -> None:
        """Put all settings into a dict, as text.

        Args:
            target_dict: The dict, whose former values are replaced.
        """
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return all settings, as text."""
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
