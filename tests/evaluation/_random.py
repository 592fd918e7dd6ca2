"""Random numbers by NumPy, bit by bit those of JAX. Keys are integers of 64 bits here."""

import jax
import numpy as np

_TURNS = (13, 15, 26, 6), (17, 29, 16, 24)


def is_key(dtype) -> bool:
    """Whether it is a type of JAX's keys, which NumPy does not have."""
    return not isinstance(dtype, np.dtype)


def is_threefry(dtype) -> bool:
    """Whether keys are of the kind that JAX makes where no other is asked for."""
    return dtype.name == "key<fry>"


def from_keys(keys: jax.Array) -> np.ndarray:
    return _joined(*np.moveaxis(np.asarray(jax.random.key_data(keys)), -1, 0))


def to_keys(numbers: np.ndarray) -> jax.Array:
    return jax.random.wrap_key_data(np.stack(_halves(np.asarray(numbers)), -1), impl="threefry2x32")


def _joined(high, low):
    return np.asarray(high, np.uint64) << np.uint64(32) | low


def _halves(x):
    return (x >> np.uint64(32)).astype(np.uint32), x.astype(np.uint32)


def _threefry(keys, counts):
    """Both halves of what Threefry makes of numbers of 64 bits, in twenty rounds."""
    first, second = _halves(keys)
    words = first, second, first ^ second ^ np.uint32(0x1BD11BDA)
    x, y = _halves(counts)
    x, y = x + words[0], y + words[1]
    for i in range(5):
        for turn in _TURNS[i % 2]:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x, y = x + words[(i + 1) % 3], y + words[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _counted(keys, shape):
    """For each key, of the numbers from zero on in this shape."""
    counts = np.arange(np.prod(shape, dtype=int), dtype=np.uint64).reshape(shape)
    return _threefry(keys.reshape(keys.shape + (1,) * len(shape)), counts)


def _bits(out, _, *, bit_width, shape):
    def run(keys):
        high, low = _counted(keys, shape)
        return _joined(high, low) if bit_width == 64 else (high ^ low).astype(out.dtype)

    return run


RANDOM = {
    "random_bits": _bits,
    "random_split": lambda _, __, *, shape: lambda keys: _joined(*_counted(keys, shape)),
    "random_fold_in": lambda *_: lambda keys, x: _joined(*_threefry(keys, x.astype(np.uint32).astype(np.uint64))),
}
