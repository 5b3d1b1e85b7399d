"""Refuses SQL that PostgreSQL 15 takes and Redshift does not, and translates Redshift's SQL to PostgreSQL's.

Refusals follow Redshift's documentation where it says something, otherwise common knowledge. SQL that
sqlglot's Redshift dialect cannot parse is refused too.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

# sqlglot warns about statements that it does not parse in detail; here they are refused, or expected.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

VARCHAR_MAX = 65535
VARBYTE_MAX = 16_777_216
NAME_MAX = 127
POSTGRES_NAME_MAX = 63

_TYPES = {
    exp.DType.SMALLINT,
    exp.DType.INT,
    exp.DType.BIGINT,
    exp.DType.DECIMAL,
    exp.DType.FLOAT,
    exp.DType.DOUBLE,
    exp.DType.BOOLEAN,
    exp.DType.CHAR,
    exp.DType.VARCHAR,
    exp.DType.TEXT,
    exp.DType.DATE,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPTZ,
    exp.DType.VARBINARY,
}
_CASE = re.compile(r"\s*SET\s+enable_case_sensitive_identifier\s*(?:TO|=)\s*'?(\w+)'?", re.IGNORECASE)
_COMMANDS = re.compile(r"\s*(LOCK|SHOW)\b", re.IGNORECASE)
_POSTGRES_ONLY = {"BYTEA", "JSONB", "JSON", "UUID", "SERIAL", "BIGSERIAL", "REGCLASS", "CITEXT"}
_LEADER = {"PG_BACKEND_PID", "PG_LAST_COPY_COUNT", "PG_LAST_COPY_ID", "PG_LAST_QUERY_ID", "CURRENT_SCHEMAS"}
"""Functions that run on the leader node only, and so not in a query of a table."""


class Refused(Exception):
    def __init__(self, message: str, *, code: str = "0A000", detail: str = "") -> None:
        super().__init__(message)
        self.code, self.detail = code, detail


@dataclass(frozen=True)
class CopyCommand:
    """`COPY <table> FROM 's3://…'`, with options that are not checked yet."""

    table: str
    """The table's name, quoted for PostgreSQL."""
    columns: tuple[str, ...]
    source: str
    options: tuple[tuple[str, str | None], ...]


def sets_case(sql: str) -> bool | None:
    """Whether the statement makes quoted names keep their case from now on; None if it does not say."""
    match = _CASE.match(sql)
    return match[1].lower() in ("true", "on") if match else None


def translate(sql: str, *, in_transaction: bool, keeps_case: bool, last_copy_count: int) -> str | CopyCommand:
    """Translate a statement for PostgreSQL, or parse a COPY. Raises Refused."""
    if not keeps_case:
        sql = _fold_names(sql)
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="redshift") if tree is not None]
    except (SqlglotError, RecursionError) as error:
        raise Refused(f"syntax error: {str(error).splitlines()[0]}", code="42601") from error
    if not trees:
        return sql
    if len(trees) > 1:
        raise Refused("cannot insert multiple commands into a prepared statement", code="42601")
    tree = trees[0]
    if isinstance(tree, exp.Command) and not _COMMANDS.match(sql):
        raise Refused(f"syntax error: {sql[:40]}", code="42601")
    if isinstance(tree, exp.Copy):
        return _copy(sql)
    if isinstance(tree, exp.Set) and (match := _CASE.match(sql)):
        return f"SET redshift.case_sensitive TO '{match[1]}'"
    _refuse(tree, sql, in_transaction=in_transaction)
    if isinstance(tree, exp.Create):
        return _create(tree)
    return _words(sql, last_copy_count)


