# SPDX-License-Identifier: Apache-2.0
"""Settings of a program by key, as `pyflink.common.Configuration`.

A `Configuration` takes keys as text, here as in PyFlink.  A `ConfigOption` holds a key and its default.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, Generic

import attrs

from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["ConfigOption", "ConfigOptions", "Configuration", "to_bool", "to_float", "to_int"]

__getattr__ = of_pyflink(__name__)


class Configuration(WithoutJava):
    """Settings by key.

    Args:
        other: A configuration to copy; None for no settings.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:  # noqa: A002  PyFlink's name
        """Make a configuration from a dict.

        Args:
            map: Values by key; other values than texts become texts.
        """
        made = cls()
        for key, value in map.items():
            made.set_string(key, value)
        return made

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """Read a list: in YAML, as `[a, b]` or as lines `- a`, or as `a;b`.

        A list in YAML may have texts, numbers, booleans, nulls and lists.

        Args:
            value: The text of the list; an empty text is an empty list.

        Raises:
            DeclarationTypeError: The value is no text.
            DeclarationValueError: A list in YAML is not well formed, or has a value of another kind.
        """
        if not value:
            return []
        if not isinstance(value, str):
            msg = (
                f"parse_list_value takes a text, got {short_repr(value)}; give for example '[a, b]'"
            )
            raise DeclarationTypeError(msg)
        found = _read_yaml_list(value)
        return value.split(";") if found is None else found

    def get_string(self, key: str, default_value: str) -> str:
        """Return the value of a key as text.

        Args:
            key: The key of the setting.
            default_value: The result if the key has no value.
        """
        return _text(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key of the setting.
            value: The new value, which replaces an earlier one.
        """
        self._values[key] = _text(value)
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value of a key as an int.

        Args:
            key: The key of the setting.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no int.
        """
        return self._get(key, default_value, to_int)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key of the setting.
            value: The new value, or a text of it; it replaces an earlier one.

        Raises:
            DeclarationValueError: The value is no int.
        """
        return self._set(key, value, int, to_int)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the value of a key as a bool.

        Args:
            key: The key of the setting.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no bool.
        """
        return self._get(key, default_value, to_bool)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key of the setting.
            value: The new value, or a text of it; it replaces an earlier one.

        Raises:
            DeclarationValueError: The value is no bool.
        """
        return self._set(key, value, bool, to_bool)

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value of a key as a float.

        Args:
            key: The key of the setting.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The text of the value is no float.
        """
        return self._get(key, default_value, to_float)

    def set_float(self, key: str, value: float) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key of the setting.
            value: The new value, or a text of it; it replaces an earlier one.

        Raises:
            DeclarationValueError: The value is no number.
        """
        return self._set(key, value, float, to_float)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return the value of a key as bytes.

        Args:
            key: The key of the setting.
            default_value: The result if the key has no value.

        Raises:
            DeclarationValueError: The value is no bytes.
        """
        value = self._values.get(key)
        if value is not None and not isinstance(value, bytes):
            raise _misfit(key, value, "bytearray")
        return bytearray(default_value if value is None else value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set the value of a key.

        Args:
            key: The key of the setting.
            value: The new value, which replaces an earlier one.
        """
        self._values[key] = bytes(value)
        return self

    def key_set(self) -> set[str]:
        """Return the keys that have a value."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Return whether a key has a value.

        Args:
            key: The key of the setting.
        """
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Remove the value of a key, and return whether it had one.

        Args:
            key: The key of the setting.
        """
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Copy the settings of another configuration into this one.

        Args:
            other: The other configuration; its values replace those here.
            prefix: A text to put before each of its keys; None for no text.
        """
        self._values |= {f"{prefix or ''}{key}": value for key, value in other._values.items()}
        return self

    def add_all_to_dict(self, target_dict: MutableMapping[str, Any]) -> None:
        """Put all settings into a dict: a value that was set as an int is an int there.

        Args:
            target_dict: The dict, whose former values are replaced.
        """
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return all settings, as text."""
        return {key: _text(value) for key, value in self._values.items()}

    def _set(
        self, key: str, value: Any, kind: type, convert: Callable[[str], Any]
    ) -> Configuration:
        try:
            self._values[key] = value if type(value) is kind else convert(_text(value))
        except ValueError as error:
            raise _misfit(key, value, kind.__name__) from error
        return self

    def _get(self, key: str, default: T, convert: Callable[[str], T]) -> T:
        value = self._values.get(key)
        if value is None:
            return default
        try:
            return convert(_text(value))
        except ValueError as error:
            raise _misfit(key, value, type(default).__name__) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __deepcopy__(self, _: Any) -> Configuration:
        return Configuration(self)

    def __str__(self) -> str:
        shown_values = (
            f"{key}={_HIDDEN if _is_secret(key) else _text(value)}"
            for key, value in self._values.items()
        )
        return f"{{{', '.join(shown_values)}}}"


_HIDDEN: Final = "******"
_SECRETS: Final = (
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
)
"""Parts of keys whose values `str` hides, as Flink does."""


def _is_secret(key: str) -> bool:
    return any(part in key.lower() for part in _SECRETS)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):  # as YAML writes bytes
        return f"!!binary |-\n  {base64.b64encode(value).decode()}" if value else '!!binary ""'
    return value if isinstance(value, str) else repr(value)


def to_int(text: str) -> int:
    """Return the int of a setting's text, as Java reads it.

    Raises:
        ValueError: The text is no int.
    """
    # Python's int also takes spaces and underscores, which Java refuses.
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    return int(text)


def to_float(text: str) -> float:
    """Return the float of a setting's text, as Java reads it.

    Raises:
        ValueError: The text is no float.
    """
    if "_" in text:
        raise ValueError(text)
    return float(text)


def to_bool(text: str) -> bool:
    """Return the bool of a setting's text, in any case of letters.

    Raises:
        ValueError: The text is no bool.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _misfit(key: str, value: Any, kind: str) -> DeclarationValueError:
    msg = f"Could not parse value {short_repr(value)} for key {short_repr(key)} as {kind}; set another one"
    return DeclarationValueError(msg)


# Options


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


# Lists in YAML
#
# Flink reads settings with a library for all of YAML.  A program gives short lists, so this reader takes
# lists of scalars and lists only, and refuses the rest by name; that needs no package of YAML.

_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    (r"[-+]?[0-9]+", int),
    (r"0o[0-7]+", lambda text: int(text, 8)),
    (r"0x[0-9a-fA-F]+", lambda text: int(text, 16)),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(inf|Inf|INF)", lambda text: float(text.replace(".", ""))),
    (r"\.(nan|NaN|NAN)", lambda _: float("nan")),
)
_OTHER: Final = re.compile(
    r"[&*!|>%@`{}?]|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|.*(:(\s|$)|\s#|\n)", re.DOTALL
)
"""Plain texts that are no scalar here: references, types, maps, times, comments, several lines."""
_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PLAIN: Final = re.compile(r"[^,\[\]{}]*")
_COMMENT: Final = re.compile(r"(^|\s)#.*$", re.MULTILINE)


def _read_yaml_list(text: str) -> list[Any] | None:
    """Read a list in YAML; return None if the text does not begin like one.

    Raises:
        DeclarationValueError: The list is not well formed, or has a value of another kind.
    """
    begin = text.strip()
    is_block = re.match(r"-(\s|$)", begin) is not None
    if not is_block and not begin.startswith("["):
        return None
    try:
        if is_block:
            return _block([line for line in _COMMENT.sub("", text).splitlines() if line.strip()])
        return _whole_flow(begin)
    except ValueError as error:
        msg = (
            "a list of YAML has texts, numbers, booleans, nulls and lists, got "
            f"{short_repr(error.args[0])} in {short_repr(text)}; put texts into quotes, or write a;b"
        )
        raise DeclarationValueError(msg) from None


def _whole_flow(text: str) -> list[Any]:
    """Read a list in brackets; only a comment may follow it."""
    found, end = _flow(text, 1)
    rest = _COMMENT.sub("", text[end:]).strip()
    if rest:
        raise ValueError(rest)
    return found


def _block(lines: list[str]) -> list[Any]:
    """Read a list whose items begin with hyphens, each on a line of its own."""
    # The first hyphen sets the depth: a line further in continues the item above it.
    depth, items = len(lines[0]) - len(lines[0].lstrip()), []
    for line in lines:
        inner = line[depth + 1 :]
        if line[:depth].strip() == "" and re.match(r"-(\s|$)", line[depth:]):
            items.append([f" {inner}"])
        elif items and line[: depth + 1].strip() == "":
            items[-1].append(line)
        else:
            raise ValueError(line.strip())
    return [_item(each, depth) for each in items]


def _item(lines: list[str], depth: int) -> Any:
    first = f"{' ' * depth}{lines[0]}"
    text = first.strip()
    if re.match(r"-(\s|$)", text) or not text:
        more = lines[1:] if not text else [first, *lines[1:]]
        return _block(more) if more else None
    if len(lines) > 1:
        raise ValueError(lines[1].strip())
    return _whole_flow(text) if text.startswith("[") else _scalar(text)


def _flow(text: str, at: int) -> tuple[list[Any], int]:
    """Read a list from the position after its opening bracket; return it and the position after it."""
    items: list[Any] = []
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if text[at : at + 1] == "]":
            return items, at + 1
        if text[at : at + 1] == "[":
            item, at = _flow(text, at + 1)
        else:
            found = _QUOTED.match(text, at) or _PLAIN.match(text, at)
            assert found is not None  # plain text may be empty
            if not found[0].strip():
                raise ValueError(text[at : at + 1] or "the end")
            item, at = _scalar(found[0].strip()), found.end()
        items.append(item)
        at += len(text[at:]) - len(text[at:].lstrip())
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            raise ValueError(text[at : at + 1] or "the end")


def _scalar(text: str) -> Any:
    if text[:1] in ("'", '"'):
        if not _QUOTED.fullmatch(text) or "\n" in text:
            raise ValueError(text)
        return text[1:-1].replace("''", "'") if text[0] == "'" else json.loads(text)
    if _OTHER.match(text):
        raise ValueError(text)
    if text in _WORDS:
        return _WORDS[text]
    for form, convert in _NUMBERS:
        if re.fullmatch(form, text):
            return convert(text)
    return text
