"""Time-ordered ids: UUID version 7 of RFC 9562."""

RANDOM_BYTES = 10


def uuid7(milliseconds: int, random: bytes) -> str:
    """Build a UUIDv7 from a Unix time in milliseconds and ten random bytes."""
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(random[:RANDOM_BYTES])
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
