/* Perihelion's C interface: load or build an engine, run it on your memory.
 *
 * Handles are opaque. Every function that can fail returns an error object, or NULL for success; free errors with
 * peri_error_free(). On failure nothing is written through out-parameters but those named here. Structs that may grow
 * begin with struct_size: set it to sizeof(the struct); members a caller does not know read as zero. Zero is always the
 * default. Strings are UTF-8. Nothing is removed or changed within a major version. */
#ifndef PERI_PERI_H
#define PERI_PERI_H

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
  PERI_ERROR_INVALID = 2,     /* a file or tensor breaks its format or its rules */
  PERI_ERROR_UNSUPPORTED = 3, /* valid, but this version cannot do it */
  PERI_ERROR_IO = 4,
  PERI_ERROR_ACCURACY = 5, /* an answer lies outside its bound */
  PERI_ERROR_REFUSED = 6,  /* locked, missing executor, other version or machine */
  PERI_ERROR_CANCELLED = 7,
  PERI_ERROR_MEMORY = 8,
  PERI_ERROR_INTERNAL = 9,    /* our own fault */
  PERI_ERROR_REGRESSION = 10, /* a comparison found that something became slower */
  PERI_ERROR_UNSTABLE = 11    /* a measurement does not tell */
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

/* NULL, which is success, has no kind: INTERNAL, and "" for every part. */
peri_error_kind peri_error_get_kind(const peri_error* error);
/* Never NULL; "" for a part that was not given. Lives as long as the error. */
const char* peri_error_get(const peri_error* error, peri_error_part part);
/* NULL is allowed. */
void peri_error_free(peri_error* error);

/* ---- tensors --------------------------------------------------------------------------------------------------- */

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
  PERI_BOOL = 23, /* one byte, 0 or 1 */
  PERI_STRING = 24
} peri_dtype;
/* "f32", "i64", ...; "" for a number that is no dtype. Numbers not listed above name formats without a C type. */
const char* peri_dtype_name(peri_dtype dtype);

typedef enum peri_device {
  PERI_DEVICE_HOST = 0, /* pinned memory too */
  PERI_DEVICE_CUDA = 1,
  PERI_DEVICE_NULL = 100 /* a device without hardware, for tests */
} peri_device;

/* A tensor in memory of the caller: dense, row-major. In an array of them all have the same struct_size. */
typedef struct peri_tensor {
  size_t struct_size; /* sizeof(peri_tensor) */
  peri_dtype dtype;
  peri_device device;
  const int64_t* dims; /* `rank` of them */
  size_t rank;
  void* data; /* inputs are only read */
  size_t bytes;
  int32_t device_index; /* which one of the kind `device`; 0 on the host */
} peri_tensor;

/* ---- hooks ----------------------------------------------------------------------------------------------------- */

typedef enum peri_log_level { PERI_LOG_INFO = 0, PERI_LOG_WARNING = 1 } peri_log_level;
/* Told what a user may want to know and no error says. One line, without its end; lives during the call. */
typedef void (*peri_log_function)(void* user, peri_log_level level, const char* message);

/* Memory of runs: what sessions take for intermediate values, and outputs whose data is NULL. Weights stay in the
 * mapped file. Copied when it is given; what it names must outlive engine, sessions and outputs. Called from the
 * threads that run sessions. Both functions or neither. */
typedef struct peri_allocator {
  size_t struct_size;
  void* user;
  void* (*allocate)(void* user, size_t bytes,
                    size_t alignment); /* NULL: no memory; the run fails with PERI_ERROR_MEMORY */
  void (*release)(void* user, void* memory, size_t bytes);
} peri_allocator;

/* ---- engines --------------------------------------------------------------------------------------------------- */

/* A program ready to run: immutable, may be shared by threads and sessions. */
typedef struct peri_engine peri_engine;

typedef struct peri_engine_options {
  size_t struct_size;
  int threads; /* of a session's pool; 0: the CPUs this process may use. Results do not depend on it */
  const peri_allocator* allocator; /* NULL: the system's */
  peri_log_function log;           /* NULL: silent */
  void* log_user;
  int check_weights;      /* 1: the hash of every weight is recomputed first; else they are mapped and not read */
  const char* device;     /* "cuda:1": which one of several an engine for that kind runs on; NULL: the first */
  int64_t max_iterations; /* of one loop in one run, more is an error; 0: 2147483648 */
} peri_engine_options;

typedef struct peri_dim {
  const char* name; /* a dimension's own name, INPUT.AXIS, "batch" or "sequence" */
  int64_t value;
} peri_dim;

/* An input that becomes a constant: "sr", "16000". */
typedef struct peri_fixed {
  const char* name;
  const char* value;
} peri_fixed;

