#!/usr/bin/env bash
# Requests to the three models with curl: ask.sh [http://127.0.0.1:8501]
set -euo pipefail
server=${1:-http://127.0.0.1:8501}
folder=$(cd "$(dirname "$0")" && pwd)

# A picture as the body, and as a file in a form. The reply has one value for each output.
curl -sf -H 'Content-Type: image/png' --data-binary "@$folder/seven.png" "$server/v2/models/digit/generate"
echo
curl -sf -F "image=@$folder/shapes.png" "$server/v2/models/detect_classify/generate"
echo
curl -sf -d '{"text": "The soup was great, the waiter was friendly."}' "$server/v2/models/sentiment/generate"
echo

# The protocol of TensorFlow Serving: any number of items, with one prediction for each.
curl -sf -d '{"instances": ["I loved the film.", "The bed was broken."]}' "$server/v1/models/sentiment:predict"
echo

# The protocol of Open Inference (Triton).
curl -sf -d '{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["The phone was slow."]}]}' \
    "$server/v2/models/sentiment/infer"
echo
