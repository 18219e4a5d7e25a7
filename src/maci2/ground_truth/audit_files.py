"""An audit as a folder in EuRoC's layout: data.csv, covariance.npz, audit.json."""

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from maci2 import __version__
from maci2.datasets.euroc import COVARIANCE_FILE, covariance_arrays, truth_csv
from maci2.errors import OptionError
from maci2.files import finite_or_none, real_path, whole_folder, write_atomically, write_json
from maci2.ground_truth.agreement import Compared
from maci2.ground_truth.audit_fit import NoiseLevel
from maci2.ground_truth.audited import AuditedTruth

COVARIANCE_ORDER = "phi (right, rad), v (m/s), p (m), gyro bias (rad/s), acc bias (m/s^2)"


def write_audit(audit: AuditedTruth, folder: Path, compared: Sequence[Compared] = ()) -> None:
    """Write the three files; the folder appears whole or not at all."""
    with whole_folder(folder) as temporary:
        write_atomically(temporary / "data.csv", truth_csv(audit.truth))
        write_atomically(temporary / COVARIANCE_FILE, _covariance_npz(audit))
        write_json(temporary / "audit.json", audit_record(audit, compared))


def require_outside(folder: Path, recording: Path, inside: bool) -> None:
    """Nothing is written into a recording unless the user says so."""
    if not inside and real_path(folder).is_relative_to(real_path(recording)):
        raise OptionError(
            f"-o is {folder}, inside the recording {recording}; a recording is not changed unless "
            "you say --inside. Choose another folder."
        )


def _covariance_npz(audit: AuditedTruth) -> bytes:
    assert audit.truth.covariance is not None
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        stamps_ns=audit.truth.stamps_ns,
        cov=audit.cov_states.astype(np.float32),
        order=np.array(COVARIANCE_ORDER),
        version=np.array(__version__),
        **covariance_arrays(audit.truth.covariance),
    )
    return buffer.getvalue()


def audit_record(audit: AuditedTruth, compared: Sequence[Compared] = ()) -> dict[str, Any]:
    """What `audit.json` and `--json` hold; `compared` are published truths beside the audit."""
    assert audit.truth.covariance is not None
    std = np.sqrt(np.einsum("kii->ki", audit.truth.covariance.states))
    return {
        "source": audit.name,
        "version": __version__,
        "rows": len(audit.truth),
        "start_ns": int(audit.truth.stamps_ns[0]),
        "end_ns": int(audit.truth.stamps_ns[-1]),
        "findings": [asdict(finding) for finding in audit.findings],
        "constants": {
            name: {
                "value": finite_or_none(constant.value),
                "std": finite_or_none(constant.std),
                "unit": constant.unit,
                "significant": constant.significant,
            }
            for name, constant in audit.constants.items()
        },
        "position_noise": _noise(audit.position_noise),
        "orientation_noise": _noise(audit.orientation_noise),
        "imu_variance_factors": asdict(audit.imu_factors),
        "chi_square": finite_or_none(audit.chi_square),
        "dof": audit.dof,
        "jumps_ns": [int(stamp) for stamp in audit.jumps_ns],
        "median_std": {
            "rotation_deg": float(np.degrees(np.median(std[:, 0:3]))),
            "velocity": float(np.median(std[:, 3:6])),
            "position": float(np.median(std[:, 6:9])),
        },
        "compared": [asdict(one) for one in compared],
        "covariance_order": COVARIANCE_ORDER,
    }


def _noise(level: NoiseLevel | None) -> dict[str, float] | None:
    if level is None:
        return None
    return {"std": float(level.std), "lasting_rows": float(level.lasting_rows)}
