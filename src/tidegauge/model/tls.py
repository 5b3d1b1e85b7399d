"""Turns a connection's `ssl` options into a TLS context."""

from __future__ import annotations

import ssl
from collections.abc import Mapping


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Make a TLS context. None: the driver decides. Only `verify-ca` and `verify-full` check certificates."""
    mode = options.get("ssl")
    if mode in (None, "disable", "prefer") and "ssl_ca" not in options:
        return None
    context = ssl.create_default_context(cafile=options.get("ssl_ca"))
    context.check_hostname = mode == "verify-full"
    if mode not in ("verify-ca", "verify-full"):
        context.verify_mode = ssl.CERT_NONE
    return context
