"""The name of a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TableName:
    """A table as its database names it; `schema` is None if the database has none (SQLite)."""

    schema: str | None
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table
