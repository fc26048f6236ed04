import subprocess
import sys


def test_importing_worked_is_light():
    code = """
import sys, byhand.worked as w
w.matrix([[1.0]]); w.softmax_row([1.0]); w.agreement([1.0], [1.0])
print(*[m for m in ("torch", "sympy", "matplotlib") if m in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
