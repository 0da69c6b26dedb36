/* The version of the linked library; for C and C++. */
#ifndef PERI_VERSION_H
#define PERI_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* "major.minor.patch"; never null, static storage, any thread. */
const char* peri_version(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
