# SPDX-License-Identifier: Apache-2.0
"""Rows into a database by statements of SQL, under the path that PyFlink has for it.

Nothing here is Java's: the URL of JDBC says which driver of Python writes, psycopg (the extra
`postgres`) or the standard library's sqlite3.  Both have the interface of PEP 249 (DB-API 2).  A batch is
one transaction.  It is written again after a failure, and so is a micro-batch that is run again: rows
come at least once, so the statement should be one that may be run twice, such as an upsert.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sqlite3
import time
from abc import ABC, abstractmethod
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
from pyflinklike.pyflink.datastream.formats.value_conversion import parser_of
from pyflinklike.types import Instant, RowTypeInfo, TypeInformation
from pyflinklike.types.time_types import InstantTypeInfo

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

__getattr__ = of_pyflink(__name__)

C = TypeVar("C", bound="JdbcConnectionOptions.JdbcConnectionOptionsBuilder")
E = TypeVar("E", bound="JdbcExecutionOptions.Builder")


# Options


@attrs.frozen
class JdbcConnectionOptions:
    """Where the database is, as PyFlink's; `JdbcConnectionOptionsBuilder` makes it.

    Args:
        url: The URL of JDBC.
        driver_name: Not used: the URL says which database it is.
        user_name: The name of the user, or None.
        password: The password, or None; it is never shown.
    """

    url: str = attrs.field(repr=lambda url: repr(_mask_url(url)))
    driver_name: str | None = None
    user_name: str | None = None
    password: str | None = attrs.field(default=None, repr=False)

    def get_db_url(self) -> str:
        """Return the URL."""
        return self.url

    def get_driver_name(self) -> str | None:
        """Return the name of the driver that was set, without effect here; None before."""
        return self.driver_name

    def get_user_name(self) -> str | None:
        """Return the name of the user; None for none."""
        return self.user_name

    def get_password(self) -> str | None:
        """Return the password; None for none."""
        return self.password

    class JdbcConnectionOptionsBuilder:
        """Sets where the database is, and `build`s the options."""

        def __init__(self) -> None:
            self._fields: dict[str, str] = {}

        def with_url(self: C, url: str) -> C:
            """Set the URL.

            Args:
                url: `jdbc:postgresql://host:port/database` or `jdbc:sqlite:path`.
            """
            return self._set(url=url)

        def with_driver_name(self: C, driver_name: str) -> C:
            """Store the name of a driver for its getter: the URL says which database it is.

            Args:
                driver_name: The name of Java's class.
            """
            return self._set(driver_name=driver_name)

        def with_user_name(self: C, user_name: str) -> C:
            """Set the user.

            Args:
                user_name: The name.
            """
            return self._set(user_name=user_name)

        def with_password(self: C, password: str) -> C:
            """Set the password.

            Args:
                password: The password.
            """
            return self._set(password=password)

        def build(self) -> JdbcConnectionOptions:
            """Make the options.

            Raises:
                DeclarationValueError: There is no URL.
            """
            if "url" not in self._fields:
                msg = "a connection has a URL, got none; call with_url"
                raise DeclarationValueError(msg)
            return JdbcConnectionOptions(**self._fields)

        def _set(self: C, **fields: str) -> C:
            for name, value in fields.items():
                if not isinstance(value, str):
                    msg = f"{name} is text, got {'a value' if name == 'password' else short_repr(value)} of another kind; give a str"
                    raise DeclarationTypeError(msg)
            self._fields |= fields
            return self


@attrs.frozen
class JdbcExecutionOptions:
    """How rows are written, as PyFlink's; `builder()` makes it.

    Args:
        batch_interval_ms: The age of the first row of a batch in ms at which the batch is written; 0
            for no limit.  It is looked at when a row comes, and each micro-batch of Spark ends with
            a write.
        batch_size: The number of rows at which a batch is written.
        max_retries: How often a batch is written again after the database has failed.
    """

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Return the age in ms at which a batch is written; 0 for no limit."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows at which a batch is written."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is written again."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Make the options that count where none are given: 5,000 rows, no interval, 3 retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Make a builder of the options."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Sets how rows are written, and `build`s the options."""

        def __init__(self) -> None:
            self._fields: dict[str, int] = {}

        def with_batch_size(self: E, size: int) -> E:
            """Set the number of rows at which a batch is written.

            Args:
                size: At least 1.

            Raises:
                DeclarationTypeError, DeclarationValueError: It is something else.
            """
            return self._set(batch_size=check_count(size, "JdbcExecutionOptions: the batch size"))

        def with_batch_interval_ms(self: E, interval_ms: int) -> E:
            """Set the age at which a batch is written.

            Args:
                interval_ms: In ms; 0 for no limit.

            Raises:
                DeclarationValueError: It is something else.
            """
            return self._set(batch_interval_ms=_from_zero("the batch interval", interval_ms))

        def with_max_retries(self: E, max_retries: int) -> E:
            """Set how often a batch is written again after the database has failed.

            Args:
                max_retries: 0 or more.

            Raises:
                DeclarationValueError: It is something else.
            """
            return self._set(max_retries=_from_zero("the number of retries", max_retries))

        def build(self) -> JdbcExecutionOptions:
            """Make the options."""
            return JdbcExecutionOptions(**self._fields)

        def _set(self: E, **fields: int) -> E:
            self._fields |= fields
            return self


