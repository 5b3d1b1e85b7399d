"""The ledger as web pages: what each page shows, as frozen values, and the templates that render them.

May use everything but the command line and the demo; `import tidegauge` imports neither it nor FastAPI.
"""
