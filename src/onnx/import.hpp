// The ONNX importer: converts a model file to a typed graph with symbolic shapes in the newest form of every operator,
// or reports everything that prevents this.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "ir/graph.hpp"

namespace peri::onnx {

// One operator of a model, at one opset, with all the places it is used (functions expanded).
struct OpUse {
  std::string op, domain;  // domain "" is ai.onnx
  int64_t opset = 0;
  int64_t count = 0;
  std::vector<std::string> nodes;  // the first few, by name
  bool supported = false;
  std::string reason, remedy;  // if not
};

struct PortInfo {
  std::string name;
  ir::Type type;
};

// A survey of a file's contents without building its graph, to decide whether the model can run.
struct ImportReport {
  std::string path;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // "" is ai.onnx
  std::string producer, producer_version, doc;
  std::vector<PortInfo> inputs, outputs;  // as declared; constants with an input's name are left out
  std::vector<OpUse> ops;                 // unsupported first, then by name
  int64_t node_count = 0;                 // functions expanded
  int64_t weight_count = 0;
  uint64_t file_bytes = 0;
  std::vector<std::string> notes;
  // Of the values that are maps from each class to its score in the model: the names of the columns.
  std::map<std::string, std::vector<std::string>> class_names = {};
  bool supported() const;
  // All unsupported operators as one error (kUnsupported); REQUIRES !supported().
  Error refusal() const;
};

// A named dimension and the input axes that carry it: "image.0".
struct Symbol {
  std::string name;
  std::vector<std::string> axes;
};

// Dimensions of inputs under several names, which a node requires to be equal: each name to the one that stays.
struct SameSize {
  std::string name, node;
};
using SameSizes = std::map<std::string, SameSize, std::less<>>;

struct ImportedModel {
  ir::Graph graph;
  ImportReport report;
  std::vector<Symbol> symbols;
  std::map<std::string, std::string> metadata;
  SameSizes same;      // names that the graph has no more
  DimBinding lengths;  // of ImportOptions::lengths, those that name a sequence or optional
  // Mapped files that constants of the graph are views of. The tensors keep them alive.
  std::vector<std::shared_ptr<const MappedFile>> files;

  // kIo if a file was cut or overwritten since it was mapped: call it after weights were read and before the result is
  // used.
  Status check_files() const;
};

struct ImportOptions {
  int64_t max_nodes = 1000000;              // functions expanded
  size_t map_from_bytes = size_t{8} << 20;  // smaller files are read into memory, larger ones are mapped
  // Inputs that become constants: name and value, a number for all elements or one for each ("16000", "1,0,1").
  std::map<std::string, std::string> fixed = {};
  DimBinding sizes = {};  // dimensions of inputs that are these numbers
  // Dimensions of inputs that may be 0. Others are taken to be at least 1, but for those that join an input to
  // something else, as a decoder joins its past: these may always be 0.
  std::set<std::string, std::less<>> from_zero = {};
  SameSizes same = {};  // names of dimensions that are replaced; those that follow from the graph always are
  // For inputs that are sequences the number of elements, each of which becomes an input NAME.K; for optional ones
  // whether they are present, which is the default.
  DimBinding lengths = {};
  DimBinding ranks = {};  // of inputs, and of such elements NAME.K, where the model declares no shape
  // Mapped files are read once more when they are opened and known by their bytes from then on:
  // ImportedModel::check_files takes another time of modification for what it is where the bytes are those that were
  // read.
  bool remember = false;
};

// Errors name the file, the node, expectation, finding and remedy. Any file is safe to import: time and memory are
// bounded by its size, nothing outside its folder is opened, nothing is written.
//   kIo: cannot be read; kInvalid: violates the format or its rules; kUnsupported: valid, but cannot be run
// Large weights are views of the mapped file, not aligned to their element.
Result<ImportedModel> import_model(const std::string& path, const ImportOptions& options = {});

// The same for bytes in memory, which `keep` owns (external data is resolved in `dir`). `path` is used in errors.
Result<ImportedModel> import_bytes(std::string_view bytes, std::shared_ptr<const void> keep, const std::string& path,
                                   const std::string& dir, const ImportOptions& options = {});

// Reads and checks a model without building its graph: unsupported operators are listed, not an error.
Result<ImportReport> survey_model(const std::string& path, const ImportOptions& options = {});

}  // namespace peri::onnx
