"""What is known of a model's versions, as TensorFlow Serving reports it."""

from collections.abc import Mapping

import grpc
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusResponse, ModelVersionStatus

from t2t_repro.serving.request_error import RequestError


def status_of(
    name: str, served: int, refused: Mapping[int, str], number: int | None
) -> GetModelStatusResponse:
    """The state of a version, or of all that were tried: AVAILABLE, or END with the reason.

    Args:
        name: of the model.
        served: the version that is served.
        refused: why others are not.
        number: of the version that is asked for, None for all.

    Raises:
        RequestError: there is no such version.
    """
    ended, unknown = ModelVersionStatus.END, grpc.StatusCode.UNKNOWN
    states = {n: _state(n, ended, unknown, why) for n, why in refused.items()}
    states[served] = _state(served, ModelVersionStatus.AVAILABLE, grpc.StatusCode.OK, "")
    if number is not None and number not in states:
        raise RequestError(
            grpc.StatusCode.NOT_FOUND, f"Could not find version {number} of model {name}"
        )
    asked = sorted(states, reverse=True) if number is None else [number]
    return GetModelStatusResponse(model_version_status=[states[n] for n in asked])


def _state(number: int, state: int, code: grpc.StatusCode, message: str) -> ModelVersionStatus:
    status = ModelVersionStatus(version=number, state=state)
    # Sent even where it says OK.
    status.status.SetInParent()
    status.status.error_code = code.value[0]
    status.status.error_message = message
    return status