def _refuse(tree: exp.Expr, sql: str, *, in_transaction: bool) -> None:
    for node in tree.walk():
        _refuse_node(node)
    if isinstance(tree, exp.Merge):
        _refuse_merge(tree)
    if isinstance(tree, exp.Alter):
        _refuse_alter(tree, sql, in_transaction=in_transaction)
    if isinstance(tree, exp.Delete) and tree.this.alias:
        raise Refused(
            f'syntax error at or near "{tree.this.alias}"', code="42601", detail="DELETE takes no alias"
        )
    if isinstance(tree, exp.TruncateTable):
        raise Refused("TRUNCATE commits the transaction in Redshift; the stand-in does not know it")
    if isinstance(tree, exp.Analyze) and in_transaction:
        raise Refused("ANALYZE cannot run inside a transaction block", code="25001")
    words = {token.text.upper() for token in _tokens(sql) if token.token_type != TokenType.STRING}
    if found := words & _POSTGRES_ONLY:
        quoted = {token.text.upper() for token in _tokens(sql) if token.token_type == TokenType.IDENTIFIER}
        if found - quoted:
            raise Refused(f'type "{min(found).lower()}" does not exist', code="42704")
    if tree.find(exp.Table) and (found := words & _LEADER):
        raise Refused(
            "Specified types or functions (one per INFO message) not supported on Redshift tables.",
            detail=min(found),
        )


def _refuse_node(node: exp.Expr) -> None:
    match node:
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            raise Refused('syntax error at or near "DISTINCT"', code="42601")
        case exp.OnConflict():
            raise Refused('syntax error at or near "ON"', code="42601")
        case exp.Returning():
            raise Refused('syntax error at or near "RETURNING"', code="42601")
        case exp.Lock():
            raise Refused("SELECT FOR UPDATE/SHARE is not supported")
        case exp.Filter():
            raise Refused('syntax error at or near "("', code="42601", detail="FILTER")
        case exp.Array() | exp.ArrayAgg():
            raise Refused("arrays are not supported")
        case exp.Lateral():
            raise Refused("LATERAL is not supported")
        case exp.Distinct() if node.args.get("on"):
            raise Refused("SELECT DISTINCT ON is not supported")
        case exp.Values() if isinstance(node.parent, (exp.From, exp.Join, exp.Subquery)):
            raise Refused("VALUES list used as constant tables is not supported")
        case exp.DataType() if node.is_type(exp.DType.ARRAY):
            raise Refused("arrays are not supported")
        case exp.CTE() if isinstance(node.this, (exp.Insert, exp.Update, exp.Delete)):
            raise Refused("data-modifying statements in WITH are not supported")
        case exp.Identifier():
            size = len(node.this.encode())
            if size > NAME_MAX:
                raise Refused(f"identifier longer than {NAME_MAX} bytes", code="42622")
            if size > POSTGRES_NAME_MAX:
                raise Refused(
                    f"the stand-in holds no name longer than {POSTGRES_NAME_MAX} bytes: {node.this}"
                )
        case _:
            return


def _refuse_merge(tree: exp.Merge) -> None:
    if tree.this.alias:
        raise Refused("syntax error: MERGE takes no alias for its target", code="42601")
    if not isinstance(tree.args["using"], exp.Table):
        raise Refused("MERGE source must be a table", code="42601")
    whens = tree.args["whens"].expressions
    if any(when.args.get("condition") for when in whens):
        raise Refused('syntax error at or near "AND"', code="42601", detail="MERGE knows no conditional WHEN")
    if sorted(bool(when.args.get("matched")) for when in whens) != [False, True]:
        raise Refused("MERGE needs one WHEN MATCHED and one WHEN NOT MATCHED", code="42601")
    for when in whens:
        for part in when.args["then"].expressions if isinstance(when.args["then"], exp.Update) else ():
            if part.this.table:
                raise Refused("MERGE names the columns of SET without their table", code="42601")


