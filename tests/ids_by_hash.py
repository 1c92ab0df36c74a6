"""Ids for any hash that a test wants: XXH64 of eight bytes read backwards, for every step can be undone."""

from typing import Final

_BITS: Final = 2**64
_PRIMES: Final = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63)
_START: Final = 0x27D4EB2F165667C5 + 8
_UNDO: Final = tuple(pow(prime, -1, _BITS) for prime in _PRIMES[:3])


def id_of(value: int) -> int:
    """The one id, signed, whose hash is this 64-bit value."""
    mixed = (value ^ (value >> 32)) * _UNDO[2] % _BITS
    mixed = _unshifted(mixed, 29) * _UNDO[1] % _BITS
    mixed = _unshifted(mixed, 33)
    lane = _turned_back((mixed - _PRIMES[3]) * _UNDO[0] % _BITS, 27) ^ _START
    bits = _turned_back(lane * _UNDO[0] % _BITS, 31) * _UNDO[1] % _BITS
    return bits - _BITS if bits >> 63 else bits


def hash_at(shard: int, table: int, place: int, tag: int, rest: int = 0) -> int:
    """A hash by what the index reads of it: 8, 4, 32 and 8 bits; `rest`, 12 bits, is read by nobody."""
    return shard << 56 | table << 52 | rest << 40 | place << 8 | tag


def _unshifted(bits: int, by: int) -> int:
    whole = bits
    for _ in range(64 // by):
        whole = bits ^ (whole >> by)
    return whole


def _turned_back(bits: int, by: int) -> int:
    return (bits >> by | bits << (64 - by)) % _BITS
