# SPDX-License-Identifier: Apache-2.0
"""Spark's `xxhash64` in Python, for the key group of a single key.

https://github.com/apache/spark/blob/master/sql/catalyst/src/main/java/org/apache/spark/sql/catalyst/expressions/XXH64.java
has the algorithm.
"""

from __future__ import annotations

from struct import Struct

# `xxhash64` in Python is XXH64 of a value's bytes.  If there are several columns, the hash of the
# columns before is the seed of the next column, and null leaves the hash unchanged.  Numbers of up
# to 32 bits are hashed as four bytes, others as eight, in little-endian order.

SEED = 42
"""The seed that Spark's `xxhash64` begins with."""

_MASK = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE, _WORDS, _WORD, _HALF = 32, Struct("<4Q"), Struct("<Q"), Struct("<I")


def add_sign(value: int) -> int:
    """Return a hash as Spark shows it: 64 bits with a sign."""
    return value - (1 << 64) if value >> 63 else value


def hash_int(value: int, seed: int = SEED) -> int:
    """Hash a number of up to 32 bits, a bool, or a date as days since the epoch."""
    mixed = (seed + _P5 + 4 & _MASK) ^ (value & 0xFFFFFFFF) * _P1 & _MASK
    mixed = (_rotate(mixed, 23) * _P2 + _P3) & _MASK
    return _final(mixed)


def hash_long(value: int, seed: int = SEED) -> int:
    """Hash a number of 64 bits, or a timestamp as microseconds since the epoch."""
    mixed = (seed + _P5 + 8 & _MASK) ^ _round(0, value & _MASK)
    mixed = (_rotate(mixed, 27) * _P1 + _P4) & _MASK
    return _final(mixed)


def hash_bytes(data: bytes, seed: int = SEED) -> int:
    """Hash bytes, or a text as UTF-8."""
    size, at = len(data), 0
    if size >= _STRIPE:
        mixed, at = _stripes(data, seed)
    else:
        mixed = seed + _P5
    mixed = mixed + size & _MASK
    while at + 8 <= size:
        mixed ^= _round(0, _WORD.unpack_from(data, at)[0])
        mixed = (_rotate(mixed, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        mixed ^= _HALF.unpack_from(data, at)[0] * _P1 & _MASK
        mixed = (_rotate(mixed, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        mixed ^= byte * _P5 & _MASK
        mixed = _rotate(mixed, 11) * _P1 & _MASK
    return _final(mixed)


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """Mix all whole stripes; return the mix and the position behind them."""
    lanes = [seed + _P1 + _P2 & _MASK, seed + _P2 & _MASK, seed, seed - _P1 & _MASK]
    end = len(data) - len(data) % _STRIPE
    for words in _WORDS.iter_unpack(data[:end]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words)]
    mixed = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & _MASK
    for lane in lanes:
        mixed = ((mixed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return mixed, end


def _round(lane: int, word: int) -> int:
    return _rotate(lane + word * _P2 & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


def _final(mixed: int) -> int:
    mixed = (mixed ^ mixed >> 33) * _P2 & _MASK
    mixed = (mixed ^ mixed >> 29) * _P3 & _MASK
    return mixed ^ mixed >> 32
