"""`tidegauge serve`: shows the ledger as web pages."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.log import log_line
from tidegauge.cli.options import DebugOption, ProjectOption
from tidegauge.cli.project import open_project
from tidegauge.errors import ConfigError, RuntimeMissing
from tidegauge.model.secret import SERVE_TOKEN

if TYPE_CHECKING:
    from tidegauge.model.secret import Secret

_NAMED = re.compile(r"([\w.@-]+):\s+(\S+)")


def command(
    project: ProjectOption = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; any but this machine's own needs a token or a proxy's user.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Ask for a token in this file: one alone, or `name: token` in lines; or set {SERVE_TOKEN}.",
        ),
    ] = None,
    trust_user_header: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Take the user from this header, which a reverse proxy sets."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that browsers know this server by, behind a proxy."),
    ] = None,
    root_path: Annotated[
        str, typer.Option(metavar="PATH", help="The prefix that a proxy serves it under: /tidegauge.")
    ] = "",
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions", help="Let viewers retry, suspend, resume, verify, and change watermarks."
        ),
    ] = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Show the ledger in a browser: what is late, what is stuck, what is proven. Changes nothing, unless
    --allow-actions says so."""
    check_extra()
    prefix = root_path.rstrip("/")
    if prefix and not prefix.startswith("/"):
        raise ConfigError(f"--root-path {root_path} has to begin with a slash", hint=f"write /{root_path}")
    from tidegauge.cli.progress import Stop
    from tidegauge.dashboard.access import Access
    from tidegauge.dashboard.app import make_app
    from tidegauge.dashboard.server import open_socket, serve

    token, users = _read_tokens(token_file)
    access = Access(host, token, trust_user_header, frozenset(allow_host or ()), users)
    app = make_app(open_project(project), access, root_path=prefix, acts=allow_actions)
    listening = open_socket(host, port)
    stop = Stop(says="stopping")
    with stop:
        end = serve(app, listening)
        shown = f"[{host}]" if ":" in host else host
        said = f"serving http://{shown}:{listening.getsockname()[1]}{prefix}/ until Ctrl-C"
        sys.stderr.write(log_line(said, event="serving", level="info") + "\n")
        sys.stderr.flush()
        stop.asked.wait()
        end()
    raise typer.Exit(stop.exit_code)


def check_extra() -> None:
    """Raise RuntimeMissing if the dashboard's libraries are not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "jinja2", "uvicorn") if find_spec(name) is None]
    if missing:
        raise RuntimeMissing(
            f"the dashboard needs {', '.join(missing)}", hint="pip install 'tidegauge[dashboard]'"
        )


def _read_tokens(file: Path | None) -> tuple[Secret | None, dict[str, Secret]]:
    """The token without a name, or None; and tokens by user name, from lines such as `ada: long-random-word`.

    Without a file the token comes from the environment. Raises ConfigError for a file without tokens.
    """
    from tidegauge.model.secret import Secret

    if file is None:
        given = os.environ.get(SERVE_TOKEN, "")
        return Secret(given) if given else None, {}
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {file} cannot be read: {error}", hint="name another") from error
    named = {found[1]: Secret(found[2]) for line in lines if (found := _NAMED.fullmatch(line))}
    bare = [line for line in lines if line and not _NAMED.fullmatch(line)]
    if len(bare) > 1:
        raise ConfigError(
            f"the token file {file} has {len(bare)} tokens without a name",
            hint="write `name: token` in each line, or one token alone",
        )
    if not bare and not named:
        raise ConfigError(f"the token file {file} is empty", hint="write a long random word into it")
    return Secret(bare[0]) if bare else None, named
