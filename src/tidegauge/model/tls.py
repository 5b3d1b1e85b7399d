"""What a connection's `ssl` options mean for Python's own TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """None: the driver decides by itself. Without `verify-ca` or `verify-full` no certificate is checked."""
    mode = options.get("ssl")
    if mode in (None, "disable", "prefer") and "ssl_ca" not in options:
        return None
    context = ssl.create_default_context(cafile=options.get("ssl_ca"))
    context.check_hostname = mode == "verify-full"
    if mode not in ("verify-ca", "verify-full"):
        context.verify_mode = ssl.CERT_NONE
    return context
