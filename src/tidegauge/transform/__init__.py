"""What the user's SQL or Python makes of a batch: how it can be evaluated, and what the target has to become.
Knows spark and model.

The law of a flow: after every window its target equals its transform over the whole inputs, as they are at
the window's end. `choose` finds the cheapest way that keeps the law (by rows, by keys, or as a whole), and
`evaluate` applies it to a batch.

Row checks
----------
No check on rows exists yet. One that is added lives in this room, as `transform/checks.py`, for every kind
of flow. It gets the flow's name, the layout of the rows, and the rows of one batch as they are about to be
written: after the transform where there is one, as they were read where there is none; in the form in which
the batch has them (Arrow batches of a split, or a Spark frame). It runs between reading a batch and staging
it, so that a batch that fails leaves nothing in the output, and the watermark stays.
"""
