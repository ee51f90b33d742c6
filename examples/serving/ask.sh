#!/usr/bin/env bash
# The three models, asked with curl: ask.sh [http://127.0.0.1:8501]
set -euo pipefail
server=${1:-http://127.0.0.1:8501}
folder=$(cd "$(dirname "$0")" && pwd)

# A picture as it is, and as a form with a file; the answer is one value an output.
curl -sf -H 'Content-Type: image/png' --data-binary "@$folder/seven.png" "$server/v2/models/digit/generate"
echo
curl -sf -F "image=@$folder/shapes.png" "$server/v2/models/shapes/generate"
echo
curl -sf -d '{"text": "The soup was great, the waiter was friendly."}' "$server/v2/models/sentiment/generate"
echo

# The same in TensorFlow Serving's words: any number of items, an answer for each.
curl -sf -d '{"instances": ["I loved the film.", "The bed was broken."]}' "$server/v1/models/sentiment:predict"
echo

# And in those of Open Inference (Triton's).
curl -sf -d '{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["The phone was slow."]}]}' \
    "$server/v2/models/sentiment/infer"
echo