/* What `peri build` takes as flags. */
typedef struct peri_build_options {
  size_t struct_size;
  int threads;          /* as in peri_engine_options, and for measuring */
  const peri_dim* dims; /* the shape to tune for; any shape runs that min_dims and max_dims allow */
  size_t dim_count;
  const char* provider;    /* only candidates of this provider: "peri", "onednn", "reference"; NULL: all */
  int no_tune;             /* 1: each kernel's first offer, nothing is measured. Checked it is: see no_verify, which a
                            * program compiled before that member was there says along with this one */
  const char* engine_path; /* also write the engine to this file, and its proof beside it; NULL: it stays in memory */
  const char* lock_path;   /* also write every choice to this lock file */
  const char* locked_path; /* take every choice from this lock file: the same bytes, no measuring */
  /* Called from the building thread; `total` 0: not known. NULL: silent. */
  void (*progress)(void* user, size_t done, size_t total, const char* what);
  void* user;
  const peri_allocator* allocator; /* of the engine's sessions, as in peri_engine_options */
  peri_log_function log;           /* of the build and of the engine */
  void* log_user;
  int no_verify; /* 1: neither the kernels' answers nor the engine's are held against the reference; the proof says so
                  */
  int no_cache;  /* 1: the timing cache is neither read nor written */
  const char* cache_folder; /* of the timing cache; NULL: $PERI_CACHE, else $XDG_CACHE_HOME/peri, else ~/.cache/peri */
  const peri_dim* min_dims; /* the smallest shape that the engine takes; what is not named may be any size */
  size_t min_dim_count;
  const peri_dim* max_dims; /* the largest shape, the same */
  size_t max_dim_count;
  const char* backend; /* NULL or "auto": the first that can */
  const char* dtype;   /* as --dtype; NULL: not given */
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  const char* dump_folder; /* write the graph around each pass that changes it; NULL: none */
  int proof;               /* 1: make the proof, for peri_engine_proof(), though no engine_path is given */
  /* Asked from the building thread now and then; once it gives nonzero the build ends with the best so far, and the log
   * is told. */
  int (*stop)(void* user);
  int settings;            /* of a kernel's tunables to try beside what it derives, 0 to 64 */
  const char* device;      /* as in peri_engine_options */
  const char* io_dtype;    /* as --io-dtype: of inputs and outputs; NULL: the model's own */
  double budget;           /* seconds to tune for, then the best so far; 0: until all is tried */
  int retune;              /* 1: candidates are tried anew, and the timing cache gets what is found */
  int no_worker;           /* 1: candidates are judged in this process, and not in one of their own */
  int force;               /* 1: files of another kind at engine_path and lock_path are overwritten */
  const peri_fixed* fixed; /* inputs that become constants, as --fix */
  size_t fixed_count;
  int64_t max_iterations; /* as in peri_engine_options */
  int strict_placement;   /* 1: a model of which the host would have to run steps beside the device is REFUSED */
} peri_build_options;

/* Maps an engine file. `options` NULL: defaults. Errors: IO, INVALID (not an engine, cut, damaged), REFUSED (another
 * version, an executor or instruction set that is not here). */
peri_error* peri_engine_load(const char* path, const peri_engine_options* options, peri_engine** out);
/* Imports an ONNX file or a Hugging Face folder, chooses kernels and makes an engine. Takes seconds. */
peri_error* peri_engine_build(const char* model, const peri_build_options* options, peri_engine** out);
/* The sessions made from it live on. NULL is allowed. */
void peri_engine_free(peri_engine* engine);

/* The proof of the engine, a JSON object: what was verified and measured, and every choice with what it was chosen
 * from. That of the build, or the one beside the engine's file. Lives as long as the engine. Errors: USAGE (the build
 * made none), IO (there is no such file), UNSUPPORTED (of another version). */
peri_error* peri_engine_proof(const peri_engine* engine, const char** out);

/* What a verification or an inspection found. */
typedef struct peri_report peri_report;

/* What an engine is, as a JSON object: name, builder, backend, precision, devices, the sizes it was tuned for, steps
 * and how many of them run on the slow reference, whether it takes texts, and where the build was interrupted what is
 * not proven. */
peri_error* peri_engine_describe(const peri_engine* engine, peri_report** report);

typedef struct peri_explain_options {
  size_t struct_size;
  int compare; /* 1: the proof may be of another machine, its times stand beside the floors of this one */
} peri_explain_options;

/* Where the time of an engine goes, by its proof: the object that `peri explain --json` writes. Errors: those of
 * peri_engine_proof(), REFUSED (the proof is of another machine or engine). */
peri_error* peri_engine_explain(const peri_engine* engine, const peri_explain_options* options, peri_report** report);

