/* Perihelion's C interface: load or build an engine, run it on memory of the caller.
 *
 * Handles are opaque. Every function that can fail returns an error object, or NULL for success; free errors with
 * peri_error_free(). On failure only the out-parameters that are named here are written. Structs that may grow begin
 * with struct_size: set it to sizeof(the struct); members that a caller does not know read as zero. Zero is always the
 * default. Strings are UTF-8. Nothing is removed or changed within a major version. */
#ifndef PERI_PERI_H
#define PERI_PERI_H

#include <peri/tensor.h>
#include <peri/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- errors ---------------------------------------------------------------------------------------------------- */

typedef struct peri_error peri_error;

typedef enum peri_error_kind {
  PERI_ERROR_USAGE = 1,       /* the call is wrong */
  PERI_ERROR_INVALID = 2,     /* a file or tensor violates its format or its rules */
  PERI_ERROR_UNSUPPORTED = 3, /* valid, but not supported by this version */
  PERI_ERROR_IO = 4,
  PERI_ERROR_ACCURACY = 5, /* an output is outside its bound */
  PERI_ERROR_REFUSED = 6,  /* locked, missing executor, other version or machine */
  PERI_ERROR_CANCELLED = 7,
  PERI_ERROR_MEMORY = 8,
  PERI_ERROR_INTERNAL = 9,    /* an internal fault */
  PERI_ERROR_REGRESSION = 10, /* a comparison found a slowdown */
  PERI_ERROR_UNSTABLE = 11    /* a measurement is not conclusive */
} peri_error_kind;

typedef enum peri_error_part {
  PERI_ERROR_TEXT = 0,    /* all parts on one line */
  PERI_ERROR_MESSAGE = 1, /* what went wrong */
  PERI_ERROR_FILE = 2,
  PERI_ERROR_NODE = 3, /* the node, tensor or field concerned */
  PERI_ERROR_EXPECTED = 4,
  PERI_ERROR_FOUND = 5,
  PERI_ERROR_REMEDY = 6 /* what to do */
} peri_error_part;

/* For NULL, which is success: INTERNAL here, and "" for every part. */
peri_error_kind peri_error_get_kind(const peri_error* error);
/* Never NULL; "" for a part that does not apply. Valid as long as the error. */
const char* peri_error_get(const peri_error* error, peri_error_part part);
/* NULL is allowed. */
void peri_error_free(peri_error* error);

/* ---- hooks ----------------------------------------------------------------------------------------------------- */

/* Functions of the caller (log, allocate, release, progress, stop) should throw no exceptions. What log, allocate,
 * progress or stop throws ends the call with PERI_ERROR_USAGE, whose message names the function; what progress or
 * stop throws ends a build before it writes any file. What release throws is dropped. */

typedef enum peri_log_level { PERI_LOG_INFO = 0, PERI_LOG_WARNING = 1 } peri_log_level;
/* Receives messages that are not errors. One line, without line end, in which characters of names that a terminal obeys
 * are written as \x1b; valid during the call. */
typedef void (*peri_log_function)(void* user, peri_log_level level, const char* message);

/* Memory of runs: intermediate values of sessions, and outputs whose data is NULL. Weights stay in the mapped file. The
 * struct is copied; `user` and the functions must outlive engine, sessions and outputs. Called from the threads that
 * run sessions. Set both functions or neither. */
typedef struct peri_allocator {
  size_t struct_size;
  void* user;
  void* (*allocate)(void* user, size_t bytes,
                    size_t alignment); /* NULL: no memory; the run fails with PERI_ERROR_MEMORY */
  void (*release)(void* user, void* memory, size_t bytes);
} peri_allocator;

/* ---- engines --------------------------------------------------------------------------------------------------- */

/* A program ready to run: immutable, can be shared by threads and sessions. */
typedef struct peri_engine peri_engine;

typedef struct peri_engine_options {
  size_t struct_size;
  int threads; /* of a session's pool; 0: the CPUs available to this process. Results do not depend on it */
  const peri_allocator* allocator; /* NULL: the system's */
  peri_log_function log;           /* NULL: silent */
  void* log_user;
  int check_weights;      /* 1: verify the hash of every weight at load; 0: weights are mapped and not read */
  const char* device;     /* the device to run on, e.g. "cuda:1"; NULL: the first of the engine's kind */
  int64_t max_iterations; /* limit for one loop in one run; 0: the one it was built with, else 2147483648 */
} peri_engine_options;

