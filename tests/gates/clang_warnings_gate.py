# label: null
"""Clang's warnings are errors: sources with what they warn of do not compile with the project's flags."""
import pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
if not shutil.which("clang++-19"):
    print("clang-19 is missing: run ./dev setup")
    sys.exit(77)
# name -> source, whether it compiles
SOURCES = {
    "without_fault": ("int twice(int a) { return 2 * a; }\n", True),
    "unused_variable": ("int twice(int a) { int b = 3; return 2 * a; }\n", False),
    "unused_parameter": ("int twice(int a, int b) { return 2 * a; }\n", False),
    "fall_through": ("int f(int a) { switch (a) { case 1: a = 2; case 2: return a; default: return 0; } }\n", False),
    "signs": ("bool f(int a, unsigned b) { return a < b; }\n", False),
    "comma": ("int f(int a) { int b = 0; if (a) a = 2, b = 3; return a + b; }\n", False),
    "extra_semicolon": ("struct A { void f() {}; };\n", False),
}

with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    libraries = "".join(f"add_library({n} OBJECT {n}.cpp)\ntarget_compile_options({n} PRIVATE ${{PERI_WARNINGS}})\n" for n in SOURCES)
    for name, (text, _) in SOURCES.items():
        (folder / f"{name}.cpp").write_text(text)
    (folder / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX C)\ninclude("{ROOT}/cmake/flags.cmake")\n{libraries}')
    subprocess.run(["cmake", "-S", folder, "-B", folder / "b", "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-19",
                    "-DCMAKE_C_COMPILER=clang-19"], check=True, capture_output=True)
    wrong = []
    for name, (_, fine) in SOURCES.items():
        done = subprocess.run(["ninja", "-C", folder / "b", name], capture_output=True, text=True)
        if (done.returncode == 0) != fine:
            wrong.append(f"{name}: {'does not compile' if fine else 'compiles'}\n{done.stdout if fine else ''}")
print("\n".join(wrong) or f"{len(SOURCES)} sources compile or not, as they should")
sys.exit(bool(wrong))