def _refuse_alter(tree: exp.Alter, sql: str, *, in_transaction: bool) -> None:
    actions = tree.args.get("actions") or []
    if len(actions) > 1:
        raise Refused("ALTER TABLE takes one action", code="42601")
    for action in actions:
        if isinstance(action, exp.AlterColumn):
            kind = action.args.get("dtype")
            if kind is None:
                raise Refused("ALTER COLUMN changes only the type or the encoding", code="42601")
            if not kind.is_type(exp.DType.VARCHAR):
                raise Refused("target data type is not supported", detail=kind.sql("redshift"))
            if in_transaction:
                raise Refused("ALTER TABLE ALTER COLUMN cannot run inside a transaction block", code="25001")
        if isinstance(action, exp.ColumnDef):
            _type(action.kind)
            if action.args.get("exists"):
                raise Refused('syntax error at or near "NOT"', code="42601")
            for constraint in action.constraints:
                if isinstance(constraint.kind, exp.NotNullColumnConstraint) and "DEFAULT" not in sql.upper():
                    raise Refused("ALTER TABLE ADD COLUMN defined as NOT NULL must have a non-null default")


def _create(tree: exp.Create) -> str:
    if tree.kind != "TABLE":
        if tree.kind in ("VIEW", "SCHEMA"):
            return tree.sql("postgres")
        raise Refused(f"CREATE {tree.kind} is not supported")
    if tree.args.get("replace"):
        raise Refused('syntax error at or near "REPLACE"', code="42601")
    kept: list[exp.Expr] = []
    properties = tree.args.get("properties")
    for one in properties.expressions if properties else ():
        if isinstance(one, (exp.TemporaryProperty, exp.LikeProperty)):
            kept.append(one)
        elif not isinstance(one, (exp.DistKeyProperty, exp.SortKeyProperty, exp.DistStyleProperty)):
            raise Refused(f'syntax error at or near "{one.sql("postgres")}"', code="42601")
    schema = tree.this
    if isinstance(schema, exp.Schema):
        names = {column.name for column in schema.expressions if isinstance(column, exp.ColumnDef)}
        for one in properties.expressions if properties else ():
            for part in _key_parts(one):
                if part not in names:
                    raise Refused(f'column named "{part}" does not exist', code="42703")
        _require_keys(schema)
        schema.set("expressions", [_column(part) for part in schema.expressions if _is_kept(part)])
    tree.set("properties", exp.Properties(expressions=kept) if kept else None)
    return tree.sql("postgres")


def _require_keys(schema: exp.Schema) -> None:
    """Make the columns of the primary key NOT NULL, which is all that Redshift enforces of a key."""
    keys = {
        part.name for key in schema.expressions if isinstance(key, exp.PrimaryKey) for part in key.expressions
    }
    for column in schema.expressions:
        if isinstance(column, exp.ColumnDef) and column.name in keys:
            column.append("constraints", exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()))


def _key_parts(one: exp.Expr) -> list[str]:
    match one:
        case exp.DistKeyProperty():
            return [one.name]
        case exp.SortKeyProperty():
            return [part.name for part in one.this]
        case _:
            return []


def _is_kept(part: exp.Expr) -> bool:
    """Whether PostgreSQL gets this part; keys are left out, because Redshift does not enforce them."""
    inner = part.expressions[0] if isinstance(part, exp.Constraint) and part.expressions else part
    if part.find(exp.CheckColumnConstraint):
        raise Refused("CHECK constraints are not supported")
    return not isinstance(inner, (exp.PrimaryKey, exp.UniqueColumnConstraint, exp.ForeignKey))


def _column(part: exp.Expr) -> exp.Expr:
    if not isinstance(part, exp.ColumnDef):
        return part
    _type(part.kind)
    idle = (exp.EncodeColumnConstraint, exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint)
    kept: list[exp.Expr] = [one for one in part.constraints if not isinstance(one.kind, idle)]
    if len(kept) < len(part.constraints) and any(
        isinstance(one.kind, exp.PrimaryKeyColumnConstraint) for one in part.constraints
    ):
        kept.append(exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()))
    part.set("constraints", kept)
    return part


