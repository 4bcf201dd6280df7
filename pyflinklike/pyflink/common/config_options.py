# SPDX-License-Identifier: Apache-2.0
"""Keys of settings with their types, as `pyflink.common.ConfigOptions`.

A `Configuration` takes keys as text, here as in PyFlink; an option names a key and its default.
"""

from __future__ import annotations

from typing import Any, Generic

import attrs

from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["ConfigOption", "ConfigOptions"]

__getattr__ = of_pyflink(__name__)


@attrs.frozen
class ConfigOption(Generic[T]):
    """A key of a setting, and its value where it is not set.

    Args:
        key: The key.
        default: The value; None for no value.
    """

    key: str
    default: T | None = None


class ConfigOptions:
    """Makes options: `ConfigOptions.key("a.b").int_type().default_value(3)`."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Begin an option.

        Args:
            key: The key.
        """
        return ConfigOptions.OptionBuilder(key)

    @attrs.frozen
    class OptionBuilder:
        """An option whose type is to be chosen."""

        _key: str

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Have values of bool."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Have values of int."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        long_type = int_type

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Have values of float."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        double_type = float_type

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Have values of str."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    @attrs.frozen
    class TypedConfigOptionBuilder(Generic[T]):
        """An option whose default is to be chosen."""

        _key: str
        _type: type[Any]

        def default_value(self, value: T) -> ConfigOption[T]:
            """Make an option with a default.

            Args:
                value: The default.

            Raises:
                DeclarationTypeError: It does not have the option's type.
            """
            taken = (int, float) if self._type is float else self._type
            if not isinstance(value, taken) or isinstance(value, bool) != (self._type is bool):
                kind = self._type.__name__
                msg = f"the default of {self._key!r} is of {kind}, got {short_repr(value)}; give {kind}"
                raise DeclarationTypeError(msg)
            return ConfigOption(self._key, value)

        def no_default_value(self) -> ConfigOption[str]:
            """Make an option without a default."""
            return ConfigOption(self._key)
