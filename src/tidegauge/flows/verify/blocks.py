"""Compare a source with a warehouse by hashes of blocks of rows, which both databases compute themselves.

If the hashes are equal, so are the tables, and no row has left its database. If not, smaller and smaller
blocks find the keys that may differ, and only their rows are read and compared.
"""

from __future__ import annotations

from dataclasses import replace

from tidegauge.compare.blocks.engines import WORDS
from tidegauge.compare.blocks.search import MOST, both, find_suspects
from tidegauge.compare.blocks.side import Side
from tidegauge.compare.blocks.words import HashedColumn, HashSql
from tidegauge.compare.frames import Difference
from tidegauge.errors import TidegaugeError
from tidegauge.flows.verify.table_pair import PairFilter, TablePair
from tidegauge.model.canonical import CanonicalForm, FormKind, form_of, hash_row
from tidegauge.model.plan import Batch
from tidegauge.model.position import Window
from tidegauge.model.spec import ReadMethod
from tidegauge.model.table import Field, SourceColumn, field_of
from tidegauge.outputs.warehouse.fit import FitVerdict
from tidegauge.sources import sql
from tidegauge.sources.dialect import COMMENT
from tidegauge.sources.direct import direct_reason
from tidegauge.sources.engines import find_engine


def compare_by_blocks(pair: TablePair) -> Difference | str:
    """Return what differs, with all keys; or why rows must be compared one by one (empty: no need to say).

    An error is returned as such a reason too: a comparison by rows raises it again, or works without.
    """
    forms = find_forms(pair)
    if isinstance(forms, str):
        return forms
    try:
        return _compare(pair, forms)
    except TidegaugeError as error:
        return error.message


def find_forms(pair: TablePair) -> tuple[CanonicalForm, ...] | str:
    """Find in which canonical form each column is hashed; or return why hashes are not possible."""
    if any(one.action.sets_aside for one in pair.flow.options.expect):
        return "its expectations set rows aside, which the source cannot tell"
    if pair.sql is None:
        return ""  # a Delta table is never compared by blocks, so there is nothing to explain
    if not pair.key:
        return "the table has no key"
    if not pair.held:
        return "the target is not there"
    here, there = pair.flow.source.engine, pair.sql.engine
    for engine in (here, there):
        if engine not in WORDS:
            return f"{engine} computes no hashes of blocks"
    through_jdbc = pair.flow.options.read is ReadMethod.JDBC or direct_reason(
        pair.source_table, pair.flow.source
    )
    if WORDS[here].in_process and through_jdbc:
        return f"a {here} database that is read through JDBC computes no hashes of blocks"
    forms: list[CanonicalForm] = []
    for column in pair.source_table.columns:
        form = _find_form(pair, column, pair.held.get(pair.table.named(column.name)))
        if isinstance(form, str):
            return form
        if form.kind is FormKind.FLOAT and not _write_alike(WORDS[here], WORDS[there]):
            return f"{here} and {there} write the floats of column {column.name} in different ways"
        forms.append(form)
    return tuple(forms)


def _find_form(pair: TablePair, column: SourceColumn, there: Field | None) -> CanonicalForm | str:
    if there is None:
        return f"the target has no column {column.name}, which is part of the key"
    field = field_of(column)
    # For a type that Spark does not have, both sides give its text or its bytes.
    form = form_of(column.arrives, column.arrives if column.through else there.type)
    if form is None or pair.table.fit(there, field, key=column.name in pair.key) == FitVerdict.REFUSED:
        return f"column {column.name} is {column.arrives} at the source and {there.source_type} in the target"
    parsed = column.wire == "string" and column.arrives != "string"
    if parsed and not WORDS[pair.flow.source.engine].in_process:
        return f"column {column.name} is a text that arrives as {column.arrives}"
    return form


def _write_alike(one: HashSql, other: HashSql) -> bool:
    return bool(one.floats) and one.floats == other.floats


