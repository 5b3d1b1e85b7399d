"""Fixtures of single suites."""

from tests.support.warehouses import warehouse as warehouse
