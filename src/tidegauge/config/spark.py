"""Turns the block `spark:` into the settings of the Spark session."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tidegauge.config.check import Problems
from tidegauge.config.project_keys import SparkKeys
from tidegauge.model.secret import Secret
from tidegauge.model.spec import SparkSettings


def make_spark(check: Problems, tree: dict[str, Any]) -> SparkSettings:
    """The settings of the Spark session. `tree` has the values of the whole file."""
    keys = check.keys(SparkKeys, tree["spark"], ("spark",)) if isinstance(tree.get("spark"), dict) else None
    if keys is None:
        return SparkSettings()
    if not keys.keep_warm:
        return SparkSettings(keys.master or None, keys.conf)
    digest = _digest(tree.get("connections"))
    settings = SparkSettings(keys.master or None, keys.conf, keys.keep_warm, digest)
    if not settings.is_local:
        named = "`spark.master`" if keys.conf.get("spark.master") else "`master`"
        check.add(
            f"only a Spark on this machine is kept warm, and {named} names another",
            ("spark", "keep_warm"),
            hint="remove `keep_warm`; a Spark Connect server (`sc://…`) is warm already",
        )
    return settings


def _digest(connections: object) -> str:
    def plain(value: object) -> str:
        return value.reveal() if isinstance(value, Secret) else str(value)

    return hashlib.sha256(json.dumps(connections, default=plain, sort_keys=True).encode()).hexdigest()
