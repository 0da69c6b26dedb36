// Functions of a chain are renamed by the number of their product.
#include "kernels/cuda/code/siblings.hpp"

namespace peri::kernels::cuda {

namespace {
void replace_all(std::string* text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text->find(what, at)) != std::string::npos; at += with.size())
    text->replace(at, what.size(), with);
}
}  // namespace

Result<std::vector<ir::Graph>> products_alone(const ir::Graph& region) {
  if (region.outputs.size() < 2 || region.outputs.size() > kMaxProducts) return refused("not several products");
  std::vector<ir::Graph> out;
  size_t nodes = 0;
  for (size_t k = 0; k < region.outputs.size(); ++k) {
    ir::Graph g = region.clone();
    g.outputs = {g.outputs[k]};
    g.output_names = {g.output_names[k]};
    g.erase_dead();
    if (g.inputs.size() != region.inputs.size() || g.nodes.empty()) return refused("not products of arguments");
    nodes += g.nodes.size();
    out.push_back(std::move(g));
  }
  if (nodes != region.nodes.size()) return refused("products that share more than their left side");
  return out;
}

std::string SiblingFinishes::add(std::string finish, int64_t columns, size_t products) {
  const std::string name = "peri_finish_of_" + std::to_string(count_++), begin = std::to_string(columns_),
                    wide = std::to_string(columns);
  columns_ += columns;
  const std::string test = count_ < products ? "  if (n < " + std::to_string(columns_) + ") " : "  ";
  replace_all(&finish, "peri_finish", name);
  finishes_ += finish;
  const std::string at = "(m * " + wide + " + n - " + begin + ", v, PERI_PASS);\n";
  one_ += test + "return " + name + at;
  eight_ += test + "return " + name + "_8" + at;
  return test;
}

std::string SiblingFinishes::text(const std::string& type) const {
  const std::string where = "PERI_PARAMETERS) {\n  const PERI_INDEX m = i / PERI_N, n = i - m * PERI_N;\n";
  return finishes_ + "PERI_DEVICE void peri_finish(const PERI_INDEX i, const " + type + " v, " + where + one_ +
         "}\nPERI_DEVICE void peri_finish_8(const PERI_INDEX i, float* v, " + where + eight_ + "}\n";
}

}  // namespace peri::kernels::cuda
