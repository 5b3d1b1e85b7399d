"""Turns the block `spark:` into the settings of the Spark session."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tidegauge.config.check import Check
from tidegauge.config.models import SparkKeys
from tidegauge.model.secret import Secret
from tidegauge.model.spec import SparkSettings


def make_spark(check: Check, tree: dict[str, Any]) -> SparkSettings:
    """The settings of the Spark session. `tree` has the values of the whole file."""
    keys = check.keys(SparkKeys, tree["spark"], ("spark",)) if isinstance(tree.get("spark"), dict) else None
    if keys is None:
        return SparkSettings()
    if not keys.keep_warm:
        return SparkSettings(keys.master or None, keys.conf)
    if keys.master and not keys.master.startswith("local"):
        check.add(
            "only a Spark on this machine is kept warm, and `master` names another",
            ("spark", "keep_warm"),
            hint="remove `keep_warm`; a Spark Connect server (`sc://…`) is warm already",
        )
    return SparkSettings(keys.master or None, keys.conf, keys.keep_warm, _digest(tree.get("connections")))


def _digest(connections: object) -> str:
    def plain(value: object) -> str:
        return value.reveal() if isinstance(value, Secret) else str(value)

    return hashlib.sha256(json.dumps(connections, default=plain, sort_keys=True).encode()).hexdigest()
