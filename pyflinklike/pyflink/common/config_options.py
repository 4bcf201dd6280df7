# SPDX-License-Identifier: Apache-2.0
"""Keys of settings with their types, as `pyflink.common.ConfigOptions`.

A `Configuration` takes keys as text, here as in PyFlink.  An option holds a key and its default.
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
    """A key of a setting, and its value if it is not set.

    Args:
        key: The key of a `Configuration`.
        default: The value if the key is not set; None for no value.
    """

    key: str
    default: T | None = None


class ConfigOptions:
    """Makes options: `ConfigOptions.key("a.b").int_type().default_value(3)`."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Begin an option.

        Args:
            key: The key of a `Configuration`.
        """
        return ConfigOptions.OptionBuilder(key)

    @attrs.frozen
    class OptionBuilder:
        """A key without a type yet."""

        _key: str

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Choose bool as the type of the value."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Choose int as the type of the value."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        long_type = int_type

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Choose float as the type of the value."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        double_type = float_type

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Choose str as the type of the value."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    @attrs.frozen
    class TypedConfigOptionBuilder(Generic[T]):
        """A key and its type, without a default yet."""

        _key: str
        _type: type[Any]

        def default_value(self, value: T) -> ConfigOption[T]:
            """Make an option with a default.

            Args:
                value: The default, of the option's type.

            Raises:
                DeclarationTypeError: It does not have the option's type.
            """
            # A bool is an int for Python, but not for an option.
            taken = (int, float) if self._type is float else self._type
            if not isinstance(value, taken) or isinstance(value, bool) != (self._type is bool):
                kind = self._type.__name__
                msg = f"the default of {self._key!r} must be of type {kind}, got {short_repr(value)}; give {kind}"
                raise DeclarationTypeError(msg)
            return ConfigOption(self._key, value)

        def no_default_value(self) -> ConfigOption[str]:
            """Make an option without a default."""
            return ConfigOption(self._key)
