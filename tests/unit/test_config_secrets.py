"""References to what stands outside the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegauge.config.check import Problems
from tidegauge.config.document import read_document
from tidegauge.config.load import load_project
from tidegauge.config.problems import InvalidValue, below, must
from tidegauge.errors import ConfigError
from tidegauge.model.secret import Secret, mask
from tidegauge.model.spec import Database, Project


@pytest.fixture(autouse=True)
def _fresh_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests made known must not hide a leak here."""
    monkeypatch.setattr("tidegauge.model.secret._known", set())


CANARY = "c@nary/Pass:w0rd%41 é$1"


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TG_CANARY", CANARY)
    return CANARY


def load(folder: Path, text: str) -> Project:
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    return load_project(file)


def refused(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return caught.value


def at(error: ConfigError) -> tuple[int, int]:
    assert error.place is not None
    return error.place.line, error.place.column


def with_password(value: str) -> str:
    return f"pipeline: x\nconnections:\n  app: {{type: mysql, database: d, user: u, password: {value}}}\n"


def password_of(project: Project) -> str:
    database = project.connections["app"]
    assert isinstance(database, Database)
    assert database.password is not None
    return database.password.reveal()


def test_a_password_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_PASSWORD", CANARY)
    assert password_of(load(tmp_path, with_password('"${env:APP_PASSWORD}"'))) == CANARY


@pytest.mark.parametrize(
    ("content", "password"),
    [("word", "word"), ("word\n", "word"), ("word\n\n", "word\n"), ("word\r\n", "word"), (" w \n", " w ")],
)
def test_a_password_file_loses_one_newline(tmp_path: Path, content: str, password: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "db").write_bytes(content.encode())
    assert password_of(load(tmp_path, with_password('"${file:secrets/db}"'))) == password
    assert password_of(load(tmp_path, with_password(f'"${{file:{tmp_path}/secrets/db}}"'))) == password


@pytest.mark.parametrize("key", ["password", "access_key", "secret_key"])
@pytest.mark.parametrize(
    "value", ["hunter2", "pre${env:HOME}", "${env:HOME}${env:HOME}", "$${env:HOME}", "'$${'"]
)
def test_a_secret_in_the_file_is_refused(tmp_path: Path, key: str, value: str) -> None:
    kind = "mysql, database: d, user: u" if key == "password" else "parquet, path: s3a://bucket"
    text = f"pipeline: x\nconnections:\n  app:\n    {{type: {kind},\n     {key}: {value}}}\n".replace(
        "${", "${"
    )
    text = text.replace(f": {value}", f': "{value}"') if "'" not in value else text
    error = refused(tmp_path, text)
    assert f"`{key}` is plain text in the file" in error.message
    assert "hunter2" not in str(error)
    assert at(error) == (5, 8 + len(key))
    assert "${env:NAME}" in (error.hint or "")
    assert "${file:PATH}" in (error.hint or "")


def test_a_secret_that_is_no_text_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, with_password("[hunter2]"))
    assert "`password` must be a reference" in error.message
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("${env:TG_NOT_SET}", "TG_NOT_SET is not set", "export TG_NOT_SET"),
        ("${file:nope/x}", "nope/x cannot be read: No such file", "relative to the project file"),
        ("${file:.}", "cannot be read: Is a directory", None),
        ("${file:latin}", "cannot be read: it is not UTF-8", None),
        ("${file:big}", "cannot be read: it is larger", None),
        ("${APP_PASSWORD}", "`${APP_PASSWORD}` is not a reference", "${env:APP_PASSWORD}"),
        ("${vault:x}", "`${vault:x}` is not a reference", "${env:NAME}"),
        ("${env:}", "does not name anything", "${env:NAME}"),
        ("${file:}", "does not name anything", "${env:NAME}"),
        ("${env:A:-b}", "does not name anything", "${env:NAME}"),
        ("${}", "is not a reference", "${env:NAME}"),
    ],
)
@pytest.mark.parametrize("field", ["password", "host"])
def test_a_reference_that_leads_nowhere_is_named_with_its_place(
    tmp_path: Path, field: str, written: str, message: str, hint: str | None
) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "big").write_bytes(b"x" * 100_000)
    head = "pipeline: x\nconnections:\n  app: {type: mysql, database: d, user: u,\n"
    text = f'{head}    {field}: "{written}"}}\n'
    error = refused(tmp_path, text)
    assert message in error.message
    assert "\n" not in error.message
    assert at(error) == (4, 7 + len(field))
    if hint:
        assert hint in (error.hint or "")


