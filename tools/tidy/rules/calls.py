"""A call with effects on or from the outside has one home: environment in base/knobs, files and clocks in base, and so
on; exceptions, manual memory and `using namespace` have none."""
import re

# (pattern in code, homes as path prefixes, what to do instead)
SRC = [
    (r"\bgetenv\b|\bsecure_getenv\b|\bsetenv\b|\bunsetenv\b", ["src/base/knobs"], "add a row to base/knobs.def"),
    (r"\b(?:fopen|freopen|fdopen)\s*\(|\bi?o?fstream\b", ["src/base/"], "use base/file.hpp"),
    (r"(?<![\w.>])system\s*\(|\bpopen\s*\(", [], "no shell is started by us"),
    (r"\bs?rand\s*\(|\bstd::random_device\b|\bmt19937\b", [], "use base/rng.hpp, seeded"),
    (r"(?:_clock|Clock)::now\s*\(|\bclock_gettime\b|\bgettimeofday\b", ["src/base/clock", "src/bench/"], "use base/clock.hpp"),
    (r"<cpuid\.h>|\b__get_cpuid\w*|\b__builtin_cpu_\w+|\bxgetbv\b", ["src/device/"], "take a device::Target that is handed down"),
    (r"\bdlopen\s*\(|\bdlsym\s*\(", ["src/device/"], "libraries are opened in device/"),
    # A private constructor keeps std::make_unique out: then `new` stands inside the smart pointer's own constructor. A
    # pattern with a group counts only where the group matched.
    (r"_ptr<[^;]*?>\s*\w*\(\s*new\b|(\bnew\b)", [], "use std::make_unique"),
    (r"\bdelete\b(?!\s*[;,)])|(?<!=)\s\bdelete\s+\w", [], "use std::unique_ptr"),
    (r"\bthrow\b", ["src/base/fault"], "return a Result"),
    (r"\busing\s+namespace\b", [], "name what is used"),
    (r"\bstd::c(?:out|err|log)\b|\bprintf\s*\(|\bputs\s*\(", ["src/cli/"], "only cli prints"),
    (r"\bf?v?printf\s*\(|\bf?puts\s*\(|\bputchar\s*\(|\bfputc\s*\(", ["src/cli/console/terminal", "src/cli/console/page", "src/cli/main", "src/cli/completion"],
     "print by Page::line() or say(): they escape what a terminal would obey"),
    (r"\b(?:std::)?exit\s*\(|\b_exit\s*\(|\bquick_exit\b", ["src/cli/"], "return a Result"),
    (r"\bstd::(?:i?o?stringstream)\b", [], "use format() or append to a string"),
    (r"\bstd::regex\b", [], "write the loop"),
    (r"\bsprintf\s*\(|\bstrcpy\s*\(|\bstrcat\s*\(|\bgets\s*\(|\balloca\s*\(", [], "use a bounded form"),
    (r"\b(?:std::)?(?:ato[ifl]l?|sto(?:i|u?ll?|f|l?d)|strtou?l{1,2}|s?scanf)\s*\(", [], "use std::from_chars and look at what it returns"),
    (r"\bfrom_chars\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*\.ptr\b", [], "look at the error too: a number that overflows ends where it should"),
    (r"(?<![.>\w])(\w+)\s*=\s*std::move\(\1\)\s*\.(?:in_file|at_node|expecting|but_found|advise)\(", [], "it gives back itself: write std::move(x).advise(...) alone, or another name"),
    (r"\bomp_set_num_threads\b", ["src/kernels/vendor/", "src/exec/"], "set beside oneDNN only"),
]
EVERYWHERE = [
    (r"\bs?rand\s*\(|\bstd::random_device\b", [], "use a fixed seed and print it"),
    (r"\busing\s+namespace\b", [], "name what is used"),
    (r"-march=native", [], "choose by cpuid at run time"),
]


SHELL = re.compile(r"#!.*\b(?:ba)?sh\b")
QUIET = re.compile(r"(?<!\|)\|\s*grep\s+-\w*q")


def check(tree):
    for files, rows in ((tree.cpp("src/"), SRC), (tree.cpp("tests/", "include/", "examples/"), EVERYWHERE)):
        for pattern, homes, remedy in rows:
            compiled = re.compile(pattern)
            for name in files:
                if name.startswith(tuple(homes)):
                    continue
                for line, match in tree.matches(name, compiled):
                    if compiled.groups and match[1] is None:
                        continue
                    yield name, line, f"'{match[0].strip()}' is not allowed here: {remedy}"
    for name in tree.under("CMakeLists.txt", "cmake/"):
        for line, _ in tree.matches(name, re.compile("-march=" + "native"), tree.text(name)):
            yield name, line, "choose the instruction set by cpuid at run time"
    for name in (n for n in tree.under("dev", ".ci/", "tools/", "deploy/") if SHELL.match(tree.text(n)) or n.endswith(".sh")):
        for line, _ in tree.matches(name, QUIET, tree.text(name)):
            yield name, line, "grep -q ends at its first match, what writes to it then fails, and with pipefail the line does: look into $(...)"


def _plant(code, name="src/ir/bad.cpp"):
    return ({name: f"// Bad.\n{code}\n"}, name)


PLANTS = [
    _plant('const char* home = getenv("HOME");'),
    _plant("std::ifstream in(path);"),
    _plant('auto* f = std::fopen(path, "r");'),
    _plant('int r = std::system("ls");'),
    _plant("std::random_device entropy;"),
    _plant("auto t = std::chrono::steady_clock::now();"),
    _plant('void* l = dlopen("x", 1);'),
    _plant('bool wide = __builtin_cpu_supports("avx512f");'),
    _plant("auto* p = new int[3];"),
    _plant("void f() { g(new int); }"),
    _plant("void f(int* p) { delete p; }"),
    _plant("void f(int* p) { delete[] p; }"),
    _plant("void f() { throw 3; }"),
    _plant("using namespace std;"),
    _plant("void f() { std::cout << 1; }"),
    _plant("void f() { exit(1); }"),
    _plant('void f(const char* name) { std::printf("%s", name); }', "src/cli/bad.cpp"),
    _plant('void f(const char* name) { std::fprintf(stderr, "%s", name); }', "src/cli/bad.cpp"),
    _plant("std::ostringstream out;"),
    _plant("int n = std::atoi(text);"),
    _plant("int64_t n = std::stoll(text);"),
    _plant("bool good(const char* a, const char* b, int n) { return std::from_chars(a + f(b), b, n).ptr == b; }"),
    _plant("void f(Error e) { e = std::move(e).advise(\"more\"); }"),
    _plant("int r = rand();", "tests/ir/bad_test.cpp"),
    ({"tools/dev/bad.sh": "# Bad.\nif ls | grep -" + "q x; then :; fi\n"}, "tools/dev/bad.sh"),
    ({"cmake/flags.cmake": "add_compile_options(-march=" + "native)\n"}, "cmake/flags.cmake"),
]
