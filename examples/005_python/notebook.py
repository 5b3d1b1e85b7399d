"""Load, plan, run, look and prove, as in a notebook: each of the last lines shows a table there."""

import sqlite3
from pathlib import Path

import tidegauge as tg


def main(folder: Path) -> tg.LoadedProject:
    with sqlite3.connect(folder / "shop.db") as shop:
        shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total INT, updated_at TEXT)")
        shop.executemany(
            "INSERT INTO orders (total, updated_at) VALUES (?, datetime('now', '-1 hour'))", [(7,), (9,)]
        )
    project = tg.load_project(folder)
    print(project.plan())
    result = project.run(progress=False)
    print(result)
    print("rows written:", sum(flow.rows for flow in result))
    print("watermark:", project.watermarks()["orders"]["orders"].position)
    print(project.status("orders"))
    proof = project.verify()
    print(proof)
    assert proof.equal
    return project


if __name__ == "__main__":
    main(Path(__file__).parent)