SYNC = """\
connections: {app: {type: mysql, host: h, database: d, user: u}, lake: {type: parquet, path: lake}}
sync:
  - {from: app, to: lake, tables: 'd.*', cursor: at,
     """


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SYNC + "exclude: [▲'${env:TG_NOT_SET}', a]}\n", "TG_NOT_SET is not set"),
        (SYNC + "types: {a: ▲'${env:TG_NOT_SET}'}}\n", "TG_NOT_SET is not set"),
        (SYNC + "mask: {email: {sha256: ▲plain}}}\n", "`sha256` is plain text in the file"),
        (SYNC + "exclude: [▲&x '${env:TG_NOT_SET}'], tags: [*x]}\n", "TG_NOT_SET is not set"),
        ("alerts: {to: [▲'${env:TG_NOT_SET}']}\n", "TG_NOT_SET is not set"),
        ("modules: [▲'${env:TG_NOT_SET}']\n", "TG_NOT_SET is not set"),
        ("connections: {app: {type: ▲'${env:TG_NOT_SET}'}}\n", "TG_NOT_SET is not set"),
        ("connections: {app: ▲'${env:TG_NOT_SET}'}\n", "TG_NOT_SET is not set"),
        ("flows: {f: ▲'${env:TG_NOT_SET}'}\n", "TG_NOT_SET is not set"),
    ],
)
def test_a_reference_that_leads_nowhere_is_the_only_thing_said_of_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    error = refused(tmp_path, "pipeline: x\n" + text.replace("▲", ""))
    assert message in error.message
    assert "\n" not in error.message
    before = text[: text.index("▲")]
    assert at(error) == (before.count("\n") + 2, len(before) - before.rfind("\n"))


def test_other_mistakes_are_told_beside_a_reference_that_leads_nowhere(tmp_path: Path) -> None:
    text = SYNC + "exclude: ['${env:TG_NOT_SET}', 5], tags: ['a b']}\n"
    first, second = refused(tmp_path, "pipeline: x\n" + text).message.split("\n")
    assert first == "the environment variable TG_NOT_SET is not set"
    assert second.endswith("the tag `a b` holds a space or a comma (tags are words)")


@pytest.mark.parametrize("value", ["$DB_HOST", "x $DB_HOST", "$db"])
def test_a_shell_variable_shows_the_right_form(tmp_path: Path, value: str) -> None:
    error = refused(tmp_path, f"pipeline: {value}\n")
    assert "is not a reference that is read here" in error.message
    assert "write `${env:" in (error.hint or "")
    assert at(error) == (1, 11)


def test_an_unclosed_reference_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, "pipeline: '${env:HOME'\n")
    assert "not closed" in error.message
    assert at(error) == (1, 11)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("$${env:X}", "${env:X}"), ("a$${b", "a${b"), ("$$NAME", "$NAME"), ("v$session", "v$session"),
     ("a$", "a$"), ("$1", "$1"), ("$$x y$$", "$$x y$$"), ("$t$x$t$", "$t$x$t$"), ("5 $ a", "5 $ a")],
)  # fmt: skip
def test_dollars_that_are_no_references_stay(tmp_path: Path, written: str, meant: str) -> None:
    assert load(tmp_path, f"pipeline: '{written}'\n").pipeline == meant


def test_an_empty_secret_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_PASSWORD", "")
    error = refused(tmp_path, with_password('"${env:APP_PASSWORD}"'))
    assert "`${env:APP_PASSWORD}` is set but empty" in error.message


def test_a_variable_that_is_not_utf8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"APP_PASSWORD", b"\xe9")
    assert "not UTF-8" in refused(tmp_path, with_password('"${env:APP_PASSWORD}"')).message


def test_references_stand_inside_other_values_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_STAGE", "test")
    monkeypatch.setenv("TG_PORT", "3310")
    project = load(
        tmp_path,
        "pipeline: shop-${env:TG_STAGE}\nconnections:\n  app: {type: mysql, database: d, user: u,\n"
        '    host: "db.${env:TG_STAGE}.internal", port: "${env:TG_PORT}"}\n',
    )
    database = project.connections["app"]
    assert isinstance(database, Database)
    assert (project.pipeline, database.host, database.port) == ("shop-test", "db.test.internal", 3310)
    assert mask("db.test.internal:3310") == "db.test.internal:3310"


def test_what_references_bring_into_options_and_spark_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_CA", "/very/private/ca.pem")
    monkeypatch.setenv("TG_CONF", "conf-canary-1")
    monkeypatch.setenv("TG_TIMEOUT", "17")
    project = load(
        tmp_path,
        'pipeline: x\nspark: {conf: {spark.a.token: "${env:TG_CONF}"}}\nconnections:\n'
        "  app: {type: mysql, database: d, user: u,\n"
        '    options: {ssl_ca: "${env:TG_CA}", connect_timeout: "${env:TG_TIMEOUT}"}}\n',
    )
    database = project.connections["app"]
    assert isinstance(database, Database)
    assert database.options == {"ssl_ca": "/very/private/ca.pem", "connect_timeout": "17"}
    assert project.spark.conf == {"spark.a.token": "conf-canary-1"}
    assert "conf-canary-1" not in repr(project)
    assert mask("17 rows from /very/private/ca.pem with conf-canary-1") == "17 rows from *** with ***"


