"""`tidegauge init`: makes a project that runs, with comments in its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegauge.cli.options import DebugOption, JsonOption, local
from tidegauge.cli.output import print_json, say
from tidegauge.errors import ConfigError

_PROJECT = """\
# A Tidegauge project. `tidegauge run` brings every table up to date; `tidegauge plan` says what it would do.
pipeline: shop

# Where watermarks, plans and history are kept. Also: postgresql://user:${env:PASSWORD}@host/database, mysql://…
ledger: sqlite:///.tidegauge/ledger.db

connections:
  # A small shop to begin with. Yours may be:
  #   {type: postgresql, host: db.internal, database: shop, user: reader, password: "${env:DB_PASSWORD}"}
  #   {type: mysql, host: db.internal, database: shop, user: reader, password: "${file:/run/secrets/db}"}
  app: {type: sqlite, path: shop.db}

  # Parquet in a folder. Or on S3: {type: parquet, path: s3a://bucket/raw, region: eu-west-1}
  lake: {type: parquet, path: lake}

sync:
  - from: app
    to: lake
    tables: ["*"]             # patterns over the database's own catalogue
    exclude: ["tmp_*"]
    cursor: updated_at        # moves forward whenever a row changes
    # key: id                 # default: the primary key
    settle: 30s               # how far below the database's clock to stay, so that open transactions can land
    # lookback: 10m           # read this much below the watermark again, for rows that are dated late
    batch_rows: 2000000       # the unit of commit and of recovery
    parallel: 2               # readers inside one table
    # override:
    #   order_items: {key: [order_id, line]}
"""
_IGNORED = ".tidegauge/\nlake/\n"


def command(
    folder: Annotated[
        Path, typer.Argument(help="Where to make it; the current folder unless said.")
    ] = Path(),
    json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Make a project that runs: a commented tidegauge.yml and a small database to try it on."""
    from tidegauge.demo.shop import make_shop

    file = local(folder) / "tidegauge.yml"
    database = folder / "shop.db"
    for path in (file, database):
        if path.exists():
            raise ConfigError(f"{path} is there already", hint="choose another folder; nothing was changed")
    folder.mkdir(parents=True, exist_ok=True)
    make_shop(database, orders=2000)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_IGNORED)
    file.write_text(_PROJECT)
    if json:
        print_json({"schema": "tidegauge/init/1", "project": str(file), "database": str(database)})
        return
    say(f"made {file} and {database}")
    say(f"next: tidegauge run --project {folder}" if folder != Path() else "next: tidegauge run")
