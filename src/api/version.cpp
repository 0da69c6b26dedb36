// The library's version through the C interface.
#include "peri/version.h"

#include "base/version.hpp"

extern "C" const char* peri_version(void) { return peri::version().data(); }
