"""The format: the length of the header in eight bytes, the header as JSON, and the arrays one after another."""

import json
from pathlib import Path

import numpy as np

from . import SafetensorError

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


def load_file(path):
    content = Path(path).read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {}
    try:
        for name, entry in json.loads(content[8:start]).items():
            if name != "__metadata__":
                first, end = (start + place for place in entry["data_offsets"])
                arrays[name] = np.frombuffer(content[first:end], TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    except (ValueError, KeyError, TypeError) as error:
        raise SafetensorError(f"{path} is no file of safetensors: {error}") from error
    return arrays


def save_file(arrays, path, metadata=None):
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, value in arrays.items():
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape), "data_offsets": [end, end := end + value.nbytes]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(value).tobytes() for value in arrays.values()))
