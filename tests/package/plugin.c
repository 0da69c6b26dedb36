/* A library of somebody else's holds the archive, and lets out one function of its own. */
#include <peri/peri.h>

const char* plugin_version(void) {
  peri_engine* engine = 0;
  peri_error* const error = peri_engine_load("", 0, &engine); /* all of the library is here */
  const char* const version = error ? peri_version() : "an engine of no file";
  peri_error_free(error);
  return version;
}
