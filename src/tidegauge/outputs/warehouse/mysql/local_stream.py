"""A connection to MySQL that answers `LOAD DATA LOCAL` from a stream of ours, and never from a file.

In that exchange the server says which file it wants, and a driver opens it: a hostile server, or one that was
taken over, may ask for any file that this process can read, in answer to any statement (hazard E2). Here no
file is ever opened: the server has to repeat a random word from our statement, which is used only once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from pymysql import err
from pymysql.connections import MySQLResult
from pymysql.constants import CR

from tidegauge.model.mysql_connection import MysqlConnection

_PACKET = 1 << 20


class UnexpectedFileRequest(err.OperationalError):
    """The server asked for something other than the stream."""


class StreamConnection(MysqlConnection):
    """PyMySQL's connection; make it with `local_infile=True`, so that the server may ask at all."""

    _stream: tuple[str, Iterator[memoryview]] | None = None
    _warnings = 0

    def load(self, before: str, after: str, stream: Iterator[memoryview]) -> tuple[int, int]:
        """Run `<before> '<word>' <after>`; returns the server's count of rows and of warnings."""
        word = f"tidegauge-{secrets.token_hex(16)}"
        self._stream = word, stream
        try:
            rows = self.query(f"{before} '{word}' {after}")
            return int(rows), self._warnings
        finally:
            self._stream = None

    def take_stream(self, asked: bytes) -> Iterator[memoryview]:
        word, stream = self._stream or ("", iter(()))
        self._stream = None
        if not word or asked != word.encode():
            raise UnexpectedFileRequest(
                CR.CR_MALFORMED_PACKET, f"the server asks for a file, {asked[:80]!r}, and gets none"
            )
        return stream

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        result: Any = _StreamResult(self)
        me: Any = self
        me._result = None
        if unbuffered:
            result.init_unbuffered_query()
        else:
            result.read()
        me._result = result
        self._warnings = int(result.warning_count)
        if result.server_status is not None:
            me.server_status = result.server_status
        return result.affected_rows


class _StreamResult(MySQLResult):
    def _read_load_local_packet(self, first_packet: Any) -> None:
        connection: Any = self.connection
        try:
            for block in connection.take_stream(first_packet.get_all_data()[1:]):
                for start in range(0, len(block), _PACKET):
                    connection.write_packet(bytes(block[start : start + _PACKET]))
        except BaseException:
            # The protocol has no "stop": an end of the stream would be taken for the end of the rows.
            connection._force_close()
            raise
        connection.write_packet(b"")
        answer = connection._read_packet()
        if not answer.is_ok_packet():
            raise err.OperationalError(
                CR.CR_COMMANDS_OUT_OF_SYNC, "the server did not say how the load ended"
            )
        me: Any = self
        me._read_ok_packet(answer)
