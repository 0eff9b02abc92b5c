"""Byte vectors of the run-length encodings, each with its values.

They come from the examples of the ORC specification, from ORC's C++ and Java tests, and from files made by hand. ORC
C++ (pyarrow), ORC Java (Spark) and a reference decoder read the same values from these files. The ids of tests contain
the number of the vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX, MIN = 2**63 - 1, -(2**63)
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
STEPS = list(range(2100, 2200, 10))


@dataclass(frozen=True)
class Vector:
    number: int
    form: str  # "v1", "v2", "bytes", "bits"
    signed: bool
    data: bytes
    values: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.number}-{self.form}-{'S' if self.signed else 'U'}"


def _vector(number: int, form: str, sign: str, data: str | bytes, values: Sequence[int]) -> list[Vector]:
    raw = bytes.fromhex(data) if isinstance(data, str) else data
    return [Vector(number, form, letter == "S", raw, tuple(values)) for letter in sign]


def _bytes(*numbers: int) -> str:
    return bytes(numbers).hex()


def _repeated(size: int) -> str:
    return "".join(_bytes(2 * i) * size for i in range(20))


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


_LONG_V1 = bytes.fromhex("7f01007f0184027f0188047f018c067f0190087f01940a7f01980c6f019c0e") + b"".join(
    b"\x80" + b"".join(_varint(512 * i) for i in range(start, start + 128)) for start in range(1024, 2048, 128)
)

_PATCHED_110 = (
    "906d04a48d1083c200f070403c541803c1c980783c2104f403c1c0e08038200f168381e1007054560e086ac1c0e4a040200ed583c1c0f0797c1e"
    "1209844300e0783c1c0e208441c0f0a0383d5b0703c1c0f0784c1d170703dcc0f0983c340f078381e10090381e0e2c8c81c2e078001c0f080681"
    "c6908068241b0b26832130e0983c6f06b70370"
)
_PATCHED_110_VALUES = [
    20, 2, 3, 2, 1, 3, 17, 71, 35, 2, 1, 139, 2, 2, 3, 1783, 475, 2, 1, 1, 3, 1, 3, 2, 32, 1, 2, 3, 1, 8, 30, 1, 3, 414,
    1, 1, 135, 3, 3, 1, 414, 2, 1, 2, 2, 594, 2, 5, 6, 4, 11, 1, 2, 2, 1, 1, 52, 4, 1, 2, 7, 1, 17, 334, 1, 2, 1, 2, 2,
    6, 1, 266, 1, 2, 217, 2, 6, 2, 13, 2, 2, 1, 2, 3, 5, 1, 2, 1, 7244, 11813, 1, 33, 2, -13, 1, 2, 3, 13, 1, 92, 3, 13,
    5, 14, 9, 141, 12, 6, 15, 25,
]  # fmt: skip

DELTA = [
    *_vector(1, "v2", "S", "c0130002", range(20)),
    *_vector(2, "v2", "S", "ce04e707c80132190f", [-500, -400, -350, -325, -310]),
    *_vector(3, "v2", "S", "ce04e707c701321923", [-500, -600, -650, -675, -710]),
    *_vector(4, "v2", "S", "ce04e807c70132190f", [500, 400, 350, 325, 310]),
    *_vector(5, "v2", "S", "ce04e807c801321923", [500, 600, 650, 675, 710]),
    *_vector(6, "v2", "S", "c0403f02", range(-32, 33)),
    *_vector(7, "v2", "U", "4e02000102 c0024200", [0, 1, 2, 66, 66, 66]),
    *_vector(8, "v2", "U", "c609020222424246", PRIMES),
    *_vector(9, "v2", "S", "ce030a000203", [5, 5, 7, 10]),
    *_vector(10, "v2", "S", "c0000a06", [5]),
    *_vector(11, "v2", "S", "ce010a06", [5, 8]),
    *_vector(12, "v2", "S", "ce020a0504", [5, 2, -2]),
    *_vector(13, "v2", "S", "c0131401", range(10, -10, -1)),
    *_vector(14, "v2", "S", "c1ff0e00", [7] * 512),
    *_vector(15, "v2", "S", "c003fcffffffffffffffff0102", [MAX - 1, MAX, MIN, MIN + 1]),
    *_vector(16, "v2", "S", "c20500026c", [0, 1, 2, 4, 7, 7]),
    *_vector(
        17, "v2", "S", "fe03000240000000000000008000000000000005", [0, 1, 4611686018427387905, -4611686018427387898]
    ),
    *_vector(18, "v2", "S", "c4040002 2980", [0, 1, 2, 4, 7]),
]

SHORT_REPEAT = [
    *_vector(19, "v2", "U", "0a2710", [10000] * 5),
    *_vector(20, "v2", "S", "".join(f"04{2 * i:02x}" for i in range(10)), [i for i in range(10) for _ in range(7)]),
    *_vector(
        21,
        "v2",
        "S",
        "3c8000000000000000 3c8000000000000002 3c8000000000000004",
        [2**62 + i for i in range(3) for _ in range(7)],
    ),
    *_vector(22, "v2", "S", "0001", [-1] * 3),
    *_vector(23, "v2", "S", "0702", [1] * 10),
    *_vector(24, "v2", "S", "38ffffffffffffffff", [MIN] * 3),
    *_vector(25, "v2", "S", "380000000000000000", [0] * 3),
]

DIRECT = [
    *_vector(26, "v2", "S", "46020240", [0, 1, 2]),
    *_vector(27, "v2", "U", "40275555555555", [0, 1] * 20),
    *_vector(28, "v2", "U", "401d6db6db6c", [0, 1, 1] * 10),
    *_vector(29, "v2", "S", "42132222222222", [0, 1] * 10),
    *_vector(30, "v2", "S", "461304040404040404040404", [0, 2] * 10),
    *_vector(31, "v2", "S", "461330483048304830483048", [-2, 0, 2, 4] * 5),
    *_vector(32, "v2", "S", "4e13" + _repeated(1), range(20)),
    *_vector(33, "v2", "S", "5e13" + _repeated(2), [257 * i for i in range(20)]),
    *_vector(34, "v2", "S", "6e13" + _repeated(3), [65793 * i for i in range(20)]),
    *_vector(35, "v2", "S", "7613" + _repeated(4), [16843009 * i for i in range(20)]),
    *_vector(36, "v2", "S", "7813" + _repeated(5), [4311810305 * i for i in range(20)]),
    *_vector(37, "v2", "S", "7a13" + _repeated(6), [1103823438081 * i for i in range(20)]),
    *_vector(38, "v2", "S", "7c13" + _repeated(7), [282578800148737 * i for i in range(20)]),
    *_vector(39, "v2", "S", "7e13" + _repeated(8), [72340172838076673 * i for i in range(20)]),
    *_vector(
        40,
        "v2",
        "S",
        "7e04cfcacc91ba3893ab0000000000000000 00000000000000020000000000000002 99a5cc2803f7e0ff",
        [-7486502418706614742, 0, 1, 1, -5535739865598783616],
    ),
    *_vector(
        41,
        "v2",
        "S",
        "7e03 7d453c124148f4be 7d453c124148f4ae 50cead2a300ed296 fed8d238546e3d81",
        [4513343538618202719, 4513343538618202711, 2911390882471569739, -9181829309989854913],
    ),
    *_vector(42, "v2", "U", "5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
    *_vector(43, "v2", "S", "400755", [0, -1] * 4),
    *_vector(44, "v2", "S", "700300000000f424307a12182dc6c9", [0, -500002, 1000003, -1500005]),
    *_vector(45, "v2", "S", "7203000000009897af1312f5e1c9c70d", [0, -5000152, 10000303, -15000455]),
    *_vector(46, "v2", "S", "7403000000005f5ecd62faf66b11e1c682", [0, 50001515, 100003030, 150004545]),
    *_vector(47, "v2", "S", "6c030000003d090cf42432dc6c90", [0, -500002, 1000003, -1500005]),
    *_vector(48, "v2", "S", "4e0008", [4]),
    *_vector(49, "v2", "S", "41ff" + "aa" * 64, [-1, 0] * 256),
    *_vector(50, "v2", "S", "4402298048014a80", [-1, 1, -2, -5, 5]),
    *_vector(51, "v2", "S", "42132222222222 4613" + "04" * 10, [0, 1] * 10 + [0, 2] * 10),
]

PATCHED = [
    *_vector(
        52,
        "v2",
        "SU",
        "8e092b2107d01e00147028323c46505afce8",
        [2030, 2000, 2020, 1000000, 2040, 2050, 2060, 2070, 2080, 2090],
    ),
    *_vector(
        53,
        "v2",
        "S",
        "8e132b2107d01e001470 28323c46505a646e78828c96a0aab4be fce8",
        [2030, 2000, 2020, 1000000, 2040, 2050, 2060, 2070, 2080, 2090, *STEPS],
    ),
    *_vector(54, "v2", "S", _PATCHED_110, _PATCHED_110_VALUES),
    *_vector(55, "v2", "S", "832b03e20a" + "55" * 75 + "ff3059", [11] * 255 + [23] + [11] * 4 + [47] + [11] * 39),
    *_vector(56, "v2", "S", "838f03e20a" + "55" * 100 + "ff02d3", [11] * 300 + [23] + [11] * 99),
    *_vector(57, "v2", "S", "83ff03e30a" + "55" * 128 + "ff0ff00130", [11] * 511 + [23]),
    *_vector(58, "v2", "S", "860400218001234060", [0, 17, 2, 3, 4]),
    *_vector(59, "v2", "S", "860403418d01234042", [-13, -12, 5, -10, -9]),
    *_vector(60, "v2", "S", "8604434181117001234042", [-70000, -69999, -69982, -69997, -69996]),
    *_vector(61, "v2", "S", "8604e341ffffffffffffffff01234042", [-MAX, 1 - MAX, 18 - MAX, 3 - MAX, 4 - MAX]),
    *_vector(62, "v2", "S", "820903420a555550a084", [11] * 7 + [15] + [11] * 2),
    *_vector(
        63,
        "v2",
        "S",
        "b804174105 0000000000 0000000001 8000000000 0000000003 0000000004 24000000",
        [5, 6, 4611686568183201797, 8, 9],
    ),
    *_vector(
        64,
        "v2",
        "S",
        "be04032100" + "".join(f"{value:016x}" for value in (1, 2, 3, 4, 2**63)) + "44",
        [1, 2, 3, 4, MIN],
    ),
    *_vector(65, "v2", "S", "820003210a400c", [23]),
]

VERSION_1 = [
    *_vector(66, "v1", "U", "61ff64 fb020305070b", [*range(100, 0, -1), 2, 3, 5, 7, 11]),
    *_vector(67, "v1", "U", "610007 fb020306070b", [7] * 100 + [2, 3, 6, 7, 11]),
    *_vector(68, "v1", "S", "f80001020304050607", [0, -1, 1, -2, 2, -3, 3, -4]),
    *_vector(69, "v1", "U", "0000dcba9876", [247864668] * 3),
    *_vector(70, "v1", "U", "7d01ff01 fb0102030405", [*range(255, 383), 1, 2, 3, 4, 5]),
    *_vector(71, "v1", "S", "7fff20", range(16, -114, -1)),
    *_vector(72, "v1", "S", "750200", range(0, 240, 2)),
    *_vector(73, "v1", "U", "f0" + _bytes(*range(16)) + "3d0012", [*range(16), *[18] * 64]),
    *_vector(74, "v1", "S", "0101fcffffffffffffffff01", [MAX - 1, MAX, MIN, MIN + 1]),
    *_vector(75, "v1", "S", "018000", [0, -128, -256, -384]),
    *_vector(76, "v1", "S", "017f00", [0, 127, 254, 381]),
    *_vector(77, "v1", "S", "ffffffffffffffffffff01", [MIN]),
    *_vector(78, "v1", "S", "fe800004", [0, 2]),
    *_vector(80, "v1", "S", _LONG_V1, [*range(1024), *range(1024 * 256, 2048 * 256, 256)]),
    *_vector(96, "v1", "S", "060014", [10] * 9),
    *_vector(99, "v1", "S", "12ff28", range(20, -1, -1)),
    *_vector(99, "v1", "S", "120100", range(21)),
    *_vector(100, "v2", "S", "c0403f02", range(-32, 33)),
]

BYTES = [
    *_vector(81, "bytes", "U", "6100 fd444546", [0] * 100 + [0x44, 0x45, 0x46]),
    *_vector(82, "bytes", "S", "0dff0dfe0dfd", [-1] * 16 + [-2] * 16 + [-3] * 16),
    *_vector(83, "bytes", "U", "f6000102030405060708090710", [*range(10), *[16] * 10]),
    *_vector(84, "bytes", "U", "0001 e0" + _bytes(*range(1, 33)), [1] * 3 + [*range(1, 33)]),
    *_vector(85, "bytes", "U", "0d02 f0" + _bytes(*range(1, 17)), [2] * 16 + [*range(1, 17)]),
    *_vector(86, "bytes", "U", "80" + _bytes(*range(128)) + "80" + _bytes(*range(128, 256)), range(256)),
    *_vector(87, "bytes", "S", "f0" + _bytes(*range(16)) + "3ddc", [*range(16), *[-36] * 64]),
]

BITS = [
    *_vector(88, "bits", "U", "61f0fd55aa55", [1, 1, 1, 1, 0, 0, 0, 0] * 100 + [0, 1] * 4 + [1, 0] * 4 + [0, 1] * 4),
    *_vector(89, "bits", "U", "f7ff803fe00ff803fe00", ([1] * 9 + [0] * 9) * 4),
    *_vector(
        90, "bits", "U", "f9f0f0f71c71c180", [int(bit) for bit in "1111000011110000111101110001110001110001110000011"]
    ),
    *_vector(91, "bits", "U", "ffcc", [1, 1, 0, 0, 1, 1, 0, 0]),
    *_vector(92, "bits", "U", "05ff 0400 ff01", [1] * 64 + [0] * 63 + [1]),
    *_vector(93, "bits", "U", "7dff", [1] * 1024),
]

INTEGERS = [*DELTA, *SHORT_REPEAT, *DIRECT, *PATCHED, *VERSION_1]

MALFORMED = {
    # name: (form, bytes, a part of the message)
    "patched without patches": ("v2", "820403200a1b00", "no patches"),
    "patch and gap of 65 bits": ("v2", "86041f010501234000000000000000000000", "more than 64 bits"),
    "patch outside the run": ("v2", "8604034100012340e2", "outside"),
    "two patches of one value": ("v2", "820903420a5555504204", "outside"),
    "direct run cut short": ("v2", "4e04010203", "ends before"),
    "delta of one value with a width": ("v2", "ce000a06", "one value"),
    "varint of 11 bytes": ("v1", "ff" + "80" * 10 + "01", "more than 10 bytes"),  # vector 79
    "varint of 11 bytes in a run": ("v1", "0000" + "ff" * 10 + "01", "more than 10 bytes"),
    "varint of 11 bytes in a delta": ("v2", "c001" + "80" * 10 + "0102", "more than 10 bytes"),
    "second varint of 11 bytes": ("v2", "c00102" + "80" * 10 + "01", "more than 10 bytes"),
    "header only": ("v2", "4e", "ends before"),
    "literals cut short": ("v1", "fb0203", "ends before"),
    "run without its value": ("v1", "6100", "ends before"),
}
