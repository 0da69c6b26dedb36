/* Runs an engine on an array of another library and hands the answer back as one, both without a copy (DLPack); counts
 * the memory that runs take, and prints what the library has to say.   usage: share_arrays ENGINE */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <peri/dlpack.h>
#include <peri/peri.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANK 16

static int complain(peri_error* error) {
  fprintf(stderr, "%s\n", peri_error_get(error, PERI_ERROR_TEXT));
  peri_error_free(error);
  return 1;
}

static void* allocate(void* user, size_t bytes, size_t alignment) {
  void* memory = NULL;
  if (posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, bytes) != 0) return NULL;
  *(size_t*)user += bytes;
  return memory;
}
static void release(void* user, void* memory, size_t bytes) {
  *(size_t*)user -= bytes;
  free(memory);
}
static void say(void* user, peri_log_level level, const char* message) {
  fprintf(user, "%s%s\n", level == PERI_LOG_WARNING ? "warning: " : "", message);
}

int main(int argc, char** argv) {
  size_t in_use = 0;
  const peri_allocator allocator = {sizeof allocator, &in_use, allocate, release};
  const peri_engine_options options = {
      .struct_size = sizeof options, .allocator = &allocator, .log = say, .log_user = stdout};
  peri_engine* engine = NULL;
  peri_session* session = NULL;
  peri_error* error;
  if (argc != 2) {
    fprintf(stderr, "usage: share_arrays ENGINE\n");
    return 2;
  }
  if ((error = peri_engine_load(argv[1], &options, &engine))) return complain(error);
  if ((error = peri_session_create(engine, 0, &session))) return complain(error);
  if (peri_engine_input_count(engine) != 1 || peri_engine_output_count(engine) != 1 ||
      peri_engine_input_dtype(engine, 0) != PERI_F32 || peri_engine_input_rank(engine, 0) > MAX_RANK) {
    fprintf(stderr, "this example takes engines with one input of f32 and one output\n");
    return 1;
  }

  /* What an array library would hand over: two items of its own memory. */
  int64_t shape[MAX_RANK];
  size_t count = 1;
  DLManagedTensor array = {0};
  array.dl_tensor.ndim = (int32_t)peri_engine_input_rank(engine, 0);
  for (int32_t axis = 0; axis < array.dl_tensor.ndim; ++axis) {
    const int64_t size = peri_engine_input_dim(engine, 0, (size_t)axis);
    count *= (size_t)(shape[axis] = size < 0 ? 2 : size);
  }
  array.dl_tensor.data = calloc(count, sizeof(float));
  array.dl_tensor.device.device_type = kDLCPU;
  array.dl_tensor.dtype.code = kDLFloat;
  array.dl_tensor.dtype.bits = 32;
  array.dl_tensor.dtype.lanes = 1;
  array.dl_tensor.shape = shape;

  peri_tensor in = {.struct_size = sizeof in},
              out = {.struct_size = sizeof out}; /* data NULL: memory of the session, from our allocator */
  DLManagedTensor* answer = NULL;
  if ((error = peri_tensor_from_dlpack(&array, &in))) return complain(error);
  if ((error = peri_session_run(session, &in, 1, &out, 1, NULL))) return complain(error);
  if ((error = peri_session_output_to_dlpack(session, 0, &answer))) return complain(error);
  printf("%zu bytes in use\n", in_use);
  peri_session_free(session); /* the answer lives on */
  peri_engine_free(engine);

  printf("answer of %d dimensions, first element %.4f\n", (int)answer->dl_tensor.ndim,
         (double)((const float*)answer->dl_tensor.data)[0]);
  answer->deleter(answer);
  free(array.dl_tensor.data);
  printf("%zu bytes in use\n", in_use);
  if (fflush(stdout) != 0) { /* a full disk, say */
    perror("standard output");
    return 1;
  }
  return in_use != 0;
}