typedef struct peri_dim {
  const char* name; /* a dimension's own name, INPUT.AXIS, "batch" or "sequence" */
  int64_t value;
} peri_dim;

/* An input to replace by a constant: "sr", "16000". */
typedef struct peri_fixed {
  const char* name;
  const char* value;
} peri_fixed;

/* The options of `peri build`. */
typedef struct peri_build_options {
  size_t struct_size;
  int threads;          /* as in peri_engine_options, and for measurements */
  const peri_dim* dims; /* the shape to tune for; any shape within min_dims and max_dims runs */
  size_t dim_count;
  const char* provider;    /* only candidates of this provider: "peri", "onednn", "reference"; NULL: all */
  int no_tune;             /* 1: choose each kernel's first offer, measure nothing. Still verified unless no_verify
                            * is set; for a program compiled before that member existed, this sets both */
  const char* engine_path; /* also write the engine to this file, and its proof beside it; NULL: keep it in memory */
  const char* lock_path;   /* also write every choice to this lock file */
  const char* locked_path; /* take every choice from this lock file: same bytes, no measurement */
  /* Called from the building thread; `total` 0: unknown. NULL: no calls. */
  void (*progress)(void* user, size_t done, size_t total, const char* what);
  void* user;
  const peri_allocator* allocator; /* of the engine's sessions, as in peri_engine_options */
  peri_log_function log;           /* of the build and of the engine */
  void* log_user;
  int no_verify; /* 1: compare neither the kernels' nor the engine's results with the reference; the proof says so */
  int no_cache;  /* 1: neither read nor write the timing cache */
  const char* cache_folder; /* of the timing cache; NULL: $PERI_CACHE, else $XDG_CACHE_HOME/peri, else ~/.cache/peri */
  const peri_dim* min_dims; /* the smallest shape of the engine; dimensions that are not named have no limit */
  size_t min_dim_count;
  const peri_dim* max_dims; /* the largest shape, likewise */
  size_t max_dim_count;
  const char* backend; /* NULL or "auto": the first that is available */
  const char* dtype;   /* as --dtype; NULL: the default */
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  const char* dump_folder; /* write the graph before and after each pass that changes it; NULL: none */
  int proof;               /* 1: make the proof, for peri_engine_proof(), also without engine_path */
  /* Called regularly from the building thread; nonzero ends the build with the best engine so far, with a message in
   * the log. */
  int (*stop)(void* user);
  int settings;            /* how many settings of a kernel's tunables to try besides its defaults, 0 to 64 */
  const char* device;      /* as in peri_engine_options */
  const char* io_dtype;    /* as --io-dtype: of inputs and outputs; NULL: the model's */
  double budget;           /* tuning time in seconds, from 0.001; 0: no limit */
  int retune;              /* 1: try all candidates again and update the timing cache */
  int no_worker;           /* 1: judge candidates in this process instead of a worker process */
  int force;               /* 1: overwrite files of another kind at engine_path and lock_path */
  const peri_fixed* fixed; /* inputs to replace by constants, as --fix */
  size_t fixed_count;
  int64_t max_iterations; /* as in peri_engine_options; kept in the engine */
  int strict_placement;   /* 1: REFUSED if steps of the model would have to run on the host */
} peri_build_options;

/* Maps an engine file. `options` NULL: defaults. Errors: IO, INVALID (not an engine, truncated, damaged), REFUSED
 * (another version, a missing executor or instruction set). */
peri_error* peri_engine_load(const char* path, const peri_engine_options* options, peri_engine** out);
/* Imports an ONNX file or a Hugging Face folder, chooses kernels and makes an engine. Takes seconds. */
peri_error* peri_engine_build(const char* model, const peri_build_options* options, peri_engine** out);
/* Its sessions stay valid. NULL is allowed. */
void peri_engine_free(peri_engine* engine);

/* The proof of the engine, a JSON object: what was verified and measured, and every choice with its alternatives. It is
 * that of the build, or the one beside the engine's file. Valid as long as the engine. Errors: USAGE (the build made
 * none), IO (there is no such file), UNSUPPORTED (of another version). */
peri_error* peri_engine_proof(const peri_engine* engine, const char** out);

/* The result of a verification, an inspection or a measurement. */
typedef struct peri_report peri_report;

/* A description of an engine as a JSON object: name, builder, backend, precision, devices, the sizes it was tuned for,
 * steps and how many of them run on the slow reference, whether it accepts texts, and, if the build was interrupted,
 * what is not verified. */
peri_error* peri_engine_describe(const peri_engine* engine, peri_report** report);

