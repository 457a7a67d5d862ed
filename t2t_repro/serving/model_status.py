"""What is known of a model's versions, as TensorFlow Serving reports it."""

import grpc
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusResponse, ModelVersionStatus

from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.served_versions import ServedVersions


def status_of(
    versions: ServedVersions, name: str, number: int | None = None
) -> GetModelStatusResponse:
    """The state of a version, or of all that were tried: AVAILABLE, or END with the reason.

    Args:
        versions: what is served.
        name: of the model that is asked for.
        number: of the version that is asked for.

    Raises:
        RequestError: there is no such model or version.
    """
    if name != versions.name:
        raise _not_found(f"Could not find any versions of model {name}")
    ended, unknown = ModelVersionStatus.END, grpc.StatusCode.UNKNOWN
    states = {n: _state(n, ended, unknown, why) for n, why in versions.refused.items()}
    served = versions.served(name).number
    states[served] = _state(served, ModelVersionStatus.AVAILABLE, grpc.StatusCode.OK, "")
    if number is not None and number not in states:
        raise _not_found(f"Could not find version {number} of model {name}")
    asked = sorted(states, reverse=True) if number is None else [number]
    return GetModelStatusResponse(model_version_status=[states[n] for n in asked])


def _state(number: int, state: int, code: grpc.StatusCode, message: str) -> ModelVersionStatus:
    status = ModelVersionStatus(version=number, state=state)
    # Sent even where it says OK.
    status.status.SetInParent()
    status.status.error_code = code.value[0]
    status.status.error_message = message
    return status


def _not_found(message: str) -> RequestError:
    return RequestError(grpc.StatusCode.NOT_FOUND, message)
