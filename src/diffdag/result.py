"""Stub, until the façade lands."""

from diffdag.results.conditions_result import ConditionsResult, folder_names
from diffdag.results.result import DifferenceResult

__all__ = ["ConditionsResult", "DifferenceResult", "folder_names"]


def load(path: object) -> DifferenceResult | ConditionsResult:
    """Stub."""
    from diffdag.results.conditions_result import load_conditions  # noqa: PLC0415
    from diffdag.results.result import load_result  # noqa: PLC0415

    try:
        return load_result(path)  # type: ignore[arg-type]
    except ValueError:
        return load_conditions(path)  # type: ignore[arg-type]
