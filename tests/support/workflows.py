"""A project of three layers with the daily workflow of an observability lakehouse."""

from __future__ import annotations

from pathlib import Path

from tidegauge.config.load import load_project
from tidegauge.model.spec import Project

FLOWS = """\
pipeline: observability
flows:
  bronze_usage: {inputs: {u: {path: sys/usage}}, output: {path: b/usage, key: id}, tags: bronze}
  silver_usage: {inputs: {u: {path: b/usage}}, output: {path: s/usage, key: id}, tags: silver}
  gold_usage: {inputs: {u: {path: s/usage}}, output: {path: g/usage, key: id}, tags: gold}
"""
DAILY = (
    FLOWS
    + """\

workflow:
  name: daily_observability_workflow
  schedule: 30 5 * * *
  timezone: UTC
  email: data-team@example.com
  at: /Workspace/Shared/observability
  tasks:
    bronze_ingest: {select: "tag:bronze", retries: 2, description: Ingest new rows}
    silver_build: {select: "tag:silver", retries: 2}
    gold_build: {select: "tag:gold", retries: 2}
    performance_optimization: {command: optimize, retries: 1}
    health_check: {command: health, retries: 1}
"""
)


def load(folder: Path, text: str) -> Project:
    file = folder / "tidegauge.yml"
    file.write_text(text, encoding="utf-8")
    return load_project(file)
