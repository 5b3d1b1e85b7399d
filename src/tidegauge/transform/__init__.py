"""What the user's SQL or Python makes of a batch: how it can be evaluated, and what the target has to become.
Knows spark and model.

The law of a flow: after every window its target equals its transform over the whole inputs, as they are at
the window's end. `choose` finds the cheapest way that keeps the law (by rows, by keys, or as a whole), and
`evaluate` applies it to a batch.

Row checks
----------
Between Delta tables, `predicates` refuses at plan what one row alone cannot decide, `checks`
marks each row with the checks that it fails while it is computed, and `judge` counts the marks of a batch
before anything of it is committed: a batch that fails leaves nothing in the output, and the watermark stays.
Rows that are set aside are out of the target as if a WHERE had left them out, so that the law holds without
them. A new check is a rule in `model/expectation.py`, its keys in `config/expectations.py`, its expression in
`checks` and `mark`.

Rows of a sync are checked without Spark's SQL: `mark` lets DuckDB mark them while they are read,
`row_predicates` checks what a predicate may say, and the output that stages them counts the marks
(`model/marks.py`).
"""
