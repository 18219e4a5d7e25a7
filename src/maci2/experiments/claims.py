"""Claims about the results, each checked against them."""

from collections.abc import Callable

from maci2.evaluation.metrics import METRICS
from maci2.experiments.board import Board
from maci2.experiments.method import Method, short_vision
from maci2.experiments.paper_numbers import LEARNED_LEARNED, PaperTable
from maci2.experiments.table import Claim

LARGEST_REJECTED_RIGHT = 0.02
"""Accepted fraction of correct windows that are rejected."""

LEARNED, RAW = "maci2, learned IMU", "maci2, raw IMU"
"""Names of the rows of maci2."""

ClaimMaker = Callable[[Board, PaperTable | None], list[Claim]]


def no_claims(_: Board, __: PaperTable | None) -> list[Claim]:
    """No claims, for experiments that only report numbers."""
    return []


def baseline_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claims about maci2 compared with the baselines on the same input, and with the paper.

    Learned, it is compared with all; raw, with those that know nothing of this sensor.
    """
    claims = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        classes = [
            (_find(methods, LEARNED), methods, "of all methods"),
            (
                _find(methods, RAW),
                [method for method in methods if not method.knows_sensor],
                "of the methods that know nothing of this sensor",
            ),
        ]
        for ours, others, among in classes:
            if ours is None or len(others) < 2:
                continue
            claims += [
                _lowest(board, ours, others, metric, among)
                for metric in ("gravity_deg", "velocity_rmse")
            ]
            claims.append(_most_successful(board, ours, others, among))
        claims += [_honest(board, method) for method in methods if _is_ours(method)]
        claims += against_paper(board, paper, vision)
    return claims


def ablation_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claim that using both stated covariances is best in every metric."""
    claims = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        full, scalar = _find(methods, LEARNED_LEARNED), _find(methods, "one tuned scalar")
        if full is None or scalar is None:
            continue
        for metric in ("gravity_deg", "velocity_rmse", "rotation_deg", "translation_m"):
            claims.append(_lowest(board, full, methods, metric))
            claims.append(_gain(board, full, scalar, metric))
    return claims + against_paper(board, paper)


def fusion_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claim that fusion improves the poses of vision."""
    claims = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        alone = _find(methods, "vision only")
        if alone is None:
            continue
        for fused in methods:
            if fused is not alone:
                claims += [
                    _gain(board, fused, alone, metric)
                    for metric in ("rotation_deg", "translation_m")
                ]
    return claims


def paper_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claims about our rows compared with those of the paper."""
    return against_paper(board, paper)


def against_paper(board: Board, paper: PaperTable | None, vision: str | None = None) -> list[Claim]:
    """All rows that are also in the paper, over the same recordings."""
    claims = []
    for method in board.methods:
        if paper is None or not _is_ours(method) or (vision and method.vision != vision):
            continue
        for metric in paper.rows.get(method.paper_row, {}):
            ours = board.average(method).mean[metric]
            theirs = paper.mean(method.paper_row, metric, board.recordings)
            if ours is None or theirs is None:
                continue
            title, unit, digits = METRICS[metric]
            text = f"{_on(method)}: {title} {ours:.{digits}f} {unit}, the paper {theirs:.{digits}f}"
            claims.append(Claim(text, round(ours, digits) <= round(theirs, digits)))
    return claims


def _lowest(
    board: Board, ours: Method, methods: list[Method], metric: str, among: str = "of all methods"
) -> Claim:
    title, unit, digits = METRICS[metric]
    means = {method.name: board.average(method).mean[metric] for method in methods}
    known = {name: value for name, value in means.items() if value is not None}
    best = min(known, key=lambda name: known[name]) if known else "nobody"
    value = means.get(ours.name)
    shown = "-" if value is None else f"{value:.{digits}f}"
    where = f"{among}, vision {short_vision(ours.vision)}"
    text = f"{ours.name} has the lowest {title} {where}: {shown} {unit}"
    if best == ours.name or value is None:
        return Claim(text, value is not None)
    return Claim(f"{text}; {best} has {known[best]:.{digits}f}", False)


def _most_successful(board: Board, ours: Method, methods: list[Method], among: str) -> Claim:
    rates = {method.name: board.average(method).success or 0.0 for method in methods}
    best = max(rates, key=lambda name: rates[name])
    text = (
        f"{ours.name} has the highest success rate {among}, vision {short_vision(ours.vision)}: "
        f"{rates[ours.name]:.3f}"
    )
    if rates[ours.name] >= rates[best]:
        return Claim(text, True)
    return Claim(f"{text}; {best} has {rates[best]:.3f}", False)


def _honest(board: Board, method: Method) -> Claim:
    mean = board.average(method)
    wrong, missed = mean.accepted_wrong or 0.0, mean.rejected_right or 0.0
    return Claim(
        f"{_on(method)}: accepted but wrong {100 * wrong:.1f} %, "
        f"rejected but right {100 * missed:.1f} %, unsure {100 * (mean.unsure or 0.0):.1f} %",
        wrong == 0.0 and missed <= LARGEST_REJECTED_RIGHT,
    )


def _gain(board: Board, ours: Method, other: Method, metric: str) -> Claim:
    title, _, _ = METRICS[metric]
    mine, theirs = (board.average(method).mean[metric] for method in (ours, other))
    if mine is None or theirs is None or theirs == 0.0:
        return Claim(f"{ours.name} against {other.name}: no {title} to compare", False)
    share = 100.0 * (1.0 - mine / theirs)
    word = "lower" if share >= 0.0 else "higher"
    return Claim(
        f"{ours.name}, vision {short_vision(ours.vision)}: {title} {abs(share):.0f} % {word} than "
        f"{other.name}",
        mine <= theirs,
    )


def _find(methods: list[Method], name: str) -> Method | None:
    return next((method for method in methods if method.name == name), None)


def _is_ours(method: Method) -> bool:
    return method.initializer in ("maci2", "maci2-raw")


def _on(method: Method) -> str:
    return f"{method.name}, vision {short_vision(method.vision)}"
