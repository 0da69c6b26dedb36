"""Whether the Python that runs this can have the wheel for the stable interface: status 0, or 1 and what it lacks."""
import pathlib
import sys
import sysconfig


def lacks():
    """A line, or nothing."""
    name = f"'{sys.executable}' is {sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    if sys.implementation.name != "cpython" or sys.version_info < (3, 12):
        return f"{name}: the wheel for the stable interface needs a CPython of 3.12 or newer; that for the Python of .venv is made without --python"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return f"{name} without the GIL, which has no stable interface: take the usual program of this version"
    if not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return f"{name} without its headers, {sysconfig.get_path('include')}/Python.h: install them, on Debian and Ubuntu as python{sys.version_info[0]}.{sys.version_info[1]}-dev"
    return ""


if told := lacks():
    print(told)
    sys.exit(1)
