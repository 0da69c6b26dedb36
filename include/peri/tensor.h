/* Tensors in memory of the caller, and their element types; for C and C++. peri.h includes it. */
#ifndef PERI_TENSOR_H
#define PERI_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef enum peri_dtype {
  PERI_DTYPE_INVALID = 0,
  PERI_F32 = 1,
  PERI_F64 = 2,
  PERI_F16 = 3,
  PERI_BF16 = 4,
  PERI_I8 = 11,
  PERI_I16 = 12,
  PERI_I32 = 13,
  PERI_I64 = 14,
  PERI_U8 = 15,
  PERI_U16 = 16,
  PERI_U32 = 17,
  PERI_U64 = 18,
  PERI_BOOL = 23,  /* one byte, 0 or 1 */
  PERI_STRING = 24 /* elements are peri_string */
} peri_dtype;
/* "f32", "i64", ...; "" for an invalid dtype. Numbers not listed above are formats without a C type. */
const char* peri_dtype_name(peri_dtype dtype);

typedef enum peri_device {
  PERI_DEVICE_HOST = 0, /* pinned memory too */
  PERI_DEVICE_CUDA = 1,
  PERI_DEVICE_NULL = 100 /* a device without hardware, for tests */
} peri_device;

/* An element of a tensor of PERI_STRING: `bytes` bytes of UTF-8, of which some may be NUL. An input needs no NUL at its
 * end; a text of an output has one behind its bytes. This struct does not grow. */
typedef struct peri_string {
  const char* data; /* NULL is allowed if bytes is 0 */
  size_t bytes;
} peri_string;

/* A tensor in memory of the caller: dense, row-major. All elements of an array have the same struct_size. */
typedef struct peri_tensor {
  size_t struct_size; /* sizeof(peri_tensor) */
  peri_dtype dtype;
  peri_device device;
  const int64_t* dims; /* `rank` entries */
  size_t rank;
  void* data;           /* not written for inputs */
  size_t bytes;         /* of PERI_STRING: the number of elements times sizeof(peri_string) */
  int32_t device_index; /* index among devices of this kind; 0 on the host */
} peri_tensor;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
