/* A C program links the installed library. */
#include <peri/version.h>
#include <stdio.h>

int main(void) { return puts(peri_version()) < 0; }
