// The folders where the Python that PERI_PYTHON names, else the python3 on PATH, has the packages that pip installed.
#pragma once

#include <string>
#include <vector>

namespace peri::device::cuda {

// The absolute folders of its sys.path; empty where there is no such Python or it does not answer within seconds. Read
// once per process, since it takes some 20 ms; thread-safe.
const std::vector<std::string>& python_folders();

}  // namespace peri::device::cuda
