"""Kinds of database that cannot do all that the others can: nobody asks them, and everybody is told."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tidegauge.model.engines import Engine
from tidegauge.model.spec import Database
from tidegauge.outputs.warehouse.access import find_lacks
from tidegauge.outputs.warehouse.open import open_warehouse


def test_a_server_without_sql_for_privileges_is_not_asked() -> None:
    nowhere = Database("dw", Engine.POSTGRESQL, port=1, database="dw", user="loader")
    warehouse = open_warehouse(nowhere)
    warehouse.database = replace(nowhere, engine=cast(Engine, "another"))
    assert find_lacks(warehouse, []) is None
