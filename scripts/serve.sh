#!/usr/bin/env bash
# Serves an exported model with TensorFlow Serving's official container: REST on 8501, gRPC on 8500.
#
#   python -m t2t_repro.export --model_dir=runs/quickstart/model --export_dir=runs/quickstart/servable
#   bash scripts/serve.sh runs/quickstart/servable
#   python -m t2t_repro.client
#
# Usage: scripts/serve.sh EXPORT_DIR [MODEL_NAME]     (the --model_name of the export: "translate")
# Needs Docker or Podman. Newer versions in EXPORT_DIR are picked up while it runs; Ctrl-C ends it.
# IMAGE, HOST, REST_PORT, GRPC_PORT and MEMORY may be set in the environment.
set -euo pipefail

fail() { echo "error: $1" >&2; exit 2; }

case $# in 1 | 2) ;; *) fail "usage: scripts/serve.sh EXPORT_DIR [MODEL_NAME]" ;; esac
model_name="${2:-translate}"
# A version that has the operations of tensorflow-text: any from 2.12 on.
image="${IMAGE:-docker.io/tensorflow/serving:2.19.1}"
# Loopback: TensorFlow Serving asks nobody for a password. 0.0.0.0 opens it to the network.
host="${HOST:-127.0.0.1}"

for config in models.config batching_params.pbtxt monitoring.config; do
    [ -f "$1/$config" ] || fail "$1/$config is not there: expected what python -m t2t_repro.export wrote."
done
grep -q "name: \"$model_name\"" -- "$1/models.config" || fail "$1/models.config names another model than $model_name: give its name as the second argument."
export_dir="$(cd -- "$1" && pwd)"
engine="$(command -v docker || command -v podman)" || fail "neither docker nor podman is installed."

container=(
    --rm                                # nothing is kept: the model lies outside
    --name "serve-$model_name"          # "docker stop serve-<name>" ends it
    --init                              # passes Ctrl-C and SIGTERM on
    --stop-timeout 30                   # seconds to finish what was taken, then it is killed
    --publish "$host:${REST_PORT:-8501}:8501"
    --publish "$host:${GRPC_PORT:-8500}:8500"
    --volume "$export_dir:/models/$model_name:ro" # the place that models.config names; read only
    --read-only                         # it writes nothing
    --cap-drop ALL --security-opt no-new-privileges # it needs no rights
    --memory "${MEMORY:-4g}"            # two versions at once, and the longest requests
    --entrypoint /usr/bin/tensorflow_model_server # the image's own takes a name, not a models.config
)

folder="/models/$model_name"
server=(
    --port=8500                         # gRPC
    --rest_api_port=8501                # REST, and monitoring below it
    --rest_api_timeout_in_ms=60000      # an answer over REST comes by then, or 504
    --model_config_file="$folder/models.config" # which model, where, and which of its versions
    --file_system_poll_wait_seconds=5   # how often it looks for a newer version
    --max_num_load_retries=0            # a broken version is refused once; the one before goes on
    --enable_model_warmup=true          # a version first answers the requests in its assets.extra
    --enable_batching=true              # requests that wait are translated together,
    --batching_parameters_file="$folder/batching_params.pbtxt" # as many as it says, so long
    --monitoring_config_file="$folder/monitoring.config" # /monitoring/prometheus/metrics on 8501
    --enable_grpc_healthcheck_service=true # for Kubernetes's grpc probes and grpc_health_probe
    --tensorflow_intra_op_parallelism=1 # threads of a matrix product: many requests fill the cores
    # Threads for batches side by side are one a core by default (num_batch_threads).
)

exec "$engine" run "${container[@]}" "$image" "${server[@]}"
