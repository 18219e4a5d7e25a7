"""SO(3) and SE(3): exponential, logarithm, adjoint and Jacobians, right in every regime.

Conventions (docs/conventions.md): the SE(3) tangent is [rho, phi], translation first; Jacobians
are named by side: Exp(x + d) = Exp(J_l(x) d) Exp(x) = Exp(x) Exp(J_r(x) d).

Series in both rho and phi lose the coupling of a metre-long rho with a tiny phi. So every
coefficient is a function of the angle alone, and rho is never truncated.
"""

from maci2.geometry.se3 import (
    se3,
    se3_adj,
    se3_exp,
    se3_inv,
    se3_jl,
    se3_jl_inv,
    se3_jr,
    se3_jr_inv,
    se3_log,
    se3_mul,
)
from maci2.geometry.so3 import (
    one_minus_cos_over,
    sin_over,
    skew,
    so3_exp,
    so3_jl,
    so3_jl_inv,
    so3_jr,
    so3_jr_inv,
    so3_log,
    t_minus_sin_over,
)

__all__ = [
    "one_minus_cos_over",
    "se3",
    "se3_adj",
    "se3_exp",
    "se3_inv",
    "se3_jl",
    "se3_jl_inv",
    "se3_jr",
    "se3_jr_inv",
    "se3_log",
    "se3_mul",
    "sin_over",
    "skew",
    "so3_exp",
    "so3_jl",
    "so3_jl_inv",
    "so3_jr",
    "so3_jr_inv",
    "so3_log",
    "t_minus_sin_over",
]
