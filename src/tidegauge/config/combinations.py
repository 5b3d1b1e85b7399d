"""Keys of a table that are right one by one and wrong together, as they would lose or double rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from tidegauge.config.ends import SyncEnds
from tidegauge.config.problems import quoted
from tidegauge.model.engines import FACTS
from tidegauge.model.expectation import Action, ForeignKey, Unique
from tidegauge.model.mode import MODES, Mode, OutputKind
from tidegauge.model.one_database import share_a_transaction, show_address
from tidegauge.model.spec import (
    Database,
    DeleteMode,
    Engine,
    Execution,
    Lake,
    NullCursor,
    ReadMethod,
    TableOptions,
)


@dataclass(frozen=True)
class Conflict:
    keys: tuple[str, ...]
    """The keys that do not go together. The first one that is in the file is where the error points."""
    message: str
    hint: str


def conflicts(options: TableOptions, ends: SyncEnds, written: frozenset[str]) -> Iterator[Conflict]:
    """The conflicts of one table's options. `written`: the keys that the user gave, here or in the sync."""
    if isinstance(ends.to, Database):
        yield from _in_a_warehouse(options)
    elif ends.to.delta:
        yield from _in_delta_tables(options)
    else:
        yield from _in_a_lake(options, written)
    yield from _in_expectations(options, ends)
    if options.execute is Execution.DATABASE:
        yield from _inside_the_database(options, ends)
    engine = ends.to.engine if isinstance(ends.to, Database) else None
    if engine is not Engine.REDSHIFT:
        for key in ("distkey", "sortkey"):
            if getattr(options, key):
                yield Conflict((key,), f"`{key}` belongs to Redshift, and `to` is not", "remove it")
    if options.deletion_vectors is not None and not (isinstance(ends.to, Lake) and ends.to.delta):
        yield Conflict(
            ("deletion_vectors",),
            "`deletion_vectors` belongs to Delta tables, and `to` has none",
            "remove it",
        )
    if options.hybrid and not (engine and FACTS[engine].hybrid_tables):
        yield Conflict(("hybrid",), "`hybrid` belongs to Snowflake, and `to` is not", "remove it")


def _in_expectations(options: TableOptions, ends: SyncEnds) -> Iterator[Conflict]:
    if not options.expect:
        return
    if isinstance(ends.to, Lake) and not ends.to.delta:
        yield Conflict(
            ("expect",),
            "`expect` needs a warehouse or Delta tables, and `to` is a lake, which keeps rows as they came",
            "put the lake into `via`, and name in `to` what rows are checked for; or remove it",
        )
    for one in options.expect:
        if options.mode.facts.keeps_history and isinstance(one.rule, Unique):
            yield Conflict(
                ("expect",),
                f"{quoted(one.name)} has no meaning in mode `scd2`, which keeps many rows of one key",
                "remove it; no two rows of a key are ever valid at once",
            )
        if isinstance(one.rule, ForeignKey) and isinstance(ends.to, Lake):
            yield Conflict(
                ("expect",),
                f"{quoted(one.name)} is looked up in a warehouse, and `to` has Delta tables",
                "let a flow that reads the table expect it: there the other table is pinned with the plan",
            )
        if isinstance(one.rule, ForeignKey) and one.action is Action.DROP:
            yield Conflict(
                ("expect",),
                f"{quoted(one.name)} drops rows by what another table has at the moment, and nothing would"
                " remember which",
                "use action `quarantine`",
            )


def _inside_the_database(options: TableOptions, ends: SyncEnds) -> Iterator[Conflict]:
    through = "remove it, or leave `execute` out"
    if ends.via is not None:
        yield Conflict(
            ("execute", "via"),
            f"execute `database` moves rows inside one database, and `via` takes them through"
            f" {quoted(ends.via.name)}",
            "remove `via`, or leave `execute` out",
        )
    elif not isinstance(ends.to, Database):
        yield Conflict(
            ("execute",),
            "execute `database` needs `from` and `to` to be one database, and"
            f" {quoted(ends.to.name)} is not one",
            "leave `execute` out",
        )
    elif not share_a_transaction(ends.source, ends.to):
        yield Conflict(
            ("execute",),
            f"execute `database` needs `from` and `to` to be one database: {quoted(ends.source.name)} is"
            f" {show_address(ends.source)}, and {quoted(ends.to.name)} is {show_address(ends.to)}",
            "leave `execute` out; if they are one, write the same address in both connections",
        )
    if options.expect:
        yield Conflict(
            ("expect", "execute"),
            "`expect` looks at each row on its way, and with execute `database` none comes by",
            through,
        )
    if options.read is not ReadMethod.AUTO:
        yield Conflict(
            ("read", "execute"),
            f"read `{options.read}` says how rows are read, and with execute `database` nobody reads them",
            through,
        )