typedef struct peri_verify_options {
  size_t struct_size;
  int threads;           /* of the reference; 0: as the engine says */
  const uint64_t* seeds; /* of the inputs, one run each; NULL: 1 and 2 */
  size_t seed_count;
  const peri_dim* dims; /* the shape of the runs; what is not named is as it was tuned for */
  size_t dim_count;
  double max_error;       /* the largest error allowed, as a share of an output's range; 0: 1e-4 */
  int bisect;             /* 1: also judge every step of the last run on the inputs it had */
  const char* peer_model; /* hold answers against ONNX Runtime's of this ONNX file (its Python: $PERI_PYTHON) and not
                           * against the float64 reference of the engine's own source; NULL: the reference */
  void (*progress)(void* user, size_t done, size_t total, const char* what); /* as in peri_build_options */
  void* user;
  int nan_equal; /* 1: NaN where NaN is wanted is agreement; 0: it proves nothing, and the error is ACCURACY */
  int (*stop)(void* user); /* asked now and then; once it gives nonzero the call ends with CANCELLED */
  double min_cosine;       /* the least allowed, means subtracted; 0: any, 0.9999 with peer_model */
  double max_change; /* the largest error as a share of the change between two seeds; 0: any, 1e-3 with peer_model */
  double rtol, atol; /* what the report's l0 counts; 0: 1e-3 and 1e-5 */
  const peri_tensor* in; /* one run on these inputs, in the host's memory, and not on seeded ones; NULL: seeded */
  size_t in_count;
} peri_verify_options;

/* Runs the engine on seeded inputs and holds its answers against the reference. NULL: all lie within the budget.
 * `report`, if it is not NULL, gets what was found; that is written too where the error is ACCURACY (an answer or a
 * step lies outside; its text names the first). Other errors: REFUSED (the reference would take hours), those of a run.
 */
peri_error* peri_engine_verify(const peri_engine* engine, const peri_verify_options* options, peri_report** report);
/* What a model needs and whether it runs here, before anything is tuned: inputs, operators, memory, an estimate of the
 * build. All of a model's unsupported nodes are in the report and no error. Of `options` the shape, the backend
 * and the disabled passes count; NULL: defaults. */
peri_error* peri_model_inspect(const char* model, const peri_build_options* options, peri_report** report);
/* Adds a kernel from outside by its manifest, as `--kernel` does, for all that this process builds, loads and runs from
 * then on. Not while any thread builds, loads or runs an engine. */
peri_error* peri_kernel_add(const char* manifest);
typedef struct peri_bench_options {
  size_t struct_size;
  int threads;          /* 0: as the engine says */
  double seconds;       /* to sample for, in each process; 0: 3 */
  int64_t max_runs;     /* in each process; 0: 100000 */
  const peri_dim* dims; /* the shape of the runs; what is not named is as it was tuned for */
  size_t dim_count;
  int layers;    /* 1: also the time of every step */
  int processes; /* measure in so many fresh processes, one after another: of the program that PERI_WORKER names, else
                  * of `peri` beside the running one; 0: in this process. A comparison takes 5 */
  void (*progress)(void* user, size_t done, size_t total, const char* what); /* as in peri_build_options */
  int (*stop)(void* user);                                                   /* not 0: end with the samples so far */
  void* user;
  double warm_up;        /* seconds to run for before sampling; 0: 0.3 */
  double tolerance;      /* the most that the samples may disagree by, as a share of their median; 0: 0.25 */
  const peri_tensor* in; /* runs on these inputs, in the host's memory; not with processes. NULL: seeded ones */
  size_t in_count;
} peri_bench_options;

/* Times runs on seeded inputs. `report` gets the object that `peri bench --json` writes. */
peri_error* peri_engine_bench(const peri_engine* engine, const peri_bench_options* options, peri_report** report);
/* Two such objects, of the same model, sizes and threads: whether the second took more than `limit` (1.03: three
 * percent more; 1 or above) of the first by more than chance. `report`, if it is not NULL, gets what `peri compare
 * --json` writes, also where the error is REGRESSION (it did) or UNSTABLE (fewer than 5 processes on a side tell
 * nothing). */
peri_error* peri_bench_compare(const char* before, const char* after, double limit, peri_report** report);
/* As a JSON object; lives as long as the report. */
const char* peri_report_json(const peri_report* report);
/* NULL is allowed. */
void peri_report_free(peri_report* report);

/* Inputs and outputs, in the order in which runs take them. Out of range: "", PERI_DTYPE_INVALID, 0. Strings and arrays
 * live as long as the engine. */
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

/* The device that all inputs and outputs of the engine lie on, so that they need never cross to the host; `index`, if
 * it is not NULL, gets which one of its kind. PERI_DEVICE_HOST: inputs and outputs are memory of the host. */
peri_device peri_session_device(const peri_session* session, int32_t* index);
/* Makes what runs of inputs with these dims need: plans, memory, and what a device captures. `in` has dtypes and dims;
 * data is not looked at. A session keeps its last 8 shapes: going back to one makes nothing. */
