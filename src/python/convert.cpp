// Errors, callbacks and arrays between Python and the C++ interface.
#include "python/convert.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <peri/dlpack.h>
#include <cstring>
#include <optional>

#include "python/lock.hpp"

namespace peri::python {

nb::object text(const std::string& words) {
  PyObject* const made = PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "backslashreplace");
  if (!made) nb::raise_python_error();
  return nb::steal(made);
}

// As os.fsdecode() gives it.
static nb::object path_text(const std::string& path) {
  PyObject* const made = PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (!made) nb::raise_python_error();
  return nb::steal(made);
}

void raise(const Error& e) {
  const nb::object made = nb::module_::import_("peri.errors")
                              .attr("of")(static_cast<int>(e.kind), text(e.text), text(e.message), path_text(e.file),
                                          text(e.node), text(e.expected), text(e.found), text(e.remedy));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  nb::raise_python_error();
}

namespace {
// What the library sees of an exception of Python's, which needs the interpreter's lock to be read or dropped.
[[noreturn]] void throw_raised() { nb::raise("an exception of Python"); }
}  // namespace

void Callbacks::progress(size_t done, size_t total, const char* what) {
  const bool raised = [&] {
    const Locked lock;
    try {
      if (!raised_ && !progress_.is_none()) progress_(done, total, text(what));
    } catch (...) {
      raised_ = std::current_exception();
    }
    return static_cast<bool>(raised_);
  }();
  if (raised) throw_raised();
}

bool Callbacks::stop() {
  const std::optional<bool> answer = [&]() -> std::optional<bool> {
    const Locked lock;
    if (raised_) return std::nullopt;
    try {
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      if (stop_.is_none()) return false;
      const int yes =
          PyObject_IsTrue(nb::object(stop_()).ptr());  // any object may be returned: numpy.bool_, a number, None
      if (yes < 0) nb::raise_python_error();
      return yes != 0;
    } catch (...) {
      raised_ = std::current_exception();
      return std::nullopt;
    }
  }();
  if (!answer) throw_raised();
  return *answer;
}

void Log::tell(void* user, peri_log_level level, const char* message) {
  const Locked lock;
  try {  // a signal that came before is not the log function's
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  } catch (...) {
    keep_raised(std::current_exception());
  }
  try {
    static_cast<Log*>(user)->function(level == PERI_LOG_WARNING, text(message));
  } catch (nb::python_error& e) {
    if (e.matches(PyExc_Exception))
      e.discard_as_unraisable("the log of peri");
    else
      keep_raised(std::current_exception());  // SystemExit, KeyboardInterrupt: the end of more than a log
  }
}

namespace {
// A managed tensor of DLPack 1.x, which <peri/dlpack.h> does not have.
struct VersionedTensor {
  static constexpr uint32_t kMajor = 1;
  static constexpr uint64_t kReadOnly = 1;
  uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  DLTensor tensor;
};

Error usage_of(const char* message) {
  Error e;
  e.kind = PERI_ERROR_USAGE;
  e.message = e.text = message;
  return e;
}

Result<View> of_versioned(const VersionedTensor& t, bool writes) {
  if (t.major != VersionedTensor::kMajor) return usage_of("its __dlpack__ gives a capsule of another version");
  if (writes && t.flags & VersionedTensor::kReadOnly) return usage_of("the memory of this output is read-only");
  DLManagedTensor managed = {};
  managed.dl_tensor = t.tensor;
  return View::from_dlpack(managed);
}

// Errors name the input or output. `writes`: it is memory of an output.
View of_capsule(PyObject* capsule, const std::string& name, bool writes) {
  const auto view = [&]() -> Result<View> {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
      return of_versioned(*static_cast<VersionedTensor*>(PyCapsule_GetPointer(capsule, "dltensor_versioned")), writes);
    if (PyCapsule_IsValid(capsule, "dltensor"))
      return View::from_dlpack(*static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor")));
    return usage_of("its __dlpack__ gives a capsule that is used up, or of another version");
  }();
  if (view) return *view;
  Error e = view.error();
  e.node = name;
  e.text = "'" + name + "': " + e.text;
  raise(e);
}

View view_of(nb::handle array, std::vector<std::vector<peri_string>>* strings) {
  if (array.is_none()) return {};
  const auto parts = nb::cast<nb::tuple>(array);
  if (nb::isinstance<nb::list>(parts[1])) {
    std::vector<peri_string>& texts = strings->emplace_back();
    for (nb::handle text : nb::cast<nb::list>(parts[1])) {
      const auto bytes = nb::cast<nb::bytes>(text);
      texts.push_back({bytes.c_str(), bytes.size()});
    }
    return View::of(std::span(texts), nb::cast<std::vector<int64_t>>(parts[0]));
  }
  if (parts.size() == 3)
    return of_capsule(nb::object(parts[0]).ptr(), nb::cast<std::string>(parts[1]), nb::cast<bool>(parts[2]));
  View out;
  out.dtype = static_cast<peri_dtype>(nb::cast<int>(parts[0]));
  out.dims = nb::cast<std::vector<int64_t>>(parts[1]);
  out.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(parts[2]));
  out.bytes = nb::cast<size_t>(parts[3]);
  return out;
}

// A NumPy array; bfloat16, which NumPy lacks, is passed as raw 16 bits.
nb::object numpy_array(void* data, const DLTensor& t, nb::handle owner) {
  const std::vector<size_t> shape(t.shape, t.shape + t.ndim);
  const uint8_t code = t.dtype.code == kDLBfloat ? static_cast<uint8_t>(kDLUInt) : t.dtype.code;
  return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr,
                                         nb::dlpack::dtype{code, t.dtype.bits, t.dtype.lanes}));
}
}  // namespace

Views::Views(const nb::list& arrays) {
  for (nb::handle array : arrays) all.push_back(view_of(array, &strings_));
}

nb::object array_of(Session& session, size_t index, const View& made) {
  if (made.dtype == PERI_STRING) {
    nb::list texts;
    for (const peri_string& text : made.as<peri_string>()) texts.append(nb::bytes(text.data, text.bytes));
    return nb::make_tuple(nb::cast(made.dims), texts);
  }
  DLManagedTensor* const managed = take(session.output_to_dlpack(index));
  const nb::capsule owner(managed, [](void* p) noexcept {
    auto* const tensor = static_cast<DLManagedTensor*>(p);
    tensor->deleter(tensor);
  });
  return numpy_array(managed->dl_tensor.data, managed->dl_tensor, owner);
}

nb::object copy_of(const View& view) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  const nb::object made =
      numpy.attr("empty")(nb::cast(view.dims), nb::str(view.dtype == PERI_I64 ? "int64" : "float32"));
  const auto address = nb::cast<uintptr_t>(made.attr("ctypes").attr("data"));
  std::memcpy(reinterpret_cast<void*>(address), view.data, view.bytes);
  return made;
}

}  // namespace peri::python
