"""`tidegauge demo`: see it work in a minute and a half, without a server or an account."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import DebugOption, local
from tidegauge.cli.output import print_table, say
from tidegauge.errors import ConfigError

if TYPE_CHECKING:
    from tidegauge.demo.story import Ending


def command(
    keep: Annotated[Path | None, typer.Option(help="Leave the project in this folder to play with.")] = None,
    debug: DebugOption = False,  # noqa: ARG001 - read where errors are shown
) -> None:
    """Make a shop, sync it, kill runs half-way, build three layers of it, and prove that nothing was lost."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="tidegauge-demo-") as folder:
            proven = _play(Path(folder))
        say("The demo's files are gone again; `tidegauge demo --keep DIR` leaves them to play with, and")
        say("`tidegauge serve --project DIR` shows what happened to them in a browser.")
    else:
        if local(keep).exists() and any(keep.iterdir()):
            raise ConfigError(f"{keep} is not empty", hint="choose a new folder; nothing was changed")
        keep.mkdir(parents=True, exist_ok=True)
        proven = _play(keep.resolve())
        say(f"Look around: cd {keep} && tidegauge status, history, watermark list, files list, plan")
        say(f"In a browser: tidegauge serve --project {keep}")
    raise typer.Exit(0 if proven else 1)


def _play(folder: Path) -> bool:
    from tidegauge.cli.verify import show
    from tidegauge.demo.layers import play_layers
    from tidegauge.demo.story import play
    from tidegauge.observe.progress import watch

    def speak(text: str) -> None:
        say(text)
        sys.stdout.flush()

    with watch(sys.stderr) as tell:
        ending = play(folder, say=speak, tell=tell)
    _show_ending(ending)
    with watch(sys.stderr) as tell:
        layers = play_layers(folder, say=speak, tell=tell)
    show(list(layers))
    equal = bool(layers) and all(one.equal for one in layers)
    say(
        "Proven: every layer is what it would be if all of it were computed anew." if equal else "NOT proven."
    )
    return ending.proven and equal


def _show_ending(ending: Ending) -> None:
    from tidegauge.cli.verify import show

    show(list(ending.verified))
    numbers = ("rows", "batches", "inserted", "updated", "deleted", "seconds")
    print_table(
        ["what happened", *numbers],
        [
            [act.title, act.rows, act.batches, act.inserted, act.updated, act.deleted, f"{act.seconds:.1f}"]
            for act in ending.acts
        ],
        numbers=numbers,
    )
    if ending.proven:
        say("Proven: the warehouse has every row of the source, at its latest version, and nothing else.")
    else:
        say("NOT proven: source and target differ, or a killed plan was not taken over.")
