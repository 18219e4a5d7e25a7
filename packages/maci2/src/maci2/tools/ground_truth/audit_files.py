"""Audits in files: a folder in EuRoC's layout, and the user's cache.

The folder holds data.csv, covariance.npz and audit.json. An audit in the cache is found again by
what it was made from, never by a path.
"""

import hashlib
import io
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from pydantic import TypeAdapter

from maci2 import __version__
from maci2.datasets.euroc import (
    COVARIANCE_FIELDS,
    COVARIANCE_FILE,
    covariance_arrays,
    covariance_of,
    truth_csv,
)
from maci2.errors import DatasetError, OptionError, OutputError
from maci2.files import (
    NpzField,
    finite_or_none,
    parse_json,
    read_npz,
    real_path,
    user_cache,
    whole_folder,
    write_atomically,
    write_json,
    write_npz,
)
from maci2.sensors import GroundTruth, Recording
from maci2.tools.ground_truth.audit import AuditedTruth, audit_capture
from maci2.tools.ground_truth.capture import Capture, open_capture
from maci2.tools.ground_truth.comparison import Compared

COVARIANCE_ORDER = "phi (right, rad), v (m/s), p (m), gyro bias (rad/s), acc bias (m/s^2)"


def write_audit(audit: AuditedTruth, folder: Path, compared: Sequence[Compared] = ()) -> None:
    """Write the three files; the folder appears whole or not at all."""
    assert audit.truth.covariance is not None
    covariances = io.BytesIO()
    np.savez_compressed(
        covariances,
        stamps_ns=audit.truth.stamps_ns,
        cov=audit.cov_states.astype(np.float32),
        order=np.array(COVARIANCE_ORDER),
        version=np.array(__version__),
        **covariance_arrays(audit.truth.covariance),
    )
    with whole_folder(folder) as temporary:
        write_atomically(temporary / "data.csv", truth_csv(audit.truth))
        write_atomically(temporary / COVARIANCE_FILE, covariances.getvalue())
        write_json(temporary / "audit.json", audit_record(audit, compared))


def require_outside(folder: Path, recording: Path, inside: bool) -> None:
    """Nothing is written into a recording unless the user says so."""
    if not inside and real_path(folder).is_relative_to(real_path(recording)):
        raise OptionError(
            f"-o is {folder}, inside the recording {recording}; a recording is not changed unless "
            "you say --inside. Choose another folder."
        )


def audit_record(audit: AuditedTruth, compared: Sequence[Compared] = ()) -> dict[str, Any]:
    """Contents of `audit.json` and `--json`; `compared` are published truths beside the audit."""
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
            name: asdict(constant)
            | {"value": finite_or_none(constant.value), "std": finite_or_none(constant.std)}
            for name, constant in audit.constants.items()
        },
        "position_noise": asdict(audit.position_noise),
        "orientation_noise": audit.orientation_noise and asdict(audit.orientation_noise),
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


_LOG = logging.getLogger(__name__)

MOST_KEPT = 60
"""Audits kept; about 15 MB each. The oldest go first."""

CODE = ("estimator", "tools/ground_truth", "imu")
"""Rooms whose source an audit depends on."""

STATES = {
    "stamps_ns": NpzField("iu", ("n",)),
    "Ts_w_b": NpzField("f", ("n", 4, 4)),
    **dict.fromkeys(("v_w", "bias_gyro", "bias_acc"), NpzField("f", ("n", 3))),
}
"""Arrays of an audit's ground truth."""

OTHERS = {"jumps_ns": NpzField("iu", ("m",)), "about": NpzField("U", ())}
ARRAYS = ("truth", "jumps_ns", "position_residuals", "orientation_residuals")
ABOUT = [name for name in get_type_hints(AuditedTruth) if name not in ARRAYS]
"""Fields of an audit that are kept as JSON."""


def cached_audit(recording: Recording, source_name: str = "") -> AuditedTruth:
    """The audit of a source, from the cache where this very data was audited by this very code."""
    capture = open_capture(recording, source_name)
    folder = user_cache("audits")
    path = None if folder is None else folder / f"{_digest(recording, capture)}.npz"
    if path is not None and path.is_file():
        try:
            return read_kept(path, f"audited {capture.source}")
        except DatasetError:
            _LOG.warning("%s: is damaged and made anew.", path)
    _LOG.info("auditing %s of %s", capture.name, recording.name)
    audit = audit_capture(recording, capture)
    if path is not None:
        keep(path, audit)
    return audit


def _digest(recording: Recording, capture: Capture) -> str:
    """Digest of everything that an audit depends on: data, noise, options and code."""
    digest = hashlib.sha256(_code_digest())
    rig, claims = recording.rig, capture.claims
    about = (rig.imu, rig.exact, capture.name, capture.source, capture.one_clock)
    digest.update(repr(about).encode())
    imu = recording.imu
    arrays = [imu.stamps_ns, imu.gyro, imu.acc, capture.stamps_ns, capture.p_w_m, capture.T_b_m]
    arrays += [] if capture.Rs_w_m is None else [capture.Rs_w_m]
    if claims is not None:
        arrays += [claims.stamps_ns, claims.v_w, claims.bias_gyro, claims.bias_acc]
    for array in arrays:
        digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


@lru_cache(maxsize=1)
def _code_digest() -> bytes:
    package = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(__version__.encode())
    for room in CODE:
        for path in sorted((package / room).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


def keep(path: Path, audit: AuditedTruth) -> None:
    """Write an audit to be read back; a cache that cannot be written costs nothing but time."""
    truth, cov = audit.truth, audit.truth.covariance
    assert cov is not None
    about = json.dumps({name: getattr(audit, name) for name in ABOUT}, default=asdict)
    arrays = {name: getattr(truth, name) for name in STATES} | covariance_arrays(cov)
    arrays |= {"jumps_ns": audit.jumps_ns, "about": np.array(about)}
    try:
        write_npz(path, arrays)
        kept = sorted(path.parent.glob("*.npz"), key=lambda file: file.stat().st_mtime)
        for old in kept[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, OutputError) as problem:
        _LOG.info("%s: the audit is not kept (%s)", path, problem)


def read_kept(path: Path, source: str) -> AuditedTruth:
    """An audit that was kept in a file; `source` names its ground truth in messages."""
    arrays = read_npz(path, STATES | COVARIANCE_FIELDS | OTHERS, "a kept audit", DatasetError)
    states: dict[str, Any] = {name: arrays[name] for name in STATES}
    truth = GroundTruth(**states, source=source, covariance=covariance_of(arrays, str(path)))
    about = parse_json(str(arrays["about"]), str(path), "findings and constants of an audit")
    types = get_type_hints(AuditedTruth)
    try:
        known = {name: TypeAdapter(types[name]).validate_python(about[name]) for name in ABOUT}
    except (KeyError, TypeError, ValueError) as problem:
        raise DatasetError(f"{path}: is no kept audit ({problem}); remove it.") from problem
    return AuditedTruth(truth=truth, jumps_ns=arrays["jumps_ns"], **known)