peri_error* peri_session_prepare(peri_session* session, const peri_tensor* in, size_t in_count);
/* Memory of the session for an input or output on its device, at the shape of the last run or peri_session_prepare():
 * the same for every run until a larger shape is prepared. Given to peri_session_run() nothing is copied. dims live
 * until the shape changes. Errors: USAGE (no shape, no such port), UNSUPPORTED (it lies on the host, or its size hangs
 * on data). */
peri_error* peri_session_input_memory(peri_session* session, size_t index, peri_tensor* out);
peri_error* peri_session_output_memory(peri_session* session, size_t index, peri_tensor* out);

/* Runs `in` (peri_engine_input_count of them) to `out` (peri_engine_output_count).
 * An output whose data is NULL is given memory of the session; else it is written to data, which must be of exactly the
 * output's bytes and of its dtype or PERI_DTYPE_INVALID, and dims are not read. After success every output has its
 * dtype, dims, rank, data and bytes; dims and memory of the session live until the next run or the session's end.
 * Data-dependent outputs must have data NULL. Where peri_session_device() is a device, tensors may lie there, each by
 * itself: `device` and `device_index` say so. An output there whose data is NULL is given the session's own memory.
 * Memory of the caller's is worked on in place from the second run on that names the same addresses, if they are
 * aligned as the buffers are (64 bytes) and do not overlap; else it is copied within the device. `stream` NULL: the
 * call returns when the outputs are written. On a device a stream of the caller's, as its driver knows it (a CUstream;
 * (void*)1 is CUDA's default stream): the run begins behind the work that stands there, later work there is behind the
 * run, and the call returns at once; all tensors must lie on the device then, and stay as they are. peri_session_wait()
 * tells what such a run found wrong. Else `stream` must be NULL. On the host an input whose memory overlaps an output's
 * is copied first. A session serves one thread at a time: a call while another is at work is USAGE. Errors: USAGE
 * (counts, device, stream, sizes, outputs that overlap, busy), INVALID (a dtype or dim that does not fit, named; data
 * out of range), UNSUPPORTED (string tensors). After an error the contents of outputs are undefined; the session may
 * run again. */
peri_error* peri_session_run(peri_session* session, const peri_tensor* in, size_t in_count, peri_tensor* out,
                             size_t out_count, void* stream);

/* Ends the call that another thread has under way on this session: a run gives CANCELLED before its next step, steps of
 * loops included; what a stream was given goes on. Where no call is under way nothing happens. NULL is allowed. */
void peri_session_cancel(peri_session* session);

/* Waits for runs that were given a stream. The first of their errors; NULL if there is none. */
peri_error* peri_session_wait(peri_session* session);

/* Inputs of a text model, made of texts by the tokenizer that travels in its engine: one row a text, padded to the
 * longest. `in` (peri_engine_input_count of them, struct_size set) is filled, to be given to peri_session_run(); what
 * it names is memory of the session and lives until the next call of this function or the session's end. Errors: USAGE
 * (a model without a tokenizer, no text, counts), INVALID (not UTF-8). */
peri_error* peri_session_texts(peri_session* session, const char* const* texts, size_t count, peri_tensor* in,
                               size_t in_count);
/* Runs texts through a text model: `out` gets the output that answers a text, one row each. Its data is NULL or of the
 * caller's, as in peri_session_run(). Errors: those of peri_session_texts() and peri_session_run(), UNSUPPORTED (no
 * output of the model answers a text as a whole). */
peri_error* peri_session_embed(peri_session* session, const char* const* texts, size_t count, peri_tensor* out);

/* ---- DLPack ---------------------------------------------------------------------------------------------------- */
/* The exchange format of array libraries (dmlc/dlpack). <peri/dlpack.h> declares its structs where no other header
 * does. */
struct DLManagedTensor;

/* `out` (struct_size set) describes the same memory, without a copy: an input, or an output to write to. Nothing is
 * taken over: `tensor` must live, and is to be released by the caller, after the run. dims of `out` are the tensor's
 * own. Memory of the CPU, pinned by CUDA or not, and of CUDA devices (then device_index is written too). Errors: USAGE
 * (on another device, which is named; strides that are not dense and row-major), UNSUPPORTED (an element type or lanes
 * that have no peri_dtype). */
peri_error* peri_tensor_from_dlpack(const struct DLManagedTensor* tensor, peri_tensor* out);
/* Output `index` of the last run, without a copy. It shares the memory: it outlives the next run and the session, and
 * is given back by its own deleter. An output that was written to the caller's memory is the caller's to keep. One in
 * the session's memory on a device is copied there, since the next run writes to it. Errors: USAGE (no run, no such
 * output), UNSUPPORTED (an element type that DLPack has not). */
peri_error* peri_session_output_to_dlpack(const peri_session* session, size_t index, struct DLManagedTensor** out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
