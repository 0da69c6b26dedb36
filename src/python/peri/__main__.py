"""`peri ...` and `python -m peri ...`: the command line of the package, i.e. the program beside its library."""
import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "peri"
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
