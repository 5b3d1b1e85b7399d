"""The feigned output answers as the real one does, whatever it is asked."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from simulation.lake import Continues, Lake, Manifest, MemoryOutput
from simulation.places import SHAPE, at
from simulation.world import Actor, Fault, World

from tidegauge.errors import TidegaugeError
from tidegauge.model import spec
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.position import Window
from tidegauge.model.protocols.output import Output
from tidegauge.model.staged import DataFile, Staged
from tidegauge.outputs.lake.output import LakeOutput


class Still(Actor):
    """Nobody else acts, and nothing befalls it."""

    def turn(self, doing: str, *, asking: bool = True) -> Fault | None:
        return None


class Blind:
    def published(self, tag: Tag, before: Manifest | None, after: Manifest) -> None: ...

    def opened(self, epoch: int, continues: Continues) -> None: ...


def feigned() -> Output:
    world = World(0, trace=False)
    lake = Lake(world)
    lake.checker = Blind()
    return MemoryOutput(lake, Still(world, "runner", "a"))


def asked(output: Output, work: Callable[[Output], object]) -> object:
    """The answer, or the kind of error."""
    try:
        return work(output)
    except TidegaugeError as error:
        return type(error)


def question(dice: random.Random) -> tuple[str, Callable[[Output], object]]:
    epoch, seq = dice.randint(0, 3), dice.randint(1, 3)
    tag = Tag("shop", "orders", epoch, seq)
    match dice.randrange(7):
        case 0 | 1 | 2:
            window = Window(at(seq - 1), at(seq + dice.choice((0, 0, 1))))
            file = DataFile(f"data/{dice.random()}/part-0.parquet", 1, 1)
            return f"publish {epoch}/{seq} {window}", lambda output: output.commit(
                tag, Batch((window,)), Staged(1, (file,)), layout=SHAPE.layout, run_id="run"
            )
        case 3:
            return f"receipt {epoch}/{seq}", lambda output: output.receipt(tag)
        case 4 | 5:
            continues = dice.choice((None, (max(0, epoch - 1), seq - 1), (max(0, epoch - 2), seq - 1)))
            epoch = max(1, epoch)
            return f"open {epoch} {continues}", lambda output: output.open_epoch(
                "shop", "orders", epoch, continues if continues and continues[0] < epoch else None, "why"
            )
        case _:
            return f"is {epoch} open, or all empty", lambda output: (output.is_open(epoch), output.is_empty())


@pytest.mark.parametrize("seed", range(30))
def test_the_feigned_output_answers_as_the_real_one(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    real, made_up = LakeOutput(spec.Lake("lake", str(tmp_path)), "orders"), feigned()
    said = []
    for _ in range(25):
        text, work = question(dice)
        said.append(text)
        theirs, ours = asked(real, work), asked(made_up, work)
        assert shown(ours) == shown(theirs), "\n".join(said)


def shown(answer: object) -> object:
    """A receipt without what the feigned output does not count."""
    return (answer.tag, answer.windows, answer.rows, answer.run_id) if isinstance(answer, Receipt) else answer
