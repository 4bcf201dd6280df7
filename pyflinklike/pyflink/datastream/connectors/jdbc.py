# SPDX-License-Identifier: Apache-2.0
"""Writes rows into a database by statements of SQL, at PyFlink's path.

No Java runs here.  The URL of JDBC chooses a driver in Python: psycopg (the extra `postgres`) or the standard
library's sqlite3.  Both have the interface of PEP 249 (DB-API 2, https://peps.python.org/pep-0249/).

A batch of rows is one transaction.  After a failure the batch is written again.  If Spark runs a micro-batch
again, all its rows are written again.  So rows arrive at least once, and the statement should give the same
result when it runs twice, as an upsert does.

    sink = JdbcSink.sink(
        "insert into page values (?, ?) on conflict (id) do update set views = excluded.views",
        Types.ROW([Types.INT(), Types.INT()]),
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:pages.db").build(),
    )
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import attrs

from pyflinklike._checks import check_count, install
from pyflinklike._clock import wall_clock
from pyflinklike._messages import instance_of, short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    RequirementError,
    SparkSetupError,
    StateValueError,
)
from pyflinklike.pyflink._graph.sinks import Renaming, Sink, SinkWriter
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.formats.value_conversion import check_row_type, parser_of
from pyflinklike.types import Instant, RowTypeInfo
from pyflinklike.types.time_types import InstantTypeInfo

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

__getattr__ = of_pyflink(__name__)

B = TypeVar("B", bound="_OptionsBuilder")


# Options


class _OptionsBuilder:
    """The base of both builders, which collects fields; the options check them when they are built."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def _set(self: B, **fields: Any) -> B:
        self._fields |= fields
        return self


def _check_text(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, (str, type(None))):
        got = "a value" if field.name == "password" else short_repr(value)
        msg = f"{field.name} is text, got {got} of another kind; give a str"
        raise DeclarationTypeError(msg)


def _batch_size(number: Any) -> int:
    return check_count(number, "JdbcExecutionOptions: the batch size")