def _from_zero(what: str, number: Any) -> int:
    if type(number) is not int or number < 0:
        msg = f"{what} is 0 or more, got {short_repr(number)}; give a whole number"
        raise DeclarationValueError(msg)
    return number


# The sink


@attrs.frozen
class JdbcSink(Sink):
    """Writes rows into a database, at least once, as PyFlink's; `JdbcSink.sink` makes it.

    Args:
        statement: The statement with `?` for each field of a row.
        type_info: The type of the rows.
        database: The database.
        options: How rows are written.
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
            sql: A statement with `?` for each field, such as an upsert.
            type_info: The type of the rows.
            jdbc_connection_options: Where the database is.
            jdbc_execution_options: How rows are written; None is `JdbcExecutionOptions.defaults()`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong, or the statement does
                not have a `?` for each field.
            SparkSetupError: No driver of Python writes to this database here.
            RequirementError: The driver is not installed.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        for given, kind in (
            (jdbc_connection_options, JdbcConnectionOptions),
            (options, JdbcExecutionOptions),
        ):
            if not isinstance(given, kind):
                remedy = instance_of(kind, given, f"make it by the builder of {kind.__name__}")
                msg = f"it takes {kind.__name__}, got {short_repr(given)}; {remedy}"
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
        """True: tasks write the rows."""
        return True

    def writer(
        self,
        index: int,  # noqa: ARG002  all instances write alike
        parallelism: int,  # noqa: ARG002
        type_info: TypeInformation,  # noqa: ARG002  the sink has its own
        name: str | None = None,  # noqa: ARG002
    ) -> SinkWriter:
        """Make the writer of the rows of one instance."""
        return _JdbcWriter(self)


def _check_types(type_info: Any) -> None:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"type_info is the type of rows, got {short_repr(type_info)}; give for example Types.ROW([Types.INT()])"
        raise DeclarationTypeError(msg)
    for kind in type_info.field_types:
        if parser_of(kind) is None and not isinstance(kind, InstantTypeInfo):
            msg = (
                f"a field of a JdbcSink has a type without parts, got {kind!r}; map the row to one with texts "
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
        """Write the batch, and again after a failure that may pass."""
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
            except database.errors() as error:
                # The connection is a new one then, as this one may be of no use.
                self._close()
                if not database.is_passing(error):
                    msg = (
                        f"a database takes the rows of a JdbcSink, got {shown_error(error)} from "
                        f"{database.shown} for {self._sink.statement!r} and rows such as "
                        f"{short_repr(self._rows[0])}; change the statement or the rows"
                    )
                    raise OutputError(msg) from error
                if attempt == retries:
                    msg = (
                        f"a JdbcSink writes to {database.shown}, got {shown_error(error)} in each of "
                        f"{retries + 1} attempts; see that it runs, or set with_max_retries"
                    )
                    raise SparkSetupError(msg) from error
                self._sink.wait(1.0 * (attempt + 1))
            else:
                self._rows = []
                return

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # whatever was to be written is, or is given up
                connection.close()


# Databases


class Database(ABC):
    """A database that a driver of Python writes to."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The address, without what is secret."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the errors of the driver."""

    @abstractmethod
    def is_passing(self, error: Exception) -> bool:
        """Return whether another attempt may not meet an error."""

    @abstractmethod
    def connect(self) -> Any:
        """Open a connection."""

    @abstractmethod
    def statement(self, sql: str, fields: int) -> str:
        """Return a statement as the driver takes it.

        Args:
            sql: The statement with a `?` for each field.
            fields: The number of the fields of a row.

        Raises:
            DeclarationValueError: It does not have so many.
        """

    def parameter(self, value: Any) -> Any:
        """Return a value as the driver takes it.

        Raises:
            OutputError: The driver would write another value.
        """
        if not isinstance(value, Instant):
            return value
        if value.nanos % 1000:
            msg = f"a database takes microseconds, got {value!r}; round it"
            raise OutputError(msg)
        try:
            return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        except OverflowError as error:
            msg = f"a database takes years from 1 to 9999, got {value!r}; leave it out"
            raise OutputError(msg) from error


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _database_of(options: JdbcConnectionOptions) -> Database:
    """Return the database of a URL.

    Raises:
        DeclarationValueError: It is no URL of JDBC.
        SparkSetupError: No driver of Python writes to this database here.
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
    if kind == "sqlite":
        return _sqlite(address)
    if kind == "postgresql":
        return _postgres(address, options)
    msg = (
        f"a JdbcSink writes to PostgreSQL and SQLite, got jdbc:{kind}; write by stream.to_data_frame() and "
        "Spark's own JDBC, or in a function with a client of Python"
    )
    raise SparkSetupError(msg)


