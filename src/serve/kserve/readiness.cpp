// Whether the server, or one of its models, is ready for requests; and the end of what it cannot answer any more.
#include <algorithm>

#include "serve/kserve/api_work.hpp"

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

void Api::Waiting::add(Work& work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  work.after = first_;
  if (first_) first_->before = &work;
  first_ = &work;
}

void Api::Waiting::remove(Work& work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  (work.before ? work.before->after : first_) = work.after;
  if (work.after) work.after->before = work.before;
}

// One that is just being destroyed has been answered.
std::vector<std::shared_ptr<Api::Work>> Api::Waiting::all() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Work>> out;
  for (Work* w = first_; w; w = w->after)
    if (auto one = w->weak_from_this().lock()) out.push_back(std::move(one));
  return out;
}

// From here on the reply may come from any thread. REQUIRES: what a reply reads of the work is complete.
void Api::answer_later(const std::shared_ptr<Work>& work) {
  work->waiting = waiting_;
  waiting_->add(*work);
}

void Api::give_up() {
  constexpr std::string_view kWhy = "the server has ended before this request was answered; it may be sent again";
  for (const auto& work : waiting_->all()) {
    HttpReply out;
    {
      const std::lock_guard<std::mutex> lock(work->mutex);
      if (work->replied) continue;
      out = work->exchange->request().target.starts_with("/v1/") ? openai_error(503, kWhy) : error_reply(503, kWhy);
    }
    reply(*work, std::move(out));
  }
}

}  // namespace peri::serve
