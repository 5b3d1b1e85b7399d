from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.houses import build
from tests.crash.nursery import Nursery, own_nursery
from tests.support.connect import start_connect

__all__ = ["build"]


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_connect(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="session")
def nursery() -> Nursery:
    return own_nursery()
