from __future__ import annotations

import pytest

from tests.crash.houses import build
from tests.support.nursery import Nursery, own_nursery
from tests.support.shared_servers import shared_connect

__all__ = ["build"]


@pytest.fixture(scope="session")
def connect() -> str:
    return shared_connect()


@pytest.fixture(scope="session")
def nursery() -> Nursery:
    return own_nursery()