def _compare(pair: TablePair, forms: tuple[CanonicalForm, ...]) -> Difference | str:
    here, there = source_side(pair, forms), target_side(pair, forms)
    if not (here.is_reliable() and there.is_reliable()):
        return "the server's encoding or its way to write floats makes hashes unreliable"
    engine = find_engine(pair.flow.source)
    past = sql.after(pair.source_table, pair.position, engine.literal)
    ours, theirs = both(here.whole, there.whole)
    table = sql.relation(pair.source_table, engine.table_name)
    [(newer,)] = pair.source.ask(f"SELECT {COMMENT} COUNT(*) FROM {table} WHERE {past}")
    found = Difference(ours.rows, theirs.rows, 0, 0, 0, (), newer=int(newer), method="blocks", unlike={})
    if ours.is_like(theirs):
        return found
    if pair.begin is not None and pair.position is not None:
        # A backfill may have brought all rows from below the beginning.
        every = _windows(pair, [Batch((Window(None, pair.position),)), *pair.batches[1:]])
        whole = replace(here, where=every).whole()
        if whole.is_like(theirs):
            return replace(found, source_rows=whole.rows)
    if found.newer and found.newer > MOST:
        return f"{found.newer:,} rows are newer than the last look"
    waiting = {int(key) for (key,) in pair.source.ask(f"SELECT {here.key} FROM {table} WHERE {past}")}
    suspects = find_suspects(here, there, rows=max(ours.rows, theirs.rows), apart=waiting)
    if suspects is None:
        return "too many rows may differ to compare block by block"
    counted = replace(found, source_rows=suspects.source_rows, target_rows=suspects.target_rows)
    if not suspects.keys:
        return counted
    only = PairFilter(here.only(suspects.keys), there.only(suspects.keys))
    sure = pair.compare(only, name_all=True)
    if not _are_suspects(pair, forms, suspects.keys, sure):
        return "the two databases do not hash the same keys alike"
    return replace(
        sure,
        source_rows=counted.source_rows + sure.source_rows,
        target_rows=counted.target_rows + sure.target_rows,
        method="blocks",
    )


def _are_suspects(
    pair: TablePair, forms: tuple[CanonicalForm, ...], suspects: frozenset[int], found: Difference
) -> bool:
    """Whether the keys of the differing rows hash to the suspects in this process too.

    If not, a server hashes keys in another way, and may have left out rows that differ.
    """
    by_name = dict(zip((column.name for column in pair.source_table.columns), forms, strict=True))
    key_forms = [by_name[name] for name in pair.key]
    return all(
        hash_row(key_forms, list(key.values())) in suspects
        for table in (found.unlike or {}).values()
        for key in table.to_pylist()
    )


def source_side(pair: TablePair, forms: tuple[CanonicalForm, ...]) -> Side:
    words, columns = WORDS[pair.flow.source.engine], pair.source_table.columns
    hashed = {
        column.name: HashedColumn(column.select, column.wire, form)
        for column, form in zip(columns, forms, strict=True)
    }
    key, row = _hashes(pair, words, hashed)
    name = find_engine(pair.flow.source).table_name
    return Side(
        ask=pair.source.ask,
        words=words,
        # `whole`, an index hint, can only follow a table's name.
        table=pair.source_table.relation or f"{name(pair.source_table.table)}{words.whole}",
        where=_windows(pair, pair.batches),
        row=row,
        key=key,
        guard=" OR ".join(column.guard for column in columns if column.guard),
    )


def target_side(pair: TablePair, forms: tuple[CanonicalForm, ...]) -> Side:
    assert pair.sql is not None
    words, table = WORDS[pair.sql.engine], pair.sql
    hashed = {}
    for column, form in zip(pair.source_table.columns, forms, strict=True):
        there = pair.held[pair.table.named(column.name)]
        if column.through:
            there = replace(there, type=column.arrives, through=column.through)
        hashed[column.name] = HashedColumn(table.value(there), there.type, form)
    name, where = table.shown()
    key, row = _hashes(pair, words, hashed)
    where = where or "1 = 1"
    return Side(table.ask, words, name + words.whole, where, row=row, key=key, repeats=pair.versions)


def _hashes(pair: TablePair, words: HashSql, hashed: dict[str, HashedColumn]) -> tuple[str, str]:
    """SQL for the hash of a key, and for the hash of a row."""
    key = words.hash([hashed[name] for name in pair.key])
    # If the target keeps all versions of a row, only keys are compared.
    return key, key if pair.versions else words.hash(list(hashed.values()))


def _windows(pair: TablePair, batches: list[Batch]) -> str:
    literal = find_engine(pair.flow.source).literal
    wheres = [one for batch in batches for one in sql.splits(pair.source_table, batch, literal)]
    return " OR ".join(f"({one})" for one in wheres)
