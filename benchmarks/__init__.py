"""Measured comparisons: `make bench`. A report, no gate.

Everything runs on one thread, which has to be said before NumPy and PyTorch are imported.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # where these pin an old processor they halve NumPy's speed
    os.environ.pop(name, None)
