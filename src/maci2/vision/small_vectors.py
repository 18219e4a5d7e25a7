"""Vectors and matrices of a single match as tuples, which compiled code keeps in registers."""

from maci2.compile import kernel

Vector = tuple[float, float, float]
Rows = tuple[Vector, Vector, Vector]
Vector4 = tuple[float, float, float, float]
Rows4 = tuple[Vector4, Vector4, Vector4, Vector4]

LIBERTIES = {"contract", "reassoc", "nsz"}
"""Sums may be taken in any order; NaN and infinity stay what they are."""

small = kernel(fastmath=LIBERTIES, forceinline=True)
"""Decorator of what must be inlined into the calling loop, or it takes one match at a time."""


@small
def plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@small
def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@small
def scaled(s: float, a: Vector) -> Vector:
    return s * a[0], s * a[1], s * a[2]


@small
def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@small
def dot4(a: Vector4, b: Vector4) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@small
def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@small
def times(A: Rows, b: Vector) -> Vector:
    return dot(A[0], b), dot(A[1], b), dot(A[2], b)


@small
def times4(A: Rows4, b: Vector4) -> Vector4:
    return dot4(A[0], b), dot4(A[1], b), dot4(A[2], b), dot4(A[3], b)


@small
def added(A: Rows, B: Rows) -> Rows:
    return plus(A[0], B[0]), plus(A[1], B[1]), plus(A[2], B[2])
