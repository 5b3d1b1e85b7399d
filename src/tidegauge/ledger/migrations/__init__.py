"""Numbered steps from one version of the ledger's tables to the next, run by Alembic."""