def _check_from_zero(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not int or value < 0:
        msg = f"{field.name} is 0 or more, got {short_repr(value)}; give a whole number"
        raise DeclarationValueError(msg)


@attrs.frozen
class JdbcConnectionOptions:
    """The address of a database, as in PyFlink; `JdbcConnectionOptionsBuilder` makes it.

    Args:
        url: The URL of JDBC, such as `jdbc:sqlite:path`.
        driver_name: The name of a driver; it is ignored, because the URL names the database.
        user_name: The name of the user, or None.
        password: The password, or None; no message shows it.
    """

    url: str = attrs.field(validator=_check_text, repr=lambda url: repr(_mask_url(url)))
    driver_name: str | None = attrs.field(default=None, validator=_check_text)
    user_name: str | None = attrs.field(default=None, validator=_check_text)
    password: str | None = attrs.field(default=None, validator=_check_text, repr=False)

    def get_db_url(self) -> str:
        """Return the URL of JDBC."""
        return self.url

    def get_driver_name(self) -> str | None:
        """Return the name of the driver; None if none was set.  It has no effect here."""
        return self.driver_name

    def get_user_name(self) -> str | None:
        """Return the name of the user; None if none was set."""
        return self.user_name

    def get_password(self) -> str | None:
        """Return the password; None if none was set."""
        return self.password

    class JdbcConnectionOptionsBuilder(_OptionsBuilder):
        """Sets the address of the database, and `build`s the options."""

        def with_url(self: B, url: str) -> B:
            """Set the URL.

            Args:
                url: The address, `jdbc:postgresql://host:port/database` or `jdbc:sqlite:path`.
            """
            return self._set(url=url)

        def with_driver_name(self: B, driver_name: str) -> B:
            """Store the name of a driver for its getter: the URL names the database.

            Args:
                driver_name: The name of a class in Java.
            """
            return self._set(driver_name=driver_name)

        def with_user_name(self: B, user_name: str) -> B:
            """Set the user.

            Args:
                user_name: The name of the database's user.
            """
            return self._set(user_name=user_name)

        def with_password(self: B, password: str) -> B:
            """Set the password.

            Args:
                password: The password of this user.
            """
            return self._set(password=password)

        def build(self) -> JdbcConnectionOptions:
            """Make the options.

            Raises:
                DeclarationTypeError: A part is no text.
                DeclarationValueError: `with_url` was not called.
            """
            if "url" not in self._fields:
                msg = "a connection needs a URL, got none; call with_url"
                raise DeclarationValueError(msg)
            return JdbcConnectionOptions(**self._fields)


@attrs.frozen
class JdbcExecutionOptions:
    """Options for writing rows, as in PyFlink; `builder()` makes them.

    Args:
        batch_interval_ms: The age in ms of a batch's first row at which the batch is written; 0 for no
            limit.  The age is checked when a row arrives.  Each micro-batch of Spark ends with a write.
        batch_size: The number of rows at which a batch is written.
        max_retries: The number of further attempts if the database fails.
    """

    batch_interval_ms: int = attrs.field(default=0, validator=_check_from_zero)
    batch_size: int = attrs.field(default=5000, converter=_batch_size)
    max_retries: int = attrs.field(default=3, validator=_check_from_zero)

    def get_batch_interval_ms(self) -> int:
        """Return the age in ms at which a batch is written; 0 for no limit."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows at which a batch is written."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return the number of further attempts if the database fails."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Make the default options: 5,000 rows, no interval, 3 retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Make a builder of the options."""
        return JdbcExecutionOptions.Builder()

    class Builder(_OptionsBuilder):
        """Sets the options for writing rows, and `build`s them."""

        def with_batch_size(self: B, size: int) -> B:
            """Set the number of rows at which a batch is written.

            Args:
                size: The number, at least 1.
            """
            return self._set(batch_size=size)

        def with_batch_interval_ms(self: B, interval_ms: int) -> B:
            """Set the age at which a batch is written.

            Args:
                interval_ms: The age in ms; 0 for no limit.
            """
            return self._set(batch_interval_ms=interval_ms)

        def with_max_retries(self: B, max_retries: int) -> B:
            """Set the number of further attempts if the database fails.

            Args:
                max_retries: The number, 0 or more.
            """
            return self._set(max_retries=max_retries)

        def build(self) -> JdbcExecutionOptions:
            """Make the options.

            Raises:
                DeclarationTypeError, DeclarationValueError: A number is out of its range.
            """
            return JdbcExecutionOptions(**self._fields)


# The sink


@attrs.frozen
class JdbcSink(Sink):
    """Writes rows into a database, at least once, as in PyFlink; `JdbcSink.sink` makes it.

    Args:
        statement: The statement, as the driver takes it.
        type_info: The type of the rows.
        database: The database, with its driver.
        options: The options for writing rows.
        clock: Returns the processing time in ms.
        wait: Waits for a number of seconds.
    """

    statement: str
    type_info: RowTypeInfo
    database: Database
    options: JdbcExecutionOptions
    clock: Callable[[], int] = wall_clock
    wait: Callable[[float], None] = time.sleep

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Make a sink, for `add_sink` or `sink_to`.

        Args:
            sql: A statement with a `?` for each field, such as an upsert.
            type_info: The type of the rows.
            jdbc_connection_options: The address of the database.
            jdbc_execution_options: The options for writing rows; None takes
                `JdbcExecutionOptions.defaults()`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong, or the statement does
                not have a `?` for each field.
            SparkSetupError: This sink has no driver for the database.
            RequirementError: The driver is not installed.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        for given, kind in (
            (jdbc_connection_options, JdbcConnectionOptions),
            (options, JdbcExecutionOptions),
        ):
            if not isinstance(given, kind):
                remedy = instance_of(kind, given, f"make it by the builder of {kind.__name__}")
                msg = f"JdbcSink.sink takes {kind.__name__}, got {short_repr(given)}; {remedy}"
                raise DeclarationTypeError(msg)
        _check_types(type_info)
        if not isinstance(sql, str):
            msg = (
                f"a statement is text, got {short_repr(sql)}; give an INSERT with ? for each field"
            )
            raise DeclarationTypeError(msg)
        database = _database_of(jdbc_connection_options)
        statement = database.statement(sql, len(type_info.field_types))
        return JdbcSink(statement, type_info, database, options)

    @property
    def is_written_by_tasks(self) -> bool:
        """True: each task writes its rows itself."""
        return True

    def writer(self, *_: Any, **__: Any) -> SinkWriter:
        """Make the writer of the rows of one instance: all instances write alike."""
        return _JdbcWriter(self)


def _check_types(type_info: Any) -> None:
    for kind in check_row_type(type_info).field_types:
        if parser_of(kind) is None and not isinstance(kind, InstantTypeInfo):
            msg = (
                f"a JdbcSink writes fields without parts, got {kind!r}; map the row to one with texts "
                "or numbers, such as JSON"
            )
            raise DeclarationTypeError(msg)


class _JdbcWriter:
    """Writes the rows of one instance, in batches."""

    def __init__(self, sink: JdbcSink) -> None:
        self._sink = sink
        self._values = sink.type_info.converted
        self._rows: list[tuple[Any, ...]] = []
        self._since = 0
        self._connection: Any = None

    def write(self, value: Any, _: int | None) -> None:
        try:
            row = self._values(value)
        except StateValueError as error:
            msg = f"a JdbcSink writes rows of its type_info, got {short_repr(value)}: {error}"
            raise OutputError(msg) from error
        if not self._rows:
            self._since = self._sink.clock()
        self._rows.append(tuple(map(self._sink.database.parameter, row)))
        options = self._sink.options
        interval = options.batch_interval_ms
        is_old = interval > 0 and self._sink.clock() - self._since >= interval
        if is_old or len(self._rows) >= options.batch_size:
            self._flush()

    def prepare(self) -> list[Renaming]:
        self._flush()
        self._close()
        return []

    def finish(self) -> None:
        self.prepare()

    def abandon(self) -> None:
        self._rows = []
        self._close()

    def _flush(self) -> None:
        """Write the batch in one transaction; retry it if the error may pass."""
        if not self._rows:
            return
        database, retries = self._sink.database, self._sink.options.max_retries
        for attempt in range(retries + 1):
            try:
                if self._connection is None:
                    self._connection = database.connect()
                cursor = self._connection.cursor()
                cursor.executemany(self._sink.statement, self._rows)
                self._connection.commit()
            except database.errors as error:
                # After an error a connection may be broken, so the next attempt opens another.
                self._close()
                if not database.is_passing(error):
                    msg = (
                        f"the database refuses rows of a JdbcSink, got {shown_error(error)} from "
                        f"{database.shown} for {self._sink.statement!r} and rows such as "
                        f"{short_repr(self._rows[0])}; change the statement or the rows"
                    )
                    raise OutputError(msg) from error
                if attempt == retries:
                    msg = (
                        f"a JdbcSink cannot write to {database.shown}, got {shown_error(error)} in each of "
                        f"{retries + 1} attempts; check that it runs, or raise with_max_retries"
                    )
                    raise SparkSetupError(msg) from error
                self._sink.wait(1.0 * (attempt + 1))
            else:
                self._rows = []
                return

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # all rows are committed by now, or given up
                connection.close()


# Databases


@attrs.frozen
class Database:
    """A PostgreSQL database, with psycopg's DB-API.

    Args:
        shown: The address for messages, without secrets.
        settings: The arguments of the driver's `connect`, which may contain secrets.
    """

    shown: str
    settings: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def driver(self) -> Any:
        """The driver's module.

        Raises:
            RequirementError: The driver is not installed.
        """
        return _psycopg()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The classes of errors for values and statements that the driver or the database refuses."""
        return self.driver.Error, OverflowError, UnicodeError

    def is_passing(self, error: Exception) -> bool:
        """Return whether another attempt may succeed after an error."""
        driver = self.driver
        return isinstance(error, (driver.OperationalError, driver.InterfaceError))

    def connect(self) -> Any:
        """Open a connection to the database."""
        return self.driver.connect(**self.settings)

    def statement(self, sql: str, fields: int) -> str:
        """Return a statement as the driver takes it.

        Args:
            sql: The statement with a `?` for each field.
            fields: The number of the fields of a row.

        Raises:
            DeclarationValueError: It has another number of `?`.
        """
        plain = _QUOTED.sub("", sql)
        is_unclear = plain.count("?") != sql.count("?") or _UNCLEAR.search(plain)
        if is_unclear or _MARKS.findall(sql).count("?") != fields:
            remedy = "write ?? for an operator's, chr(63) for one in a text, and none in a comment"
            raise _other_count(sql, fields, remedy)
        return _MARKS.sub(lambda at: "?" if at[0] == "??" else "%s", sql.replace("%", "%%"))

    def parameter(self, value: Any) -> Any:
        """Return a value as the driver takes it.

        Raises:
            OutputError: The database would store another value.
        """
        if not isinstance(value, Instant):
            return value
        if value.nanos % 1000:
            msg = f"a database takes microseconds, got {short_repr(value)}; round it"
            raise OutputError(msg)
        try:
            return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        except OverflowError as error:
            msg = f"a database takes years from 1 to 9999, got {short_repr(value)}; leave it out"
            raise OutputError(msg) from error


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# psycopg takes %s, so each `?` becomes one, and `??` stands for an operator's `?`, as in JDBC.  A `?` in a
# text or comment is refused: as a %s it would no longer be a parameter, and a field might get lost.
_MARKS = re.compile(r"\?\??")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_UNCLEAR = re.compile(r"['\"]|(--|/\*|\$).*\?", re.DOTALL)


def _other_count(sql: str, fields: int, remedy: str) -> DeclarationValueError:
    got = f"got {sql.count('?')} for {fields} fields in {sql!r}"
    return DeclarationValueError(f"a statement has a ? for each field of its rows, {got}; {remedy}")


class _Sqlite(Database):
    """A database in a file, with the standard library's DB-API."""

    @property
    def driver(self) -> Any:
        return sqlite3

    def is_passing(self, error: Exception) -> bool:
        # An unknown table is an OperationalError, too.
        is_locked = "locked" in str(error) or "busy" in str(error)
        return is_locked and super().is_passing(error)

    def statement(self, sql: str, fields: int) -> str:
        # SQLite itself takes `?`.  It skips a `?` in a text, and checks the count with the first batch.
        if sql.count("?") < fields:
            raise _other_count(sql, fields, "write one for each")
        return sql

    def parameter(self, value: Any) -> Any:
        value = super().parameter(value)
        if isinstance(value, float) and math.isnan(value):
            msg = "SQLite has no NaN and would write NULL, got NaN; map it to None or a number"
            raise OutputError(msg)
        # These texts sort like their values.  From Python 3.12 on sqlite3 has no adapters for these types.
        return str(value) if isinstance(value, (dt.date, dt.time, Decimal)) else value


def _database_of(options: JdbcConnectionOptions) -> Database:
    """Return the database of a URL.

    Raises:
        DeclarationValueError: It is no URL of JDBC.
        SparkSetupError: This sink has no driver for the database.
        RequirementError: The driver is not installed.
    """
    scheme, _, rest = options.url.partition(":")
    kind, _, address = rest.partition(":")
    if scheme != "jdbc" or not address:
        msg = (
            f"a URL of JDBC is jdbc:postgresql://host/database or jdbc:sqlite:path, got "
            f"{_mask_url(options.url)!r}; give one of these"
        )
        raise DeclarationValueError(msg)
    if kind not in _DATABASES:
        msg = (
            f"a JdbcSink writes to PostgreSQL and SQLite, got jdbc:{kind}; write with stream.to_data_frame() and "
            "Spark's own JDBC, or in a function with a client in Python"
        )
        raise SparkSetupError(msg)
    return _DATABASES[kind](address, options)


def _sqlite(address: str, _: JdbcConnectionOptions) -> Database:
    if address.startswith(":memory:"):
        msg = "each writer of a JdbcSink opens its own SQLite in memory, got :memory:; give the path of a file"
        raise SparkSetupError(msg)
    # Workers may run in other folders, so the path must be absolute.
    path = str(Path(address.removeprefix("file:")).absolute())
    return _Sqlite(f"SQLite at {path!r}", {"database": path, "timeout": 30})


def _postgres(address: str, options: JdbcConnectionOptions) -> Database:
    psycopg = _psycopg()
    address = address if address.startswith("//") else f"///{address}"
    try:
        settings = psycopg.conninfo.conninfo_to_dict(f"postgresql:{address}")
    except psycopg.Error:
        # `from None`, because libpq's message may contain secrets.
        named = re.findall(r"[?&]([^=&]*)", address)
        msg = (
            f"a URL of PostgreSQL is one that libpq reads, got {_mask_url(options.url)!r} with the "
            f"parameters {named}; name them as libpq does, such as connect_timeout for connectTimeout "
            "and options=-csearch_path%3Ds for currentSchema=s, or leave them out"
        )
        raise DeclarationValueError(msg) from None
    host, port, name = (settings.get(each, "") for each in ("host", "port", "dbname"))
    given = {"user": options.user_name, "password": options.password}
    settings |= {key: value for key, value in given.items() if value is not None}
    return Database(f"PostgreSQL at {host}:{port}/{name}", settings)


_DATABASES: dict[str, Callable[[str, JdbcConnectionOptions], Database]] = {
    "postgresql": _postgres,
    "sqlite": _sqlite,
}


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        msg = f"a JdbcSink writes to PostgreSQL by psycopg, which is not installed; {install('postgres')}"
        raise RequirementError(msg, name="psycopg") from error
    return psycopg


def _mask_url(url: str) -> str:
    """Return a URL without its parameters and its user, which may contain secrets."""
    return re.sub(r"//[^/@]*@", "//", str(url).partition("?")[0])
