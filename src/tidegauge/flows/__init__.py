"""The kinds of flow: what is new for a flow, the rows of its batches, and which flows a selection means.
Knows sources, transforms, outputs and plans; the only room that tells the kinds apart.
"""
