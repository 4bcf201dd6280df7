# SPDX-License-Identifier: Apache-2.0
"""What a request says: its path and parameters, and whether its sender may ask at all.

WSGI gives bytes as Latin-1.  They are UTF-8 or refused, so that no name is mistaken for another.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import attrs

from pyflinklike.checks import is_int
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.shown import shown

__all__ = ["BOUNDS", "Guard", "count_of", "path_of", "query_of", "whole"]

BOUNDS = ("at_least_batch", "max_age", "timeout")
"""Parameters that every answer of state takes."""

_DIGITS = re.compile(r"[0-9]{1,18}")
_HOST = re.compile(r"(\[[0-9a-f:.%]+\]|[^:\[\]]+)(:[0-9]*)?")


def path_of(environ: Mapping[str, Any]) -> list[str]:
    """The parts of the path.

    Raises:
        StateValueError: It is not UTF-8.
    """
    return _decoded(_bytes(environ.get("PATH_INFO", "")), "the path").strip("/").split("/")


def query_of(environ: Mapping[str, Any]) -> dict[str, str]:
    """The parameters by name.

    Raises:
        StateValueError: They are not UTF-8, or one is given twice.
    """
    found: dict[str, str] = {}
    for part in _bytes(environ.get("QUERY_STRING", "")).split(b"&"):
        if not part:
            continue
        name, _, value = (
            _decoded(unquote_to_bytes(each.replace(b"+", b" ")), "the query string")
            for each in part.partition(b"=")
        )
        if name in found:
            msg = f"a parameter is given once, got {shown(name)} twice; leave one out"
            raise StateValueError(msg)
        found[name] = value
    return found


def whole(query: Mapping[str, str], name: str, most: int | None = None) -> int | None:
    """A parameter that is a whole number; None if it is not given.

    Raises:
        StateValueError: It is none, or too large.
    """
    if name not in query:
        return None
    text = query[name]
    if not _DIGITS.fullmatch(text) or (most is not None and int(text) > most):
        end = "on, of at most 18 digits" if most is None else f"to {most}"
        msg = f"{name} takes a whole number from 0 {end}, got {shown(text)}; give one"
        raise StateValueError(msg)
    return int(text)


def _bytes(given: Any) -> bytes:
    text = str(given)
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:  # of a server that decodes by itself
        return text.encode("utf-8", "surrogatepass")


def _decoded(given: bytes, what: str) -> str:
    try:
        return given.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"{what} must be UTF-8, got bytes that are not ({error.reason}); encode it as UTF-8"
        raise StateValueError(msg) from error


@attrs.frozen
class Guard:
    """Says whether a request is answered.

    Args:
        hosts: Names of `Host` that are answered, with a port or for all; None for any.
        token: What `Authorization: Bearer` must give; None for nothing.
    """

    hosts: frozenset[str] | None
    token: bytes | None = attrs.field(repr=False)

    @classmethod
    def of(cls, hosts: Iterable[str] | None, token: str | None) -> Guard:
        """The guard of arguments, which are checked.

        Raises:
            DeclarationTypeError, DeclarationValueError: One does not do.
        """
        if token is not None and not isinstance(token, str):
            msg = f"token takes a text, got {type(token).__name__}; give one"
            raise DeclarationTypeError(msg)
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            msg = "token must be printable ASCII, got another text or an empty one"
            raise DeclarationValueError(f"{msg}; for example secrets.token_urlsafe()")
        if hosts is None:
            return cls(None, None if token is None else token.encode())
        names = [] if isinstance(hosts, (str, bytes)) else list(hosts)
        if not names or not all(isinstance(each, str) and _HOST.fullmatch(each) for each in names):
            msg = f"hosts takes a list of names, got {shown(hosts)}; write hosts=['localhost']"
            raise DeclarationTypeError(msg)
        known = frozenset(each.lower() for each in names)
        return cls(known, None if token is None else token.encode())

    def knows_host(self, environ: Mapping[str, Any]) -> bool:
        """Whether it is asked under a name of its own.

        A web page can have its own name lead to this machine, and a browser then lets it read the
        answers (DNS rebinding): what it cannot change is the `Host` of its requests.
        """
        if self.hosts is None:
            return True
        given = str(environ.get("HTTP_HOST", "")).lower()
        found = _HOST.fullmatch(given)
        return found is not None and (given in self.hosts or found[1].rstrip(".") in self.hosts)

    def knows_token(self, environ: Mapping[str, Any]) -> bool:
        """Whether it may read; compared in constant time."""
        if self.token is None:
            return True
        kind, _, given = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token)
        return is_right and kind.lower() == "bearer"


def count_of(given: Any, what: str) -> int:
    """A number of an argument of `app`.

    Raises:
        DeclarationValueError: It is not at least 1.
    """
    if not is_int(given) or given < 1:
        msg = f"{what} takes an int from 1 on, got {shown(given)}; give one"
        raise DeclarationValueError(msg)
    return int(given)
