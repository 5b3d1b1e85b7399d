"""A stand-in for Redshift: a proxy before the tests' PostgreSQL that behaves like Redshift.

Clients use redshift_connector. The proxy passes authentication, results and transactions through. It checks
and translates every statement (`redshift_sql`), and executes COPY itself inside the client's transaction
(`redshift_copy`). Transactions are serializable, and a conflict is Redshift's error 1023.
"""

from __future__ import annotations

import functools
import json
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import psycopg

from tests.support import redshift_copy
from tests.support.redshift_copy import Access, LoadError, LoadFailed, Target
from tests.support.redshift_sql import CopyCommand, Refused, sets_case, translate

_SSL, _CANCEL = 80877103, 80877102
_KEPT = (b"user", b"database", b"application_name")
_SERIALIZABLE = b"-c default_transaction_isolation=serializable"

SETUP = """
CREATE SCHEMA redshift;
CREATE TABLE redshift.stl_load_errors (
    userid int DEFAULT 100, slice int DEFAULT 0, tbl int,
    starttime timestamp DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'), session int, query int DEFAULT 0,
    filename char(256), line_number bigint, colname char(127), type char(10), col_length char(10),
    position int DEFAULT 0, raw_line char(1024) DEFAULT '', raw_field_value char(1024), err_code int,
    err_reason char(100));
CREATE VIEW redshift.svv_columns AS
    SELECT table_schema, table_name, column_name, ordinal_position, column_default, is_nullable,
        CASE data_type WHEN 'bytea' THEN 'binary varying' ELSE data_type END AS data_type,
        CASE data_type WHEN 'bytea' THEN 16777216 ELSE character_maximum_length END
            AS character_maximum_length,
        numeric_precision, numeric_scale, datetime_precision
    FROM information_schema.columns;
CREATE VIEW redshift.svv_tables AS
    SELECT table_catalog, table_schema, table_name, table_type, NULL::text AS remarks
    FROM information_schema.tables;
"""
"""SQL for the tables and views that a Redshift database has and PostgreSQL lacks."""


class Gone(Exception):
    """The client or the server closed the connection."""


class Wire:
    """Messages of PostgreSQL's protocol on one socket."""

    def __init__(self, sock: socket.socket) -> None:
        # Send at once: messages are short, and the other side waits for them.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._buffer = bytearray()

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            more = self.sock.recv(1 << 20)
            if not more:
                raise Gone
            self._buffer += more
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def message(self) -> tuple[bytes, bytes]:
        kind = self.take(1)
        return kind, self.take(_int(self.take(4)) - 4)

    def has_more(self) -> bool:
        return bool(self._buffer)

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.sock.sendall(kind + struct.pack("!i", len(body) + 4) + body)