def _mask_url(url: str) -> str:
    """Return a URL without its parameters and the user, which may hold secrets."""
    return re.sub(r"//[^/@]*@", "//", str(url).partition("?")[0])


def _other_count(sql: str, fields: int, remedy: str) -> DeclarationValueError:
    got = f"got {sql.count('?')} for {fields} fields in {sql!r}"
    return DeclarationValueError(f"a statement has a ? for each field of its rows, {got}; {remedy}")


@attrs.frozen
class _Sqlite(Database):
    path: str

    @property
    def shown(self) -> str:
        return f"SQLite at {self.path!r}"

    def errors(self) -> tuple[type[Exception], ...]:
        return sqlite3.Error, OverflowError

    def is_passing(self, error: Exception) -> bool:
        # An unknown table is an OperationalError, too.
        is_locked = "locked" in str(error) or "busy" in str(error)
        return is_locked and isinstance(error, sqlite3.OperationalError)

    def connect(self) -> Any:
        return sqlite3.connect(self.path, timeout=30)

    def statement(self, sql: str, fields: int) -> str:
        # SQLite itself has `?`, and tells those in texts from parameters when the first batch comes.
        if sql.count("?") < fields:
            raise _other_count(sql, fields, "write one for each")
        return sql

    def parameter(self, value: Any) -> Any:
        value = super().parameter(value)
        if isinstance(value, float) and math.isnan(value):
            msg = "SQLite has no NaN and would write NULL, got NaN; map it to None or a number"
            raise OutputError(msg)
        # Texts that compare as their values do; sqlite3 itself writes none of these from Python 3.12 on.
        return str(value) if isinstance(value, (dt.date, dt.time, Decimal)) else value


def _sqlite(address: str) -> Database:
    if address.startswith(":memory:"):
        msg = "each writer of a JdbcSink has a connection, got a SQLite in memory; give the path of a file"
        raise SparkSetupError(msg)
    # Workers may run in other folders.
    return _Sqlite(str(Path(address.removeprefix("file:")).absolute()))


@attrs.frozen
class _Postgres(Database):
    """A database of PostgreSQL, by the settings of libpq; they may hold secrets."""

    settings: Mapping[str, str] = attrs.field(repr=False)

    @property
    def shown(self) -> str:
        named = [self.settings.get(name, "") for name in ("host", "port", "dbname")]
        return "PostgreSQL at {}:{}/{}".format(*named)

    def errors(self) -> tuple[type[Exception], ...]:
        return _psycopg().Error, OverflowError, UnicodeError

    def is_passing(self, error: Exception) -> bool:
        psycopg = _psycopg()
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))

    def connect(self) -> Any:
        return _psycopg().connect(**self.settings)

    def statement(self, sql: str, fields: int) -> str:
        plain = _QUOTED.sub("", sql)
        is_unclear = plain.count("?") != sql.count("?") or _UNCLEAR.search(plain)
        if is_unclear or _MARKS.findall(sql).count("?") != fields:
            remedy = "write ?? for an operator's, chr(63) for one in a text, and none in a comment"
            raise _other_count(sql, fields, remedy)
        return _MARKS.sub(lambda at: "?" if at[0] == "??" else "%s", sql.replace("%", "%%"))


# PostgreSQL would take a marker in a text for a part of it, and might leave the field out.
_MARKS = re.compile(r"\?\??")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_UNCLEAR = re.compile(r"['\"]|(--|/\*|\$).*\?", re.DOTALL)


def _postgres(address: str, options: JdbcConnectionOptions) -> Database:
    psycopg = _psycopg()
    address = address if address.startswith("//") else f"///{address}"
    try:
        settings = psycopg.conninfo.conninfo_to_dict(f"postgresql:{address}")
    except psycopg.Error:
        # Not as its cause: libpq's message may have what is secret.
        named = re.findall(r"[?&]([^=&]*)", address)
        msg = (
            f"a URL of PostgreSQL is one that libpq reads, got {_mask_url(options.url)!r} with the "
            f"parameters {named}; name them as libpq does, such as connect_timeout for connectTimeout "
            "and options=-csearch_path%3Ds for currentSchema=s, or leave them out"
        )
        raise DeclarationValueError(msg) from None
    given = {"user": options.user_name, "password": options.password}
    return _Postgres(settings | {name: value for name, value in given.items() if value is not None})


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        msg = f"a JdbcSink writes to PostgreSQL by psycopg, which is not installed; {install('postgres')}"
        raise RequirementError(msg, name="psycopg") from error
    return psycopg
