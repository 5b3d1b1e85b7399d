"""What `ssl` of a connection asks of a certificate."""

from __future__ import annotations

import ssl

import pytest

from tidegauge.model.tls import tls_context


@pytest.mark.parametrize(
    ("mode", "checks", "host"),
    [
        ("require", ssl.CERT_NONE, False),
        ("verify-ca", ssl.CERT_REQUIRED, False),
        ("verify-full", ssl.CERT_REQUIRED, True),
    ],
)
def test_only_verify_checks_the_certificate(mode: str, checks: ssl.VerifyMode, host: bool) -> None:
    context = tls_context({"ssl": mode})
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (checks, host)


@pytest.mark.parametrize("options", [{}, {"ssl": "disable"}, {"ssl": "prefer"}])
def test_else_the_driver_decides(options: dict[str, str]) -> None:
    assert tls_context(options) is None
