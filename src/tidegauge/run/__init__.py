"""Running flows: plan them, schedule them side by side, execute their batches, report.
Knows flows and the ledger; asks outputs and sources only through their Protocols.
"""
