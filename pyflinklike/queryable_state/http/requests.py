# SPDX-License-Identifier: Apache-2.0
"""Requests: their path and parameters, and the guard that decides whether a sender may ask.

WSGI hands over bytes as Latin-1 text.  Bytes that are not UTF-8 are refused, so that no name is
mistaken for another.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import attrs

from pyflinklike._checks import is_int
from pyflinklike._messages import shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError

__all__ = ["BOUNDS", "Guard", "count_of", "path_of", "query_of", "whole"]

BOUNDS = ("at_least_batch", "max_age", "timeout")
"""The parameters of every request that reads state."""

_DIGITS = re.compile(r"[0-9]{1,18}")
_HOST = re.compile(r"(\[[0-9a-f:.%]+\]|[^:\[\]]+)(:[0-9]*)?")


def path_of(environ: Mapping[str, Any]) -> list[str]:
    """Return the parts of the path.

    Raises:
        StateValueError: The path is not UTF-8.
    """
    return _decode(_bytes(environ.get("PATH_INFO", "")), "the path").strip("/").split("/")


def query_of(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters by name.

    Raises:
        StateValueError: The query string is not UTF-8, or has a parameter twice.
    """
    found: dict[str, str] = {}
    for part in _bytes(environ.get("QUERY_STRING", "")).split(b"&"):
        if not part:
            continue
        name, _, value = (
            _decode(unquote_to_bytes(each.replace(b"+", b" ")), "the query string")
            for each in part.partition(b"=")
        )
        if name in found:
            msg = f"a parameter is given once, got {shown(name)} twice; leave one out"
            raise StateValueError(msg)
        found[name] = value
    return found


def whole(query: Mapping[str, str], name: str, most: int | None = None) -> int | None:
    """Return a parameter that is a whole number; None if it is missing.

    Raises:
        StateValueError: The value is no whole number, or too large.
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
    except UnicodeEncodeError:  # the server has decoded the bytes, against WSGI
        return text.encode("utf-8", "surrogatepass")


def _decode(given: bytes, what: str) -> str:
    try:
        return given.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"{what} must be UTF-8, got bytes that are not ({error.reason}); encode it as UTF-8"
        raise StateValueError(msg) from error


@attrs.frozen
class Guard:
    """Decides whether a request is answered.

    Args:
        hosts: Accepted names of `Host`, each with a port or for every port; None for any.
        token: The required token of `Authorization: Bearer`; None for none.
    """

    hosts: frozenset[str] | None
    token: bytes | None = attrs.field(repr=False)

    @classmethod
    def of(cls, hosts: Iterable[str] | None, token: str | None) -> Guard:
        """Check the arguments of `app`, and make a guard of them.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument has a wrong type or value.
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
        """Return whether a request comes under an accepted name."""
        # A web page can make its own name lead to this machine, and the browser then lets it read
        # the answers (DNS rebinding).  The page cannot change the `Host` of its requests.
        if self.hosts is None:
            return True
        given = str(environ.get("HTTP_HOST", "")).lower()
        found = _HOST.fullmatch(given)
        return found is not None and (given in self.hosts or found[1].rstrip(".") in self.hosts)

    def knows_token(self, environ: Mapping[str, Any]) -> bool:
        """Return whether a request has the token; the comparison takes constant time."""
        if self.token is None:
            return True
        kind, _, given = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token)
        return is_right and kind.lower() == "bearer"


def count_of(given: Any, what: str) -> int:
    """Return an argument of `app` that is a count.

    Raises:
        DeclarationValueError: The argument is no int of 1 or more.
    """
    if not is_int(given) or given < 1:
        msg = f"{what} takes an int from 1 on, got {shown(given)}; give one"
        raise DeclarationValueError(msg)
    return int(given)
