from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connect import start_connect


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_connect(tmp_path_factory.mktemp("connect")) as address:
        yield address
