"""Fixtures that only some suites use."""

from tests.support.warehouses import warehouse as warehouse