class Conversation:
    def __init__(self, client: socket.socket, settings: dict[str, Any]) -> None:
        self._client = Wire(client)
        self._settings = settings
        postgres = settings["postgres"]
        self._server = Wire(socket.create_connection((postgres["host"], postgres["port"])))
        self._status = b"I"
        self._database = ""
        self._pid = 0
        self._copies: dict[bytes, CopyCommand] = {}
        self._copied = 0
        self._keeps_case = False
        self._commits: set[bytes] = set()
        """Names of the prepared statements that commit."""
        self._wrote = False

    def run(self) -> None:
        try:
            if self._start():
                while True:
                    self._turn()
        except (Gone, OSError):
            pass
        finally:
            self._client.sock.close()
            self._server.sock.close()

    # Start

    def _start(self) -> bool:
        while True:
            body = self._client.take(_int(self._client.take(4)) - 4)
            match _int(body[:4]):
                case code if code == _SSL:
                    self._client.sock.sendall(b"N")
                case code if code == _CANCEL:
                    self._server.sock.sendall(struct.pack("!i", len(body) + 4) + body)
                    return False
                case _:
                    break
        words = body[4:].split(b"\0")
        said = dict(zip(words[::2], words[1::2], strict=False))
        kept = {word: said[word] for word in _KEPT if word in said} | {b"options": _SERIALIZABLE}
        self._database = said[b"database"].decode()
        text = b"".join(word + b"\0" + value + b"\0" for word, value in kept.items()) + b"\0"
        self._server.sock.sendall(struct.pack("!ii", len(text) + 8, 196608) + text)
        while True:
            kind, body = self._server.message()
            if kind == b"S" and body.startswith(b"server_version\0"):
                body = b"server_version\x008.0.2\0"
            if kind == b"R" and _int(body[:4]) == 10:
                body = body[:-1]  # the driver would take the final zero for one more mechanism
            if kind == b"K":
                self._pid = _int(body[:4])
            self._client.send(kind, body)
            if kind == b"R" and _int(body[:4]) == 0:
                self._client.send(b"S", b"server_protocol_version\x000\0")
            elif kind == b"R" and _int(body[:4]) != 12:
                self._server.send(*self._client.message())
            elif kind == b"E":
                return False
            elif kind == b"Z":
                return True

    # One turn: the client's messages up to a Sync, and all answers to them

    def _turn(self) -> None:
        batch = list(self._read_turn())
        try:
            told = [self._translate_message(kind, body) for kind, body in batch]
        except Refused as error:
            self._refuse(error)
            return
        if any(kind == b"P" and body is None for kind, body in told):
            for kind, body in ((b"1", b""), (b"t", b"\0\0"), (b"n", b""), (b"Z", self._status)):
                self._client.send(kind, body)
            return
        copies = [self._copies.get(_words(body)[1]) for kind, body in batch if kind == b"B"]
        if copies and copies[0]:
            self._copy(copies[0])
            return
        bound = [_words(body)[1] for kind, body in batch if kind == b"B"]
        commits = any(name in self._commits for name in bound)
        losing = self._fault() if commits and self._wrote else None
        self._wrote = self._wrote and not commits
        if losing == "before":
            raise Gone
        for kind, text in told:
            self._server.send(kind, text or b"")
        self._relay(silent=losing == "after")

    def _read_turn(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            kind, body = self._client.message()
            if kind == b"X":
                raise Gone
            yield kind, body
            if kind in (b"S", b"Q"):
                return

    def _translate_message(self, kind: bytes, body: bytes) -> tuple[bytes, bytes | None]:
        """Translate a message for the server; a body of None means a Parse of COPY, which is not sent on."""
        if kind not in (b"P", b"Q"):
            return kind, body
        name, sql, rest = (b"", body[:-1], b"") if kind == b"Q" else _parse(body)
        self._copies.pop(name, None)
        self._note(sql.decode())
        told = translate(
            sql.decode(),
            in_transaction=self._status != b"I",
            keeps_case=self._keeps_case,
            last_copy_count=self._copied,
        )
        case = sets_case(sql.decode())
        self._keeps_case = self._keeps_case if case is None else case
        if isinstance(told, CopyCommand):
            if kind == b"Q":
                raise Refused("the stand-in takes COPY by the extended protocol only")
            self._copies[name] = told
            return kind, None
        self._commits.discard(name)
        self._wrote = self._wrote or sql.lstrip()[:6].upper() in (b"INSERT", b"UPDATE", b"DELETE")
        if sql.strip().lower() == b"commit":
            self._commits.add(name)
        text = told.encode()
        return kind, text + b"\0" if kind == b"Q" else name + b"\0" + text + b"\0" + rest

    def _relay(self, *, silent: bool = False) -> None:
        while True:
            kind, body = self._answer()
            if kind == b"E":
                body = _translate_error(body)
            if kind == b"Z":
                self._status = body
            if not silent:
                self._client.send(kind, body)
            elif kind == b"Z":
                raise Gone
            if kind == b"Z":
                return

    def _answer(self) -> tuple[bytes, bytes]:
        """Read the server's next message; raise Gone if the client closes the connection meanwhile."""
        while not self._server.has_more():
            ready, _, _ = select.select([self._server.sock, self._client.sock], [], [])
            if self._server.sock in ready:
                break
            if not self._client.sock.recv(1, socket.MSG_PEEK):
                raise Gone
            select.select([self._server.sock], [], [], 0.05)
        return self._server.message()

    def _refuse(self, error: Refused) -> None:
        """Let the server raise the error, so that its transaction is aborted like the client's."""
        message, detail = (part.replace("'", "''") for part in (str(error), error.detail or "none"))
        code = f"RAISE EXCEPTION USING MESSAGE = '{message}', DETAIL = '{detail}', ERRCODE = '{error.code}'"
        self._server.send(b"Q", f"DO $stand_in$ BEGIN {code}; END $stand_in$\0".encode())
        self._relay()

    # COPY

    def _copy(self, command: CopyCommand) -> None:
        settings = self._settings
        try:
            redshift_copy.check(command, Access(**settings["access"]))
            targets = self._targets(command)
            s3 = _s3(tuple(settings["s3"].items()))
            parts = list(redshift_copy.rows(redshift_copy.entries(s3, command.source), targets))
        except LoadFailed as error:
            if error.error:
                self._record(error.error)
            self._refuse(error)
            return
        except Refused as error:
            self._refuse(error)
            return
        names = ", ".join('"' + target.name.replace('"', '""') + '"' for target in targets)
        self._server.send(b"Q", f"COPY {command.table} ({names}) FROM STDIN (FORMAT csv)\0".encode())
        kind, body = self._server.message()
        if kind == b"G":
            for _, text in parts:
                for start in range(0, len(text), 1 << 20):
                    self._server.send(b"d", text[start : start + (1 << 20)])
            self._server.send(b"c")
            kind, body = self._server.message()
        failure = _error("Spectrum Scan Error", _fields(body)["M"]) if kind == b"E" else None
        while kind != b"Z":
            kind, body = self._server.message()
        self._status = body
        if failure:
            self._client.send(b"E", failure)
        else:
            self._copied = sum(count for count, _ in parts)
            self._client.send(b"2")
            self._client.send(b"C", b"COPY\0")
        self._client.send(b"Z", self._status)

    def _targets(self, command: CopyCommand) -> list[Target]:
        table = command.table.replace("'", "''")
        found = self._query(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        targets = [Target(name, kind) for name, kind in found]
        if not command.columns:
            return targets
        named = [
            part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
            for part in command.columns
        ]
        known = {target.name: target for target in targets}
        if unknown := [name for name in named if name not in known]:
            raise Refused(f'column "{unknown[0]}" does not exist', code="42703")
        return [known[name] for name in named]

    def _query(self, sql: str) -> list[list[str]]:
        """Query on the client's connection, because only that sees what its transaction has made."""
        self._server.send(b"Q", sql.encode() + b"\0")
        found: list[list[str]] = []
        failure: Refused | None = None
        while True:
            kind, body = self._server.message()
            if kind == b"D":
                found.append(_values(body))
            elif kind == b"E":
                fields = _fields(body)
                failure = Refused(fields["M"], code=fields["C"])
            elif kind == b"Z":
                self._status = body
                break
        if failure:
            raise failure
        return found

    def _record(self, error: LoadError) -> None:
        """Record a load error outside the client's transaction, so that it survives a rollback."""
        with psycopg.connect(
            **self._settings["postgres"], dbname=self._database, autocommit=True
        ) as connection:
            row = (
                self._pid,
                error.filename[:256],
                error.line,
                error.column,
                error.kind,
                error.length,
                error.value,
                error.code,
                error.reason,
            )
            connection.execute(
                "INSERT INTO redshift.stl_load_errors (session, filename, line_number, colname, type,"
                " col_length, raw_field_value, err_code, err_reason)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                row,
            )

    # What tests observe and control

    def _note(self, sql: str) -> None:
        line = json.dumps({"database": self._database, "pid": self._pid, "sql": sql})
        with Path(self._settings["statements"]).open("a") as file:
            file.write(line + "\n")

    def _fault(self) -> str | None:
        """Return once when to cut the connection, `before` or `after` this COMMIT takes effect; else None."""
        path = Path(self._settings["fault"])
        try:
            fault = path.read_text()
            path.unlink()
        except FileNotFoundError:
            return None
        return fault


@functools.cache
def _s3(settings: tuple[tuple[str, str], ...]) -> Any:
    return boto3.client("s3", **dict(settings))


def _translate_error(body: bytes) -> bytes:
    fields = _fields(body)
    if fields["C"] == "40001":
        return _error(
            "1023", "Serializable isolation violation on table - 0, transactions forming the cycle are: 0, 0"
        )
    return body


def _error(message: str, detail: str, code: str = "XX000") -> bytes:
    parts = {"S": "ERROR", "C": code, "M": message, "D": detail}
    return b"".join(word.encode() + text.encode() + b"\0" for word, text in parts.items()) + b"\0"


def _fields(body: bytes) -> dict[str, str]:
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def _parse(body: bytes) -> tuple[bytes, bytes, bytes]:
    name, _, rest = body.partition(b"\0")
    sql, _, types = rest.partition(b"\0")
    return name, sql, types


def _words(body: bytes) -> list[bytes]:
    """Return the portal and the statement of a Bind."""
    return body.split(b"\0", 2)[:2]


def _values(body: bytes) -> list[str]:
    values, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        size = _int(body[at : at + 4])
        values.append(body[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return values


def _int(body: bytes) -> int:
    number: int = struct.unpack("!i", body)[0]
    return number


def main(path: str) -> None:
    settings = json.loads(Path(path).read_text())
    with socket.create_server((settings["host"], settings["port"]), backlog=64) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_converse, args=(client, settings), daemon=True).start()


def _converse(client: socket.socket, settings: dict[str, Any]) -> None:
    try:
        conversation = Conversation(client, settings)
    except OSError:
        client.close()
        return
    conversation.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
