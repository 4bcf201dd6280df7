# SPDX-License-Identifier: Apache-2.0
"""A temporary PostgreSQL server on 127.0.0.1.

`Server` makes a cluster in a temporary directory and starts it with `wal_level=logical`, on a free
port and with a random password.  `initdb` refuses to run as root, so root runs it as the user
`postgres`.  `Session` keeps a `psql` open, so several transactions can be open at a time.
"""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

_MARK = "-- done --"


def binaries() -> Path | None:
    """Return the directory of the newest `initdb`, or None if there is no PostgreSQL."""
    if shutil.which("psql") is None:
        return None
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    return versions[-1].parent if versions else None


class Server:
    """A running PostgreSQL; a context manager.

    Args:
        fsync: Whether commits survive a crash of the machine.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = fsync
        found = binaries()
        if found is None:
            msg = "this needs PostgreSQL's server and psql, got none; apt install postgresql"
            raise FileNotFoundError(msg)
        self._binaries = found
        self._user = "postgres" if os.geteuid() == 0 else None
        # The server's user must be able to enter it, so it is not below a directory of root's.
        self._directory = Path(tempfile.mkdtemp(prefix="pyflinklike-postgres-"))
        self._password = secrets.token_hex(16)
        self._port = _free_port()

    def __enter__(self) -> "Server":
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> None:
        data, secret = self._directory / "data", self._directory / "password"
        secret.write_text(self._password)
        if self._user is not None:
            for path in (self._directory, secret):
                shutil.chown(path, self._user)
        self._run("initdb", "-D", data, "-U", "cdc", "-A", "scram-sha-256", "--pwfile", secret,
                  "-E", "UTF8", "--no-locale", "--no-sync")  # fmt: skip
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "fsync": "on" if self._fsync else "off",
        }
        flags = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        log = self._directory / "log"
        self._run("pg_ctl", "-D", data, "-l", log, "-w", "-o", flags, "start")

    def close(self) -> None:
        """Stop the server and delete its files."""
        if (self._directory / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self._directory / "data", "-m", "immediate", "stop")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        # The server inherits pg_ctl's output.  A pipe would never end, so this is a file.
        with (self._directory / "output").open("w+") as output:
            done = subprocess.run(  # noqa: S603 - the cluster's own programs
                [str(self._binaries / program), *map(str, arguments)],
                cwd=self._directory,
                user=self._user,
                group=self._user,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            if done.returncode:
                msg = f"{program} ended with {done.returncode}: {output.read()}"
                raise RuntimeError(msg)

    @property
    def conninfo(self) -> str:
        """The connection string for libpq."""
        return (
            f"host=127.0.0.1 port={self._port} user=cdc password={self._password} dbname=postgres"
        )

    def session(self) -> "Session":
        """Open a connection."""
        environment = {
            **os.environ,
            "PGPASSWORD": self._password,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self._port),
            "PGUSER": "cdc",
            "PGDATABASE": "postgres",
            "PGTZ": "UTC",
        }
        return Session(environment)


class Session:
    """A connection that runs `psql`; a context manager."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._psql = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"],  # noqa: S607
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._psql.stdin is not None
        self._psql.stdin.close()
        self._psql.wait()
        assert self._psql.stdout is not None
        self._psql.stdout.close()

    def run(self, sql: str) -> list[str]:
        """Execute statements, and return the result lines, with columns separated by `|`."""
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        self._psql.stdin.write(f"{sql.rstrip().rstrip(';')};\n\\echo {_MARK}\n")
        self._psql.stdin.flush()
        lines: list[str] = []
        for line in self._psql.stdout:
            if line.rstrip("\n") == _MARK:
                return lines
            lines.append(line.rstrip("\n"))
        msg = f"{sql!r} failed: {' '.join(lines)}"
        raise RuntimeError(msg)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
