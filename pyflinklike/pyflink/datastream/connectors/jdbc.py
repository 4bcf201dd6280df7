# SPDX-License-Identifier: Apache-2.0
"""Rows into a database by statements of SQL, under the path that PyFlink has for it.

Nothing here is Java's: the URL of JDBC says which driver of Python writes, psycopg (the extra
`postgres`) or the standard library's sqlite3.  A batch is one transaction.  It is written again after
a failure, and so is a micro-batch that is run again: rows come at least once, so the statement should be
one that may be run twice, such as an upsert.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from pyflinklike._checks import check_count, install
from pyflinklike._clock import wall_clock
from pyflinklike._messages import instance_of, shown, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    HostError,
    OutputError,
    RequirementError,
    StateValueError,
)
from pyflinklike.pyflink._graph.sinks import Renaming, Sink, SinkWriter
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.types import Instant, RowTypeInfo, TypeInformation
from pyflinklike.types.basic_types import (
    BigDecTypeInfo,
    BigIntTypeInfo,
    BooleanTypeInfo,
    DoubleTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.nested_types import ByteArrayTypeInfo
from pyflinklike.types.time_types import (
    DateTypeInfo,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

__getattr__ = of_pyflink(__name__)

_PLAIN: Final = (
    BooleanTypeInfo,
    IntegralTypeInfo,
    DoubleTypeInfo,
    StringTypeInfo,
    BigDecTypeInfo,
    BigIntTypeInfo,
    DateTypeInfo,
    TimeTypeInfo,
    TimestampTypeInfo,
    InstantTypeInfo,
    ByteArrayTypeInfo,
)
"""The types that a parameter of a statement may have."""


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

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL.

            Args:
                url: `jdbc:postgresql://host:port/database` or `jdbc:sqlite:path`.
            """
            return self._set(url=url)

        def with_driver_name(
            self, driver_name: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Store the name of a driver for its getter: the URL says which database it is.

            Args:
                driver_name: The name of Java's class.
            """
            return self._set(driver_name=driver_name)

        def with_user_name(
            self, user_name: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user.

            Args:
                user_name: The name.
            """
            return self._set(user_name=user_name)

        def with_password(
            self, password: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
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

        def _set(self, **fields: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            for name, value in fields.items():
                if not isinstance(value, str):
                    msg = f"{name} is text, got {'a value' if name == 'password' else shown(value)} of another kind; give a str"
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

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of rows at which a batch is written.

            Args:
                size: At least 1.

            Raises:
                DeclarationTypeError, DeclarationValueError: It is something else.
            """
            self._fields["batch_size"] = check_count(size, "JdbcExecutionOptions: the batch size")
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set the age at which a batch is written.

            Args:
                interval_ms: In ms; 0 for no limit.

            Raises:
                DeclarationValueError: It is something else.
            """
            self._fields["batch_interval_ms"] = _from_zero("the batch interval", interval_ms)
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a batch is written again after the database has failed.

            Args:
                max_retries: 0 or more.

            Raises:
                DeclarationValueError: It is something else.
            """
            self._fields["max_retries"] = _from_zero("the number of retries", max_retries)
            return self

        def build(self) -> JdbcExecutionOptions:
            """Make the options."""
            return JdbcExecutionOptions(**self._fields)


def _from_zero(what: str, number: Any) -> int:
    if type(number) is not int or number < 0:
        msg = f"{what} is 0 or more, got {shown(number)}; give a whole number"
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
                not have as many `?` as rows have fields.
            HostError: No driver of Python writes to this database here.
            RequirementError: The driver is not installed.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        for given, kind in (
            (jdbc_connection_options, JdbcConnectionOptions),
            (options, JdbcExecutionOptions),
        ):
            if not isinstance(given, kind):
                remedy = instance_of(kind, given, f"make it by the builder of {kind.__name__}")
                msg = f"it takes {kind.__name__}, got {shown(given)}; {remedy}"
                raise DeclarationTypeError(msg)
        _check_types(type_info)
        database = _database_of(jdbc_connection_options)
        parts = split_statement(sql, database.literals)
        fields = len(type_info.field_types)
        if len(parts) - 1 != fields:
            msg = (
                f"a statement has a ? for each field of its rows, got {len(parts) - 1} for {fields} fields in "
                f"{sql!r}; those in quotes and comments do not count"
            )
            raise DeclarationValueError(msg)
        return JdbcSink(database.join(parts), type_info, database, options)

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
        return _Writer(self)


def _check_types(type_info: Any) -> None:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"type_info is the type of rows, got {shown(type_info)}; give for example Types.ROW([Types.INT()])"
        raise DeclarationTypeError(msg)
    for kind in type_info.field_types:
        if not isinstance(kind, _PLAIN):
            msg = (
                f"a field of a JdbcSink has a type without parts, got {kind!r}; map the row to one with texts "
                "or numbers, such as JSON"
            )
            raise DeclarationTypeError(msg)


class _Writer:
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
            msg = f"a JdbcSink writes rows of its type_info, got {shown(value)}: {error}"
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
                database.execute(self._connection, self._sink.statement, self._rows)
            except database.passing as error:
                # The connection is a new one then, as this one may be of no use.
                self._close()
                if attempt == retries:
                    msg = (
                        f"a JdbcSink writes to {database.shown}, got {shown_error(error)} in each of "
                        f"{retries + 1} attempts; see that it runs, or set with_max_retries"
                    )
                    raise HostError(msg) from error
                self._sink.wait(1.0 * (attempt + 1))
            except database.lasting as error:
                self._close()
                msg = (
                    f"a database takes the rows of a JdbcSink, got {shown_error(error)} from "
                    f"{database.shown} for {self._sink.statement!r} and rows such as "
                    f"{shown(self._rows[0])}; change the statement or the rows"
                )
                raise OutputError(msg) from error
            else:
                self._rows = []
                return

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # whatever was to be written is, or is given up
                connection.close()


# Databases


class Database(Protocol):
    """A database that a driver of Python writes to."""

    @property
    def literals(self) -> re.Pattern[str]:
        """What in a statement is no placeholder, whatever is in it."""

    @property
    def shown(self) -> str:
        """The address, without what is secret."""

    @property
    def passing(self) -> tuple[type[Exception], ...]:
        """Errors that another attempt may not meet."""

    @property
    def lasting(self) -> tuple[type[Exception], ...]:
        """Errors that another attempt meets, too."""

    def join(self, parts: list[str]) -> str:
        """Return the statement for the driver, of its parts between placeholders."""

    def connect(self) -> Any:
        """Open a connection."""

    def execute(self, connection: Any, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement for each row, in one transaction."""

    def parameter(self, value: Any) -> Any:
        """Return a value as the driver takes it."""


def _database_of(options: JdbcConnectionOptions) -> Database:
    """Return the database of a URL.

    Raises:
        DeclarationValueError: It is no URL of JDBC.
        HostError: No driver of Python writes to this database here.
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
    raise HostError(msg)


def _mask_url(url: str) -> str:
    """Return a URL without its parameters and the user, which may hold secrets."""
    return re.sub(r"//[^/@]*@", "//", str(url).partition("?")[0])


@attrs.frozen
class _Sqlite:
    path: str

    @property
    def literals(self) -> re.Pattern[str]:
        return _SQLITE_LITERALS

    @property
    def shown(self) -> str:
        return f"SQLite at {self.path!r}"

    @property
    def passing(self) -> tuple[type[Exception], ...]:
        # A locked file; but an unknown table is an OperationalError, too.
        return (_LockedError,)

    @property
    def lasting(self) -> tuple[type[Exception], ...]:
        return sqlite3.Error, OverflowError

    def join(self, parts: list[str]) -> str:
        return "?".join(parts)

    def connect(self) -> Any:
        return sqlite3.connect(self.path, timeout=30)

    def execute(self, connection: Any, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            with connection:
                connection.executemany(statement, rows)
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise _LockedError(str(error)) from error
            raise

    def parameter(self, value: Any) -> Any:
        if isinstance(value, float) and math.isnan(value):
            msg = "SQLite has no NaN and would write NULL, got NaN; map it to None or a number"
            raise OutputError(msg)
        if isinstance(value, Instant):
            value = _as_datetime(value)
        # Texts that compare as their values do; sqlite3 itself writes none of these from Python 3.12 on.
        if isinstance(value, dt.datetime):
            return value.isoformat(sep=" ")
        if isinstance(value, (dt.date, dt.time)):
            return value.isoformat()
        return str(value) if isinstance(value, Decimal) else value


class _LockedError(Exception):
    """Another connection writes to the file."""


def _sqlite(address: str) -> Database:
    if address.startswith(":memory:"):
        msg = "each writer of a JdbcSink has a connection, got a SQLite in memory; give the path of a file"
        raise HostError(msg)
    # Workers may run in other folders.
    return _Sqlite(str(Path(address.removeprefix("file:")).absolute()))


@attrs.frozen
class _Postgres:
    """A database of PostgreSQL, by the settings of libpq; they may hold secrets."""

    settings: Mapping[str, str] = attrs.field(repr=False)

    @property
    def literals(self) -> re.Pattern[str]:
        return _POSTGRES_LITERALS

    @property
    def shown(self) -> str:
        named = {name: self.settings.get(name, "") for name in ("host", "port", "dbname")}
        return f"PostgreSQL at {named['host']}:{named['port']}/{named['dbname']}"

    @property
    def passing(self) -> tuple[type[Exception], ...]:
        psycopg = _psycopg()
        return psycopg.OperationalError, psycopg.InterfaceError

    @property
    def lasting(self) -> tuple[type[Exception], ...]:
        return _psycopg().Error, OverflowError, UnicodeError

    def join(self, parts: list[str]) -> str:
        return "%s".join(part.replace("%", "%%") for part in parts)

    def connect(self) -> Any:
        return _psycopg().connect(**self.settings)

    def execute(self, connection: Any, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def parameter(self, value: Any) -> Any:
        return _as_datetime(value) if isinstance(value, Instant) else value


_SETTINGS: Final = {
    "user": "user",
    "password": "password",
    "ssl": None,
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "options": "options",
    "currentSchema": None,
    "reWriteBatchedInserts": "",
    "prepareThreshold": "",
    "loggerLevel": "",
}
"""Parameters of Java's driver by their names in libpq; "" for those that change no result."""


def _postgres(address: str, options: JdbcConnectionOptions) -> Database:
    _psycopg()
    parts = urlsplit(address)
    settings = {"dbname": unquote(parts.path.lstrip("/"))}
    if parts.netloc:
        hosts = [_HOST.fullmatch(each) for each in parts.netloc.split(",")]
        if None in hosts:
            msg = (
                f"a URL of PostgreSQL has hosts as host:port, got {_mask_url(options.url)!r}; give a user to "
                "with_user_name"
            )
            raise DeclarationValueError(msg)
        settings["host"] = ",".join((each[1] or each[2]) for each in hosts if each)
        settings["port"] = ",".join((each[3] or "5432") for each in hosts if each)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _SETTINGS:
            msg = (
                f"a URL of PostgreSQL has the parameters {', '.join(_SETTINGS)}, got {name!r}; leave it "
                "out, or give what libpq has for it by options"
            )
            raise DeclarationValueError(msg)
        if name == "ssl":
            settings.setdefault("sslmode", "require" if value in ("", "true") else "prefer")
        elif name == "currentSchema":
            settings["options"] = f"{settings.get('options', '')} -csearch_path={value}".strip()
        elif _SETTINGS[name]:
            settings[str(_SETTINGS[name])] = value
    if options.user_name is not None:
        settings["user"] = options.user_name
    if options.password is not None:
        settings["password"] = options.password
    return _Postgres({name: value for name, value in settings.items() if value})


_HOST: Final = re.compile(r"(?:\[([^\]@]*)\]|([^:@\[\]]*))(?::(\d+))?")
"""A host by its name or number, and its port."""


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        msg = f"a JdbcSink writes to PostgreSQL by psycopg, which is not installed; {install('postgres')}"
        raise RequirementError(msg, name="psycopg") from error
    return psycopg


def _as_datetime(instant: Instant) -> dt.datetime:
    """Return an instant in UTC.

    Raises:
        OutputError: A datetime does not have its nanoseconds, or its year.
    """
    if instant.nanos % 1000:
        msg = f"a database takes microseconds, got {instant!r}; round it"
        raise OutputError(msg)
    try:
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
        return epoch + dt.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)
    except OverflowError as error:
        msg = f"a database takes years from 1 to 9999, got {instant!r}; leave it out"
        raise OutputError(msg) from error


# Statements


_TEXT: Final = r"'(?:[^']|'')*' | \"(?:[^\"]|\"\")*\" | --[^\n]*"
_SQLITE_LITERALS: Final = re.compile(
    rf"{_TEXT} | `(?:[^`]|``)*` | \[[^\]]*\] | /\*.*?(?:\*/|\Z)", re.VERBOSE | re.DOTALL
)
_POSTGRES_LITERALS: Final = re.compile(
    # Texts with escapes, and texts between dollars.  Comments are nested, which `_ends_of` counts.
    rf"(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*' | {_TEXT} | (?<![\w$])(\$(?:[^\W\d]\w*)?\$).*?\1 | /\*",
    re.VERBOSE | re.DOTALL,
)


def split_statement(sql: Any, literals: re.Pattern[str]) -> list[str]:
    """Return the parts of a statement between its placeholders.

    A `?` in quotes or in a comment is none; `??` is one question mark, as for Java's driver.

    Args:
        sql: The statement.
        literals: What in it is no placeholder.

    Raises:
        DeclarationTypeError: It is no text.
        DeclarationValueError: A quote does not end.
    """
    if not isinstance(sql, str):
        msg = f"a statement is text, got {shown(sql)}; give an INSERT with ? for each field"
        raise DeclarationTypeError(msg)
    parts = [""]
    for piece, is_literal in _pieces_of(sql, literals):
        if is_literal:
            parts[-1] += piece
            continue
        open_quote = next((each for each in "'\"" if each in piece), None)
        if open_quote is not None:
            msg = (
                f"a quote in a statement ends, got {open_quote} without an end in {sql!r}; close it"
            )
            raise DeclarationValueError(msg)
        first, *others = piece.replace("??", "\0").split("?")
        parts[-1] += first.replace("\0", "?")
        parts += [each.replace("\0", "?") for each in others]
    return parts


def _pieces_of(sql: str, literals: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a statement, and whether each is in quotes or a comment."""
    at = 0
    while (found := literals.search(sql, at)) is not None:
        yield sql[at : found.start()], False
        at = _end_of_comment(sql, found.start()) if found[0] == "/*" else found.end()
        yield sql[found.start() : at], True
    yield sql[at:], False


def _end_of_comment(sql: str, start: int) -> int:
    """Return where a comment ends that may have others within it."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(sql)
