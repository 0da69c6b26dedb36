// Whether the server, or one of its models, is ready for requests.
#include <algorithm>

#include "serve/kserve/api.hpp"

namespace peri::serve {

void Api::drain() {
  draining_ = true;
  for (const ServedPtr& s : repository_.all()) s->model->expect_no_more();
}

int Api::readiness(std::string_view model) const {
  const auto well = [](const ServedPtr& s) { return s->model->trouble().empty(); };
  int status = 404;
  std::string why;
  const std::vector<ServedPtr> all = repository_.all();
  if (model.empty()) return !draining_ && repository_.ready() && std::all_of(all.begin(), all.end(), well) ? 200 : 400;
  const ServedPtr served = repository_.find(model, "", &status, &why);
  if (!served) return status == 404 ? 404 : 400;
  return !draining_ && well(served) ? 200 : 400;
}

}  // namespace peri::serve
