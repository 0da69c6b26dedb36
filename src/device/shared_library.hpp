// A shared library that only some work needs, opened when that work begins. It stays open until the process ends.
#pragma once

#include "base/result.hpp"

namespace peri::device {

class SharedLibrary {
 public:
  // Searched in the RUNPATH of the library or program that peri is linked into, then in the system's folders. Errors:
  // kUnsupported with the loader's reason.
  static Result<SharedLibrary> open(const char* name);
  // The address of a symbol in it, or in a library that it depends on. Errors: kUnsupported.
  Result<void*> find(const char* symbol) const;

 private:
  SharedLibrary(const char* name, void* handle) : name_(name), handle_(handle) {}
  const char* name_;
  void* handle_;
};

}  // namespace peri::device