def _in_a_lake(options: TableOptions, written: frozenset[str]) -> Iterator[Conflict]:
    if "mode" in written and options.mode not in MODES[OutputKind.LAKE]:
        yield Conflict(
            ("mode",),
            f"mode `{options.mode}` needs a warehouse, and `to` is a lake",
            "write `append` or leave it out: the lake keeps every version of a row",
        )
    if options.deletes is not DeleteMode.NONE:
        yield Conflict(
            ("deletes",),
            f"deletes `{options.deletes}` needs a warehouse: the files of a lake are never changed",
            "remove it, or load a database behind the lake with `via` and `to`",
        )
    if options.metadata_columns:
        yield Conflict(
            ("metadata_columns",),
            "`metadata_columns` needs a warehouse: files hold the source's columns only",
            "remove it; the lake's manifests name the run of every file",
        )


def _in_delta_tables(options: TableOptions) -> Iterator[Conflict]:
    if options.mode not in (Mode.APPEND, Mode.MERGE):
        yield Conflict(
            ("mode",),
            f"mode `{options.mode}` is for warehouses and for `flows:`, and `to` has Delta tables",
            "write `append` or `merge`, and let a flow that reads the table keep it in that mode",
        )
    if options.mode is Mode.APPEND:
        yield from _in_append_mode(options)
    if options.deletes is DeleteMode.SOFT:
        yield Conflict(
            ("deletes",),
            "deletes `soft` marks rows of a warehouse, and `to` has Delta tables",
            "write `hard`: the table's change feed says which rows went and when, and a flow in mode `scd2`"
            " keeps them",
        )
    if options.metadata_columns:
        yield Conflict(
            ("metadata_columns",),
            "`metadata_columns` needs a warehouse: Delta tables get the source's columns only",
            "remove it; each commit of the table names its run",
        )


def _in_a_warehouse(options: TableOptions) -> Iterator[Conflict]:
    match options.mode:
        case Mode.APPEND:
            yield from _in_append_mode(options)
        case Mode.OVERWRITE:
            if options.deletes is not DeleteMode.NONE:
                yield Conflict(
                    ("deletes", "mode"),
                    f"mode `overwrite` replaces the whole table, and so undoes deletes `{options.deletes}`",
                    "use mode `merge` with `deletes`, or remove `deletes`",
                )
            if options.null_cursor is NullCursor.INCLUDE:
                yield Conflict(
                    ("null_cursor", "mode"),
                    "null_cursor `include` reads rows without a cursor in a batch of their own, and mode"
                    " `overwrite` would leave nothing but those",
                    "use mode `merge`, or null_cursor `exclude`",
                )
        case Mode.SCD2:
            if options.deletes is DeleteMode.HARD:
                yield Conflict(
                    ("deletes", "mode"),
                    "deletes `hard` would delete the history that mode `scd2` keeps",
                    "use deletes `soft`",
                )
            if options.null_cursor is NullCursor.INCLUDE:
                yield Conflict(
                    ("null_cursor", "mode"),
                    "mode `scd2` takes `valid_from` from the cursor, which null_cursor `include` lacks",
                    "use null_cursor `exclude` or `fail`, or mode `merge`",
                )
        case _:
            pass  # `merge` goes with all of these, and the other modes are not for warehouses


def _in_append_mode(options: TableOptions) -> Iterator[Conflict]:
    if options.lookback > timedelta(0):
        yield Conflict(
            ("lookback", "mode"),
            "`lookback` reads rows again, and mode `append` would add them a second time",
            "use mode `merge`, or remove `lookback`",
        )
    if options.null_cursor is NullCursor.INCLUDE:
        yield Conflict(
            ("null_cursor", "mode"),
            "null_cursor `include` reads the same rows each time, and mode `append` would add them each time",
            "use mode `merge`, or null_cursor `exclude`",
        )
    if options.deletes is not DeleteMode.NONE:
        yield Conflict(
            ("deletes", "mode"),
            f"deletes `{options.deletes}` goes by the key, and mode `append` keeps many rows for one",
            "use mode `merge`, or remove `deletes`",
        )
    if options.hybrid:
        yield Conflict(
            ("hybrid", "mode"),
            "a hybrid table has one row for each key, and mode `append` would add more",
            "use mode `merge`, or remove `hybrid`",
        )
