"""Stands in for `safetensors`, which is not pure Python: reading and writing its files of NumPy arrays."""


class SafetensorError(Exception):
    pass
