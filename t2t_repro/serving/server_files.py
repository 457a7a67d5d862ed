"""What TensorFlow Serving is started with: which models, how requests are joined, monitoring."""

from pathlib import Path

_MODELS = """\
# tensorflow_model_server --model_config_file=/models/{name}/models.config
# base_path is the folder that holds this file, as the server sees it: mount it there.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # The newest version is served; the one before goes on until the newer one is ready.
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
}}
"""

_BATCHING = """\
# tensorflow_model_server --enable_batching=true \\
#     --batching_parameters_file=/models/{name}/batching_params.pbtxt
# Sentences of different requests are translated together, up to so many; no request may hold more.
max_batch_size {{ value: 128 }}
# enable_large_batch_splitting must stay off: the server glues the parts' answers together, those
# of token_ids have different widths, and it would end there.
# How long the first waits for company: little beside what a translation takes.
batch_timeout_micros {{ value: 5000 }}
# What waits beyond that is refused with UNAVAILABLE.
max_enqueued_batches {{ value: 256 }}
# num_batch_threads is one a core where it is not given, which is what decoding wants.
# allowed_batch_sizes would fill batches up with copies: the model takes any size.
# token_ids of different lengths are filled up, with the first id of each request: clients that join
# in must end every sentence with EOS, what follows is not read.
pad_variable_length_inputs: true
"""

_MONITORING = """\
# tensorflow_model_server --rest_api_port=8501 \\
#     --monitoring_config_file=/models/{name}/monitoring.config
prometheus_config {{
  enable: true
  path: "/monitoring/prometheus/metrics"
}}
"""

SERVER_FILES = {
    "models.config": _MODELS,
    "batching_params.pbtxt": _BATCHING,
    "monitoring.config": _MONITORING,
}
"""Text of each file; `{name}` is the model's."""


def write_server_files(export_dir: Path, model_name: str) -> None:
    """Writes the files that are not there; one that is may have been adapted, and stays.

    Args:
        export_dir: where the model's versions are.
        model_name: as clients name the model.
    """
    for name, text in SERVER_FILES.items():
        path = export_dir / name
        if not path.exists():
            path.write_text(text.format(name=model_name), encoding="utf-8")
