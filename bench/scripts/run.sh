#!/bin/bash
# Trains in two stages, and keeps what they print, as a lab's script does.
set -euo pipefail
for stage in 1 2; do
    python typed.py --optim.lr "${LR:-0.05}" --epochs "${EPOCHS:-3}" 2>&1 | tee "stage$stage.log"
done
