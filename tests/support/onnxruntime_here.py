"""Tests that need onnx, onnxruntime and numpy: begun again in .venv where these are not there, or else skipped.

    sys.path.insert(0, os.path.join(ROOT, "tests/support"))
    from onnxruntime_here import np, onnx, ort
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = os.path.join(ROOT, ".venv/bin/python")
SKIPPED = 77
try:
    import numpy as np  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime as ort  # noqa: F401
except ImportError:
    if os.path.exists(PYTHON) and not os.environ.get("KNAPSACK_ONNX_TEST"):
        os.environ["KNAPSACK_ONNX_TEST"] = "1"
        os.execv(PYTHON, [PYTHON, *sys.argv])
    print("skipped: onnx, onnxruntime or numpy is not there (make test sets them up)")
    sys.exit(SKIPPED)