typedef struct peri_explain_options {
  size_t struct_size;
  int compare; /* 1: also accept the proof of another machine, and compare its times with this one's floors */
  /* 1: measure the steps of an engine on a device within its runs instead, for about 2 seconds: the object that
   * `peri explain --measured --json` writes. Needs no proof, but takes the times alone from it if there is one. Other
   * runs of the engine meanwhile disturb the times. Not with compare */
  int measured;
  const peri_dim* dims; /* with measured: the shape of the runs; other dimensions have their tuned sizes */
  size_t dim_count;
} peri_explain_options;

/* The time of each step by the engine's proof: the object that `peri explain --json` writes; or, with `measured`, by
 * this machine. Errors: those of peri_engine_proof(), USAGE (options that contradict each other, an unknown
 * dimension), REFUSED (the proof is of another machine or engine; measured: no step runs on a device, or sizes depend
 * on data); measured: those of a run. */
peri_error* peri_engine_explain(const peri_engine* engine, const peri_explain_options* options, peri_report** report);

typedef struct peri_verify_options {
  size_t struct_size;
  int threads;           /* of the reference; 0: as the engine says */
  const uint64_t* seeds; /* of the inputs, one run each; NULL: 1 and 2 */
  size_t seed_count;
  const peri_dim* dims; /* the shape of the runs; other dimensions have their tuned sizes */
  size_t dim_count;
  double max_error;       /* the largest error allowed, as a share of an output's range; 0: 1e-4; a number too small to
                           * have its full precision (DBL_TRUE_MIN): none, as in max_change, rtol and atol */
  int bisect;             /* 1: also judge every step of the last run on its actual inputs; 2: do nothing else, for
                           * sizes at which the float64 run of the whole would take hours */
  const char* peer_model; /* compare with ONNX Runtime's outputs of this ONNX file, or a folder's (by $PERI_PYTHON),
                           * instead of the float64 reference of the engine's source; NULL: the reference */
  void (*progress)(void* user, size_t done, size_t total, const char* what); /* as in peri_build_options */
  void* user;
  int nan_equal; /* 1: NaN where NaN is expected is agreement; 0: it proves nothing, and the error is ACCURACY */
  int (*stop)(void* user); /* called regularly; nonzero ends the call with CANCELLED */
  double min_cosine;       /* the least allowed, means subtracted; 0: any, 0.9999 with peer_model */
  double max_change; /* the largest error as a share of the change between two seeds; 0: any, 1e-3 with peer_model */
  double rtol, atol; /* of the report's l0; 0: 1e-3 and 1e-5 */
  const peri_tensor* in; /* one run on these inputs, in host memory, instead of seeded ones; NULL: seeded */
  size_t in_count;
} peri_verify_options;

/* Runs the engine on seeded inputs and compares its outputs with the reference. NULL: all are within the budget.
 * `report`, if it is not NULL, receives the result, also with the error ACCURACY (an output or a step is outside; the
 * error's text names the first). Other errors: REFUSED (the reference would take hours), those of a run. */
peri_error* peri_engine_verify(const peri_engine* engine, const peri_verify_options* options, peri_report** report);
/* What a model needs and whether it runs here, before anything is tuned: inputs, operators, memory, an estimate of the
 * build. Unsupported nodes are listed in the report and are not an error. Of `options`, only the shape, the backend and
 * the disabled passes are used; NULL: defaults. */
peri_error* peri_model_inspect(const char* model, const peri_build_options* options, peri_report** report);
/* Adds a kernel from outside by its manifest, as `--kernel` does, for everything this process builds, loads and runs
 * afterwards. Do not call it while any thread builds, loads or runs an engine. */
peri_error* peri_kernel_add(const char* manifest);

typedef struct peri_bench_options {
  size_t struct_size;
  int threads;          /* 0: as the engine says */
  double seconds;       /* of sampling, in each process; 0: 3 */
  int64_t max_runs;     /* in each process; 0: 100000 */
  const peri_dim* dims; /* the shape of the runs; other dimensions have their tuned sizes */
  size_t dim_count;
  int layers;    /* 1: also measure the time of every step */
  int processes; /* measure in this many fresh processes, one after another, of the program that PERI_WORKER names, else
                  * of `peri` beside the running program; 0: in this process. A comparison needs 5 */
  void (*progress)(void* user, size_t done, size_t total, const char* what); /* as in peri_build_options */
  int (*stop)(void* user);                                                   /* nonzero: end with the samples so far */
  void* user;
  double warm_up;        /* seconds of runs before sampling; 0: 0.3 */
  double tolerance;      /* the largest disagreement of samples, as a share of their median; 0: 0.25 */
  const peri_tensor* in; /* run on these inputs, in host memory; not with processes. NULL: seeded ones */
  size_t in_count;
} peri_bench_options;