def _type(kind: exp.DataType | None) -> None:
    if kind is None or kind.this not in _TYPES:
        raise Refused(f'type "{kind.sql("postgres") if kind else "?"}" does not exist', code="42704")
    sizes = [int(part.name) for part in kind.expressions if part.name.isdigit()]
    if kind.is_type(exp.DType.TEXT) or (kind.is_type(exp.DType.VARCHAR) and not kind.expressions):
        # Both mean 256 bytes in Redshift.
        kind.set("this", exp.DType.VARCHAR)
        kind.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(256))])
    elif kind.is_type(exp.DType.VARCHAR) and sizes and sizes[0] > VARCHAR_MAX:
        raise Refused(f"length for type varchar cannot exceed {VARCHAR_MAX}", code="22023")
    elif kind.is_type(exp.DType.VARBINARY) and sizes and sizes[0] > VARBYTE_MAX:
        raise Refused(f"length for type varbyte cannot exceed {VARBYTE_MAX}", code="22023")
    elif kind.is_type(exp.DType.VARBINARY):
        kind.set("expressions", [])
    elif kind.is_type(exp.DType.DECIMAL) and sizes and sizes[0] > 38:
        raise Refused("DECIMAL precision must be between 1 and 38", code="22023")


def _tokens(sql: str) -> list[Token]:
    return list(sqlglot.tokenize(sql, read="redshift"))


def _fold_names(sql: str) -> str:
    """Make quoted names lower case, as Redshift does by default."""
    try:
        named = [token for token in _tokens(sql) if token.token_type == TokenType.IDENTIFIER]
    except SqlglotError:
        return sql
    for token in reversed(named):
        sql = sql[: token.start] + sql[token.start : token.end + 1].lower() + sql[token.end + 1 :]
    return sql


def _words(sql: str, last_copy_count: int) -> str:
    """Replace Redshift's own functions and types by PostgreSQL's, and change nothing else."""
    tokens = _tokens(sql)
    edits: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens):
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        call = [part.text for part in tokens[index + 1 : index + 3]] == ["(", ")"]
        match token.text.upper():
            case "GETDATE" if call:
                edits.append((token.start, tokens[index + 2].end, "(clock_timestamp() AT TIME ZONE 'UTC')"))
            case "SYSDATE":
                edits.append((token.start, token.end, "(now() AT TIME ZONE 'UTC')"))
            case "PG_LAST_COPY_COUNT" if call:
                edits.append((token.start, tokens[index + 2].end, f"({last_copy_count}::bigint)"))
            case "VARBYTE":
                end = (
                    tokens[index + 3].end
                    if tokens[index + 1 : index + 2] and _is_sized(tokens, index)
                    else token.end
                )
                edits.append((token.start, end, "bytea"))
    for start, end, text in reversed(edits):
        sql = sql[:start] + text + sql[end + 1 :]
    return sql


def _is_sized(tokens: list[Token], index: int) -> bool:
    return tokens[index + 1].text == "(" and len(tokens) > index + 3 and tokens[index + 3].text == ")"


def _copy(sql: str) -> CopyCommand | str:
    tokens = _tokens(sql)
    at = 1
    table: list[str] = []
    while at < len(tokens) and tokens[at].text not in ("(",) and tokens[at].text.upper() != "FROM":
        if tokens[at].text != ".":
            table.append(_quote_name(tokens[at]))
        at += 1
    columns: list[str] = []
    if tokens[at].text == "(":
        while tokens[at].text != ")":
            at += 1
            if tokens[at].text not in (",", ")"):
                columns.append(_quote_name(tokens[at]))
        at += 1
    if tokens[at].text.upper() != "FROM" or tokens[at + 1].token_type != TokenType.STRING:
        raise Refused("syntax error: COPY reads from S3 only", code="42601")
    source = tokens[at + 1].text
    options: list[tuple[str, str | None]] = []
    rest = [
        token
        for token in tokens[at + 2 :]
        if token.text.upper() not in ("AS", "FORMAT") and token.text != ";"
    ]
    while rest:
        word = rest.pop(0).text.upper()
        if rest and (rest[0].token_type == TokenType.STRING or rest[0].text.upper() in ("ON", "OFF")):
            options.append((word, rest.pop(0).text))
        else:
            options.append((word, None))
    return CopyCommand(".".join(table), tuple(columns), source, tuple(options))


def _quote_name(token: Token) -> str:
    if token.token_type == TokenType.IDENTIFIER:
        return '"' + token.text.replace('"', '""') + '"'
    return token.text