def test_names_that_references_bring_into_a_connection_stay_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "arn:aws:iam::123456789012:role/loader"
    for name, value in (
        ("ACCOUNT", "ORG-READABLE"),
        ("WH", "LOADING_WH"),
        ("ROLE", "LOADER_R"),
        ("IAM", role),
    ):
        monkeypatch.setenv(f"TG_{name}", value)
    monkeypatch.setenv("TG_PASSWORD", "pass-canary-3")
    project = load(
        tmp_path,
        "pipeline: x\nconnections:\n"
        '  dw: {type: snowflake, database: d, user: u, account: "${env:TG_ACCOUNT}",\n'
        '    role: "${env:TG_ROLE}", warehouse: "${env:TG_WH}", password: "${env:TG_PASSWORD}"}\n'
        '  rs: {type: redshift, host: h, database: d, user: u, iam_role: "${env:TG_IAM}"}\n',
    )
    assert list(project.connections) == ["dw", "rs"]
    said = f"ORG-READABLE LOADING_WH LOADER_R {role}"
    assert mask(said) == said
    assert mask("pass-canary-3") == "***"


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_ledger_password_of_any_letters_fits_and_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("TG_LEDGER", CANARY)
    ledger = load(tmp_path, f"pipeline: x\nledger: '{scheme}://tide:${{env:TG_LEDGER}}@h:1/d'\n").ledger
    assert isinstance(ledger, Secret)
    assert ledger.reveal() == f"{scheme}://tide:c%40nary%2FPass%3Aw0rd%2541%20%C3%A9%241@h:1/d"
    assert "nary" not in mask(f"login with {CANARY} failed for {ledger.reveal()}")


def test_a_whole_ledger_address_from_outside_hides_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_LEDGER", "mysql://tide:p%40ss-canary@h/d")
    ledger = load(tmp_path, 'pipeline: x\nledger: "${env:TG_LEDGER}"\n').ledger
    assert ledger == Secret("mysql://tide:p%40ss-canary@h/d")
    assert mask("using password p@ss-canary") == "using password ***"


def test_a_bucket_for_the_ledger_may_come_from_outside_and_keys_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TG_BUCKET", "company-lake")
    monkeypatch.setenv("TG_WHOLE", "json:s3a://key:secret@company-lake/ops")
    ledger = load(tmp_path, 'pipeline: x\nledger: "json:s3a://${env:TG_BUCKET}/ops?region=eu-1"\n').ledger
    assert ledger == "json:s3a://company-lake/ops?region=eu-1"
    for address in ("${env:TG_WHOLE}", "json:s3a://key:${env:TG_BUCKET}@bucket/ops"):
        error = refused(tmp_path, f'pipeline: x\nledger: "{address}"\n')
        assert "a ledger of files has no password" in error.message


def test_a_sqlite_ledger_from_outside_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_STATE", "/var/state-of-tide")
    assert (
        load(tmp_path, 'pipeline: x\nledger: "sqlite:///${env:TG_STATE}/l.db"\n').ledger
        == "sqlite:////var/state-of-tide/l.db"
    )
    assert mask("/var/state-of-tide") == "/var/state-of-tide"


@pytest.mark.parametrize(
    "address", ["postgresql://u:hunter2@h/d", "mysql://${env:HOME}:hunter2@h/d", "oracle://u:hunter2@h/d"]
)
def test_a_plain_password_in_the_ledger_address_is_refused(tmp_path: Path, address: str) -> None:
    error = refused(tmp_path, f"pipeline: x\nledger: '{address}'\n")
    assert "the ledger's password is plain text" in error.message
    assert "hunter2" not in str(error) + str(error.hint)
    assert at(error) == (2, 9)


def test_a_wrong_value_from_outside_names_the_reference_and_what_was_expected(
    tmp_path: Path, canary: str
) -> None:
    text = with_password('"${env:TG_CANARY}"').replace("password", "port")
    error = refused(tmp_path, text)
    assert error.message == (
        "`port` must be a whole number from 1 to 65535, which is not what `${env:TG_CANARY}` brings in"
    )
    assert at(error) == (3, 50)


def test_literal_text_beside_a_reference_is_not_shown(tmp_path: Path, canary: str) -> None:
    path = "s3a://key:hunter2${env:TG_CANARY}@bucket/x"
    error = refused(tmp_path, f'pipeline: x\nconnections: {{l: {{type: parquet, path: "{path}"}}}}\n')
    assert "hunter2" not in str(error) + str(error.hint)


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        (InvalidValue("this must not be brought-canary"), "cannot be what `${env:TG_BROUGHT}` brings in"),
        (must("be a number", found="brought-canary"), "be a number, which is not what `${env:TG_BROUGHT}`"),
    ],
)
def test_e3_no_wording_of_a_message_lets_a_value_through(
    tmp_path: Path, complaint: InvalidValue, said: str
) -> None:
    file = tmp_path / "tidegauge.yml"
    file.write_text("pipeline: x\nlist:\n  - '${env:TG_BROUGHT}'\n")
    check = Problems(read_document(file))

    def refuse() -> None:
        with below("list", 0):
            raise complaint

    check.attempt(refuse, ())
    [problem] = check.problems
    assert said in problem.message
    assert "canary" not in problem.message
    assert (problem.place.line, problem.place.column) == (3, 5)
