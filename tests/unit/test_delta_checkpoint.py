"""What a checkpoint says, in the words of the log."""

from __future__ import annotations

from tidegauge.delta_log.checkpoint import _to_log_form


def test_columns_of_the_table_may_be_called_as_maps_of_the_log_are() -> None:
    """Spark keeps statistics by column: a table with a column `tags` or `options` could not be read."""
    least = {"tags": "{}", "options": "a", "configuration": None, "partitionValues": "b"}
    add = {
        "path": "one.parquet",
        "partitionValues": [("day", "2026-01-01")],
        "tags": None,
        "stats": "{}",
        "stats_parsed": {"numRecords": 2, "minValues": least, "nullCount": {"tags": 0}},
        "partitionValues_parsed": {"options": "a"},
    }
    assert _to_log_form({"add": add, "remove": None}) == {
        "add": {
            "path": "one.parquet",
            "partitionValues": {"day": "2026-01-01"},
            "tags": {},
            "stats": "{}",
        }
    }


def test_the_configuration_of_a_domain_is_a_text() -> None:
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[]}', "removed": False}
    assert _to_log_form({"domainMetadata": domain}) == {"domainMetadata": domain}
    assert _to_log_form({"metaData": {"configuration": [("a", "b")]}}) == {
        "metaData": {"configuration": {"a": "b"}}
    }
