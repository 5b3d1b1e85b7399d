"""TLS to a MariaDB that offers it: taken where nothing is said of it, and checked where that is asked for."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support.servers import MariaDB, start_mariadb
from tidegauge.errors import SourceUnreachable
from tidegauge.ledger.address import parse
from tidegauge.ledger.sql_connect import connect
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine
from tidegauge.outputs.warehouse.mysql.session import MysqlLogin
from tidegauge.sources.open import open_dialect

CIPHER = "SHOW STATUS LIKE 'Ssl_cipher'"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not one of pytest's own, which are closed to the user that the server runs as.
    path = Path(tempfile.mkdtemp(prefix="tidegauge-tls-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[MariaDB]:
    for name in ("server", "stranger"):
        words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        words += ["-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"]
        subprocess.run(["openssl", *words, *files], check=True, capture_output=True)
        (folder / f"{name}.key").chmod(0o644)
    with start_mariadb(
        options=[f"--ssl-cert={folder}/server.pem", f"--ssl-key={folder}/server.key"]
    ) as started:
        yield started


def database(server: MariaDB, **options: str) -> Database:
    return Database(
        "app",
        Engine.MYSQL,
        host=server.host,
        port=server.port,
        user=server.user,
        password=Secret(server.password),
        options=options,
    )


def cipher(server: MariaDB, **options: str) -> str:
    with closing(open_dialect(database(server, **options))) as dialect:
        [(_, found)] = dialect.rows(CIPHER)
    return str(found)


def test_e3_a_server_that_offers_tls_is_talked_to_by_it(server: MariaDB) -> None:
    """By sources, warehouses and ledgers, of which each connection has a session of its own."""
    for _ in range(2):
        assert cipher(server)
        session = MysqlLogin.of(database(server)).connect()
        [(_, found)] = session.rows(CIPHER)
        session.close()
        assert found
    engine = connect(parse(server.address(server.create_database())))
    with engine.connect() as connection:
        assert connection.execute(text(CIPHER)).one()[1]
    engine.dispose()


def test_without_tls_or_with_a_certificate_that_is_checked(server: MariaDB, folder: Path) -> None:
    assert cipher(server, ssl="disable") == ""
    assert cipher(server, ssl="require")
    assert cipher(server, ssl="verify-full", ssl_ca=f"{folder}/server.pem")
    with pytest.raises(SourceUnreachable, match="certificate verify failed"):
        cipher(server, ssl="verify-ca", ssl_ca=f"{folder}/stranger.pem")
