import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Int64s = npt.NDArray[np.int64]

def compare_spans(buffer: Buffer, spans: Int64s, literal: bytes) -> npt.NDArray[np.int8]: ...
def order_spans(
    buffer: Buffer, spans: Int64s, other_buffer: Buffer, other_spans: Int64s
) -> npt.NDArray[np.int8]: ...
def spans_with_byte(buffer: Buffer, spans: Int64s, low: int, high: int) -> npt.NDArray[np.bool_]: ...
def parse_decimals(
    buffer: Buffer, spans: Int64s, scale: int, upwards: bool
) -> tuple[Int64s, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]: ...