/* Times runs on seeded inputs. `report` receives the object that `peri bench --json` writes. */
peri_error* peri_engine_bench(const peri_engine* engine, const peri_bench_options* options, peri_report** report);
/* Compares two such objects, of the same model, sizes and threads: whether the second took significantly more than
 * `limit` times the first (1.03: three percent more; 1 or above). `report`, if it is not NULL, receives what `peri
 * compare --json` writes, also with the errors REGRESSION (it did) and UNSTABLE (fewer than 5 processes on a side). */
peri_error* peri_bench_compare(const char* before, const char* after, double limit, peri_report** report);
/* As a JSON object; valid as long as the report. */
const char* peri_report_json(const peri_report* report);
/* NULL is allowed. */
void peri_report_free(peri_report* report);

/* Inputs and outputs, in the order of peri_session_run(). Out of range: "", PERI_DTYPE_INVALID, 0. Strings are valid as
 * long as the engine. */
size_t peri_engine_input_count(const peri_engine* engine);
size_t peri_engine_output_count(const peri_engine* engine);
const char* peri_engine_input_name(const peri_engine* engine, size_t index);
const char* peri_engine_output_name(const peri_engine* engine, size_t index);
peri_dtype peri_engine_input_dtype(const peri_engine* engine, size_t index);
peri_dtype peri_engine_output_dtype(const peri_engine* engine, size_t index);
size_t peri_engine_input_rank(const peri_engine* engine, size_t index);
size_t peri_engine_output_rank(const peri_engine* engine, size_t index);
/* The size along an axis, -1 if it is not fixed. */
int64_t peri_engine_input_dim(const peri_engine* engine, size_t index, size_t axis);
int64_t peri_engine_output_dim(const peri_engine* engine, size_t index, size_t axis);
/* The same as text: "224", "batch", "sequence + 1". */
const char* peri_engine_input_dim_text(const peri_engine* engine, size_t index, size_t axis);
const char* peri_engine_output_dim_text(const peri_engine* engine, size_t index, size_t axis);

/* ---- sessions -------------------------------------------------------------------------------------------------- */

/* Memory and threads for one run at a time. Calls on one session must not overlap; sessions are independent. */
typedef struct peri_session peri_session;

/* `threads` 0: as the engine says. The session keeps the engine alive. */
peri_error* peri_session_create(const peri_engine* engine, int threads, peri_session** out);
void peri_session_free(peri_session* session);

/* The device that holds all inputs and outputs of the engine, so that they need not be copied to the host; `index`, if
 * it is not NULL, receives its index among its kind. PERI_DEVICE_HOST: inputs and outputs are in host memory. */
peri_device peri_session_device(const peri_session* session, int32_t* index);
/* Prepares runs of inputs with these dims: plans, memory, and captures of a device. `in` has dtypes and dims; data is
 * ignored. A session keeps its last 8 shapes: returning to one prepares nothing. */
peri_error* peri_session_prepare(peri_session* session, const peri_tensor* in, size_t in_count);
/* Memory of the session for an input or output on its device, at the shape of the last run or peri_session_prepare():
 * the same for every run until a larger shape is prepared. Passed to peri_session_run(), it is not copied. dims are
 * valid until the shape changes. Errors: USAGE (no shape, no such port), UNSUPPORTED (it is on the host, or its size
 * depends on the data). */
peri_error* peri_session_input_memory(peri_session* session, size_t index, peri_tensor* out);
peri_error* peri_session_output_memory(peri_session* session, size_t index, peri_tensor* out);

