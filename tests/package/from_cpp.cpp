// A C++ program links the installed library.
#include <peri/version.h>

#include <cstdio>

int main() { return std::puts(peri_version()) < 0; }
