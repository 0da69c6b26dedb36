// Proofs as files: their paths, their engines, and files that are not proofs.
#include <filesystem>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "build/proof.hpp"
#include "plan/engine_file.hpp"

namespace peri::build {

// Of every form: the older ones began with "format".
const FileKind kProofFile{"a proof", [](std::string_view head) { return head.starts_with("{\n \"form"); }};

std::string proof_path(const std::string& engine) { return behind_links(engine) + ".proof"; }

Result<Json> read_proof_file(const std::string& path) {
  auto text = read_file(path, size_t{256} << 20);
  if (!text.ok())
    return std::move(text).error().advise(
        "peri build writes the proof beside its engine: build it again, or explain the model; "
        "peri explain ENGINE --proof FILE reads one that is elsewhere");
  auto json = parse_json(*text);
  if (!json.ok())
    return std::move(json).error().in_file(path).advise("give the proof that peri build wrote beside its engine");
  const auto command = json->get_string("command", "");
  const bool has_form = json->find("form") || json->find("format");
  if (!has_form || json->find("peri_lock") || json->find("command"))
    return invalid("not a proof")
        .in_file(path)
        .expecting("what peri build writes beside its engine")
        .but_found(json->find("peri_lock")             ? "a lock file"
                   : command.ok() && !command->empty() ? "the result of a peri " + std::string(*command)
                                                       : "JSON of another kind");
  const auto form = json->get_int("form", 1);
  if (!form.ok() || *form != kProofForm)
    return unsupported("the proof is of another version of peri")
        .in_file(path)
        .expecting(format("form %d", kProofForm))
        .but_found(form.ok() ? format("form %lld", static_cast<long long>(*form)) : "no form")
        .advise("build the engine again, with --locked and its lock file for the same choices");
  return json;
}

namespace {
struct Hashes {
  std::string engine, proof;
};
Result<Hashes> hashes_of(const Json& proof, const std::string& engine) {
  PERI_ASSIGN(const plan::LoadedEngine loaded, plan::load_engine(engine));
  const auto named = proof.get_string("engine_hash", "");
  return Hashes{hex64(plan::engine_hash(loaded.file->bytes())), named.ok() ? std::string(*named) : ""};
}
std::string whose(const Hashes& h) { return h.proof.empty() ? "a proof of no file" : "a proof of " + h.proof; }
}  // namespace

Result<std::string> another_engines(const Json& proof, const std::string& engine) {
  PERI_ASSIGN(const Hashes h, hashes_of(proof, engine));
  return h.engine == h.proof ? "" : "it is " + whose(h) + ", and the engine is " + h.engine;
}

Result<Json> read_proof(const std::string& engine) {
  std::error_code unknown;
  std::string path = proof_path(engine);
  if (const std::string here = engine + ".proof";  // beside the link that was given
      !std::filesystem::exists(path, unknown) && std::filesystem::exists(here, unknown))
    path = here;
  PERI_ASSIGN(Json proof, read_proof_file(path));
  PERI_ASSIGN(const Hashes h, hashes_of(proof, engine));
  if (h.engine == h.proof) return proof;
  return refused("the proof is another engine's")
      .in_file(path)
      .expecting("the engine " + h.engine)
      .but_found(whose(h))
      .advise("build the engine again; peri explain ENGINE --proof FILE reads a proof as it is");
}

}  // namespace peri::build