/* Runs `in` (peri_engine_input_count tensors) to `out` (peri_engine_output_count).
 *
 * Outputs: if data is NULL, the output is in memory of the session; else it is written to data, which must have exactly
 * the output's size and its dtype or PERI_DTYPE_INVALID, and dims are not read. After success every output has its
 * dtype, dims, rank, data and bytes; dims and memory of the session are valid until the next run or the end of the
 * session. So a tensor may be passed to one run after another: data that the last run set is taken as NULL, and data
 * that lies within such memory is USAGE; what peri_session_output_to_dlpack() handed out is the caller's.
 * Data-dependent outputs and those of PERI_STRING must have data NULL. On the host, an input whose memory overlaps an
 * output's is copied first. Texts of inputs are copied.
 *
 * Devices: if peri_session_device() is a device, each tensor may be in its memory, as `device` and `device_index` say.
 * An output there whose data is NULL is in the session's own memory. Memory of the caller is accessed in place from the
 * second run with the same addresses on, if they are aligned like the buffers (64 bytes) and do not overlap; else it is
 * copied within the device.
 *
 * `stream` NULL: the call returns when the outputs are written. On a device it may be a stream of the caller (a
 * CUstream; (void*)1 is CUDA's default stream): the run starts after the work in that stream, later work follows the
 * run, and the call returns at once; all tensors must then be on the device and stay valid and unchanged.
 * peri_session_wait() returns the errors of such runs. Otherwise `stream` must be NULL.
 *
 * A session serves one thread at a time: a concurrent call is USAGE. Errors: USAGE (counts, device, stream, sizes,
 * overlapping outputs, busy), INVALID (a dtype or dim that does not match, named; data out of range; a text that is not
 * UTF-8). After an error the contents of outputs are undefined; the session can run again. */
peri_error* peri_session_run(peri_session* session, const peri_tensor* in, size_t in_count, peri_tensor* out,
                             size_t out_count, void* stream);

/* Ends the call of another thread on this session: a run returns CANCELLED before its next step, including steps of
 * loops; work already in a stream continues. Does nothing if there is no call. NULL is allowed. */
void peri_session_cancel(peri_session* session);

/* Waits for runs that were given a stream. Returns the first of their errors, or NULL. */
peri_error* peri_session_wait(peri_session* session);

/* Inputs of a text model, made from texts by the tokenizer in its engine: one row per text, padded to the longest. `in`
 * (peri_engine_input_count tensors, struct_size set) is filled, to be passed to peri_session_run(); its memory belongs
 * to the session and is valid until the next call of this function or the end of the session. Errors: USAGE (a model
 * without a tokenizer, no text, counts), INVALID (not UTF-8). A text ends at its first NUL; with lengths, in the second
 * form, it may hold some. */
peri_error* peri_session_texts(peri_session* session, const char* const* texts, size_t count, peri_tensor* in,
                               size_t in_count);
peri_error* peri_session_texts_of(peri_session* session, const peri_string* texts, size_t count, peri_tensor* in,
                                  size_t in_count);
/* Runs texts through a text model: `out` receives the output for whole texts (the embedding), one row per text. Its
 * data is NULL or memory of the caller, as in peri_session_run(). Errors: those of peri_session_texts() and
 * peri_session_run(), UNSUPPORTED (the model has no such output). The second form is that of peri_session_texts_of().
 */
peri_error* peri_session_embed(peri_session* session, const char* const* texts, size_t count, peri_tensor* out);
peri_error* peri_session_embed_of(peri_session* session, const peri_string* texts, size_t count, peri_tensor* out);
/* What stands before each text in later calls of these functions: `text` (0 bytes: nothing), or the model's prompt of
 * `name`; both NULL: the model's default prompt, if it has one, as before the first call. Errors: USAGE (both are
 * given, a model without a tokenizer, or without a prompt of that name), INVALID (not UTF-8). */
peri_error* peri_session_set_prompt(peri_session* session, const peri_string* text, const char* name);

/* ---- DLPack ---------------------------------------------------------------------------------------------------- */
/* The exchange format of array libraries (dmlc/dlpack). <peri/dlpack.h> declares its structs if no other header does.
 */
struct DLManagedTensor;

/* `out` (struct_size set) describes the same memory, without a copy: an input, or an output to write to. Ownership is
 * not transferred: the caller keeps `tensor` valid until the end of the run and releases it. dims of `out` are the
 * tensor's. Memory of the CPU, pinned by CUDA or not, and of CUDA devices (then device_index is written too). Errors:
 * USAGE (struct_size is not that of the struct; on another device, which is named; strides that are not dense and
 * row-major), UNSUPPORTED (an element type or lanes that have no peri_dtype). */
peri_error* peri_tensor_from_dlpack(const struct DLManagedTensor* tensor, peri_tensor* out);
/* Output `index` of the last run, without a copy. It shares the memory, outlives the next run and the session, and is
 * released by its deleter. The caller must keep memory of its own valid that an output was written to. An output in the
 * session's memory on a device is copied on the device, since the next run writes to that memory. Errors: USAGE (no
 * run, no such output), UNSUPPORTED (an element type that DLPack does not have). */
peri_error* peri_session_output_to_dlpack(const peri_session* session, size_t index, struct DLManagedTensor** out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
