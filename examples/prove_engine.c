/* Builds an engine that holds for batches of 1 to 64, says how far its answers lie from the float64 reference, and
 * writes its proof.   usage: prove_engine MODEL.onnx PROOF.json */
#include <peri/peri.h>
#include <stdio.h>
#include <sys/stat.h>

static int complain(peri_error* error) {
  fprintf(stderr, "%s\n", peri_error_get(error, PERI_ERROR_TEXT));
  peri_error_free(error);
  return 1;
}
static void say(void* user, peri_log_level level, const char* message) {
  fprintf(user, "%s%s\n", level == PERI_LOG_WARNING ? "warning: " : "", message);
}
/* Also by another name, as a link has. */
static int same_file(const char* a, const char* b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int main(int argc, char** argv) {
  const peri_dim usual = {"batch", 4}, smallest = {"batch", 1}, largest = {"batch", 64};
  const uint64_t seeds[] = {1, 2, 3};
  peri_engine* engine = NULL;
  peri_report* report = NULL;
  const char* proof = NULL;
  peri_error* error;
  if (argc != 3 || same_file(argv[1], argv[2])) { /* the proof would take the model's place */
    fprintf(stderr, "usage: prove_engine MODEL.onnx PROOF.json\n");
    return 2;
  }

  const peri_build_options build = {.struct_size = sizeof build,
                                    .dims = &usual,
                                    .dim_count = 1,
                                    .min_dims = &smallest,
                                    .min_dim_count = 1,
                                    .max_dims = &largest,
                                    .max_dim_count = 1,
                                    .no_tune = 1, /* this example shall not take long; it is verified all the same */
                                    .proof = 1,
                                    .log = say,
                                    .log_user = stdout};
  if ((error = peri_engine_build(argv[1], &build, &engine))) return complain(error);

  /* Outside the budget there is an error and a report. */
  const peri_verify_options verify = {
      .struct_size = sizeof verify, .seeds = seeds, .seed_count = 3, .dims = &largest, .dim_count = 1, .bisect = 1};
  error = peri_engine_verify(engine, &verify, &report);
  if (report) printf("%s\n", peri_report_json(report));
  peri_report_free(report);
  if (error) return complain(error);

  if ((error = peri_engine_proof(engine, &proof))) return complain(error);
  FILE* file = fopen(argv[2], "w");
  if (!file || fputs(proof, file) < 0 || fclose(file) != 0) {
    fprintf(stderr, "cannot write %s\n", argv[2]);
    return 1;
  }
  peri_engine_free(engine);
  if (fflush(stdout) != 0) { /* a full disk, say */
    perror("standard output");
    return 1;
  }
  return 0;
}
