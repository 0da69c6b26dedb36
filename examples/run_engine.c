/* Loads an engine file and runs it once on zeros and empty texts, sizes that are not fixed being 1; prints what comes
 * out. usage: run_engine ENGINE */
#include <peri/peri.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_PORTS 16
#define MAX_RANK 16

static int complain(peri_error* error) {
  fprintf(stderr, "%s\n", peri_error_get(error, PERI_ERROR_TEXT));
  peri_error_free(error);
  return 1;
}

static size_t element_bytes(peri_dtype t) {
  switch (t) {
    case PERI_STRING: return sizeof(peri_string); /* all zero: a text of 0 bytes */
    case PERI_F64:
    case PERI_I64:
    case PERI_U64: return 8;
    case PERI_F32:
    case PERI_I32:
    case PERI_U32: return 4;
    case PERI_F16:
    case PERI_BF16:
    case PERI_I16:
    case PERI_U16: return 2;
    default: return 1;
  }
}

int main(int argc, char** argv) {
  peri_engine* engine = NULL;
  peri_session* session = NULL;
  peri_tensor in[MAX_PORTS] = {{0}}, out[MAX_PORTS] = {{0}};
  int64_t dims[MAX_PORTS][MAX_RANK];
  peri_error* error;
  if (argc != 2) {
    fprintf(stderr, "usage: run_engine ENGINE\n");
    return 2;
  }

  if ((error = peri_engine_load(argv[1], NULL, &engine))) return complain(error);
  if ((error = peri_session_create(engine, 0, &session))) return complain(error);
  const size_t inputs = peri_engine_input_count(engine), outputs = peri_engine_output_count(engine);
  if (inputs > MAX_PORTS || outputs > MAX_PORTS) {
    fprintf(stderr, "more ports than this example has room for\n");
    return 1;
  }

  for (size_t k = 0; k < inputs; ++k) {
    in[k].struct_size = sizeof in[k];
    in[k].dtype = peri_engine_input_dtype(engine, k);
    in[k].rank = peri_engine_input_rank(engine, k);
    in[k].bytes = element_bytes(in[k].dtype);
    if (in[k].rank > MAX_RANK) {
      fprintf(stderr, "more dimensions than this example has room for\n");
      return 1;
    }
    for (size_t axis = 0; axis < in[k].rank; ++axis) {
      const int64_t d = peri_engine_input_dim(engine, k, axis);
      dims[k][axis] = d < 0 ? 1 : d;
      in[k].bytes *= (size_t)dims[k][axis];
    }
    in[k].dims = dims[k];
    in[k].data = calloc(1, in[k].bytes ? in[k].bytes : 1);
  }
  for (size_t k = 0; k < outputs; ++k) out[k].struct_size = sizeof out[k]; /* data NULL: memory of the session */

  if ((error = peri_session_run(session, in, inputs, out, outputs, NULL))) return complain(error);
  for (size_t k = 0; k < outputs; ++k) {
    printf("%s %s[", peri_engine_output_name(engine, k), peri_dtype_name(out[k].dtype));
    for (size_t axis = 0; axis < out[k].rank; ++axis) printf("%s%lld", axis ? "," : "", (long long)out[k].dims[axis]);
    printf("]");
    if (out[k].dtype == PERI_F32)
      for (size_t i = 0; i < 4 && i < out[k].bytes / sizeof(float); ++i)
        printf(" %.4f", ((const float*)out[k].data)[i]);
    printf("\n");
  }

  for (size_t k = 0; k < inputs; ++k) free(in[k].data);
  peri_session_free(session);
  peri_engine_free(engine);
  if (fflush(stdout) != 0) { /* a full disk, say */
    perror("standard output");
    return 1;
  }
  return 0;
}
