/* Which version of the library is linked; for C and C++. */
#ifndef PERI_VERSION_H
#define PERI_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* "major.minor.patch"; never null, static storage, any thread. */
const char* peri_version(void);

#ifdef __cplusplus
}
#endif

#endif
