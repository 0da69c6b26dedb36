/* The structs of DLPack, the exchange format of array libraries, as its specification defines them (version 0.x,
 * unversioned managed tensors). The project's own header, dlpack/dlpack.h, is used if it is found; include it first if
 * it has another path. */
#ifndef PERI_DLPACK_H_
#define PERI_DLPACK_H_

#if !defined(DLPACK_DLPACK_H_)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#else
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };                          /* a DLDevice's device_type */
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 }; /* a DLDataType's code */

typedef struct DLDevice {
  int32_t device_type;
  int32_t device_id;
} DLDevice;

typedef struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;     /* in elements; NULL: dense and row-major */
  uint64_t byte_offset; /* of the first element from data */
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self); /* may be NULL */
} DLManagedTensor;

#ifdef __cplusplus
}
#endif

#endif
#endif

#endif
