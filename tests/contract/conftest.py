"""Fixtures of single suites."""

from tests.warehouses import warehouse as warehouse
