"""Alembic's entry: `tidegauge.ledger.migrate` hands in a connection and owns the transaction."""

from __future__ import annotations

from alembic import context

from tidegauge.ledger.sql_tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
