"""One timing loop: nothing reads the clock in a loop but src/bench/measure.cpp. Where a loop does so for another reason (a deadline, a
lap of a profile), a comment `// Clock: REASON` says so, on the line or on the one before it. Of serving, which is below the timing loop,
waits, and measures requests as they come, only the search for settings is looked at: it is given the loop."""
import re

PLACES = ("base", "bench", "tune", "lower", "compile", "judge", "build", "api", "exec", "runtime", "passes", "kernels", "backends", "serve/tune")
ALLOWED = ("src/bench/measure.cpp",)
LOOP = re.compile(r"\b(?:for|while)\s*(?=\()|\bdo\s*(?=\{)")
READ = re.compile(r"\b(?:now_ns\(\)|seconds_since\(|clock_gettime\(|rdtsc\w*\(|\w+_clock::now\(\))")
EXCUSE = re.compile(r"// Clock: \S")


def closing(code, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for k in range(at, len(code)):
        depth += (code[k] in "([{") - (code[k] in ")]}")
        if depth == 0:
            return k + 1
    return len(code)


def end_of(code, at):
    """Behind the statement at `at`: a block, or what ends with a semicolon; of an `if` with its branch."""
    at += len(code[at:]) - len(code[at:].lstrip())
    if code[at : at + 1] == "{":
        return closing(code, at)
    while at < len(code) and code[at] not in ";}":
        at = closing(code, at) if code[at] in "([{" else at + 1
    return at + 1


def check(tree):
    for name in tree.cpp(*(f"src/{p}/" for p in PLACES)):
        if name in ALLOWED:
            continue
        code, lines, seen = tree.code(name), tree.text(name).split("\n"), set()
        for loop in LOOP.finditer(code):
            end = end_of(code, closing(code, loop.end()))
            for read in READ.finditer(code, loop.start(), end):
                line = code.count("\n", 0, read.start()) + 1
                if line in seen or any(EXCUSE.search(text) for text in lines[max(line - 2, 0) : line]):
                    continue
                seen.add(line)
                yield name, line, "reads the clock in a loop: take bench/measure.hpp, or say why with `// Clock: ...`"


def _plant(code, name="src/bench/bad.cpp"):
    return ({name: f"// Bad.\n{code}\n"}, name)


PLANTS = [
    _plant("void f() {\n  for (int k = 0; k < 3; ++k) {\n    const int64_t start = now_ns();\n    run();\n    ms.push_back(now_ns() - start);\n  }\n}"),
    _plant("void f() {\n  const int64_t start = now_ns();\n  while (seconds_since(start) < 1) run();\n}", "src/tune/bad.cpp"),
    _plant("void f() {\n  do {\n    run();\n  } while (seconds_since(start) < 1);\n}", "src/build/bad.cpp"),
    _plant("void f() {\n  for (;;)\n    if (seconds_since(start) > 1) break;\n}  // Clock:", "src/judge/bad.cpp"),
    _plant("void f() {\n  for (int k = 0; k < 6; ++k) took.push_back(run() - now_ns());\n}", "src/serve/tune/bad.cpp"),
    _plant("void f() {\n  for (;;) best = std::min(best, once(std::chrono::steady_clock::now()));\n}", "src/exec/bad.cpp"),
]
