#!/usr/bin/env bash
# Every command of docs/mysql-s3-redshift.md, in its order. `TABLE=settlement_normal_delivery_detail` for SQLite.
set -euo pipefail
TABLE=${TABLE:-settlement.settlement_normal_delivery_detail}
HERE=$(dirname "$(realpath "$0")")

python3 "$HERE/settlement.py" make

# Watermark lifecycle: initialization
tidegauge watermark get -t "$TABLE"
tidegauge watermark set -t "$TABLE" --timestamp '2025-08-01 00:00:00' --reason "begin in August" --yes
tidegauge sync -t "$TABLE" --dry-run
tidegauge sync -t "$TABLE"

# Watermark operations: view, set, reset, list
tidegauge watermark get -t "$TABLE"
tidegauge watermark get -t "$TABLE" --json
tidegauge watermark set -t "$TABLE" --timestamp '2025-08-01 00:00:00' --reason "fresh from August" --force --yes
tidegauge watermark set -t "$TABLE" --timestamp '2025-08-10 20:00:00' --reason "catching up" --yes
tidegauge watermark reset -t "$TABLE" --reason "from the beginning" --yes
tidegauge watermark reset -t "$TABLE" --mysql-only --reason "read it again" --yes
tidegauge watermark reset -t "$TABLE" --redshift-only --reason "load it again" --yes
tidegauge watermark list

# Strategies 1: fresh complete sync
tidegauge s3clean clean -t "$TABLE" --reason "a fresh start" --yes
tidegauge watermark reset -t "$TABLE" --reason "a fresh start" --yes
tidegauge sync -t "$TABLE"
# the same in one command, which also empties the warehouse's table
tidegauge sync -t "$TABLE" --full-refresh --reason "a fresh start" --yes

# Strategies 2: catch-up from a date
tidegauge watermark set -t "$TABLE" --timestamp '2025-07-01 00:00:00' --reason "July again" --force --yes
tidegauge sync -t "$TABLE"

# Strategies 3: incremental daily sync
python3 "$HERE/settlement.py" work
tidegauge sync -t "$TABLE"
tidegauge sync -t "$TABLE"

# Strategies 4: resume an interrupted sync
python3 "$HERE/settlement.py" work
timeout --signal=KILL 2 tidegauge sync -t "$TABLE" || true
tidegauge watermark get -t "$TABLE"
tidegauge sync -t "$TABLE"

# Strategies 5: a time range only
tidegauge watermark set -t "$TABLE" --timestamp '2025-08-10 00:00:00' --reason "from 10 August" --force --yes
tidegauge sync -t "$TABLE" --backup-only
tidegauge sync -t "$TABLE" --redshift-only
# with an end, and without touching the watermark
tidegauge backfill -t "$TABLE" --from '2025-03-01' --to '2025-03-31 23:59:59' --reason "March was corrected" --yes

# Troubleshooting 1: the watermark does not move
tidegauge watermark get -t "$TABLE"
tidegauge s3clean list -t "$TABLE"
tidegauge sync -t "$TABLE" --debug

# Troubleshooting 2: corruption
tidegauge watermark get -t "$TABLE" --json > watermark_backup.json
tidegauge watermark export -t "$TABLE" > watermarks.json
tidegauge watermark set -t "$TABLE" --timestamp '2025-08-10 15:00:00' --reason "a known good state" --force --yes
tidegauge sync -t "$TABLE" --limit 1000
tidegauge watermark import watermarks.json --reason "back to where it was" --force --yes
tidegauge sync -t "$TABLE"

# Troubleshooting 3 and 4: duplicate or missing rows in the warehouse
tidegauge verify -t "$TABLE"
tidegauge sync -t "$TABLE"
tidegauge watermark set -t "$TABLE" --timestamp '2025-06-01 00:00:00' --reason "an earlier time" --force --yes
tidegauge sync -t "$TABLE"

# Validation: consistency and integrity
tidegauge watermark get -t "$TABLE"
tidegauge s3clean list -t "$TABLE" | wc -l

# Backup strategies, on every table
python3 "$HERE/settlement.py" work
tidegauge sync --strategy sequential
tidegauge sync --strategy inter-table --parallel 2
tidegauge sync --strategy intra-table --parallel 4

# Advanced 1: recent rows first, history later, in two passes
tidegauge watermark set -t "$TABLE" --timestamp '2025-08-01 00:00:00' --reason "recent first" --force --yes
tidegauge sync -t "$TABLE"
tidegauge watermark set -t "$TABLE" --timestamp '2025-01-01 00:00:00' --reason "then history" --force --yes
tidegauge sync -t "$TABLE" --backup-only
tidegauge sync -t "$TABLE" --redshift-only
# the second pass without moving the watermark back
tidegauge backfill -t "$TABLE" --to '2025-08-01 00:00:00' --reason "history" --yes

# Advanced 2: staged loading
python3 "$HERE/settlement.py" work
tidegauge sync -t "$TABLE" --backup-only
tidegauge sync -t "$TABLE" --redshift-only --limit 1000
tidegauge sync -t "$TABLE" --redshift-only

# Advanced 3: validation
tidegauge sync -t "$TABLE" --verify-data
tidegauge watermark get -t "$TABLE"

# Everything, and the proof of it
tidegauge sync --verify-data
tidegauge history -t "$TABLE"
