"""`peri ...` and `python -m peri ...`: the command line of the package, i.e. the program beside its library, with this Python as the
one whose ONNX Runtime and NVIDIA libraries it uses, unless PERI_PYTHON names another (the package's __init__.py says so)."""
import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "peri"
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
