// The worker's loop: answers the requests of the build that started it, one after the other.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/heap.hpp"
#include "base/version.hpp"
#include "kernels/outside/outside.hpp"
#include "tune/contained_judge.hpp"
#include "tune/wire.hpp"
#include "tune/worker.hpp"

namespace peri::tune {

namespace {
constexpr double kTellEveryS = 1;                 // of samples that go on
constexpr size_t kKeptBytes = size_t{256} << 20;  // of freed memory, between questions: fresh pages take time

Status answer_crossing(int socket, Judge& judge, const Json& device) {
  PERI_ASSIGN(const std::string_view kind, device.as_string());
  const auto crossing = contained([&] { return judge.crossing(kind); });
  if (crossing.ok()) return send_text(socket, crossing_text(*crossing));
  return send_text(socket, one_field("error", crossing.error().text()));
}

Resolved resolve_of(Judge& judge, const Question& question, const std::function<void(const std::string&)>& before) {
  if (question.candidates.size() != 1) return {{}, "a question about no candidate, or several", false};
  if (before) before(question.candidates[0].id());
  return judge.resolve(question.region, question.constant, question.candidates[0]);
}

// False: a candidate has brought a device to an end, which serves this process no more; the build starts another.
Result<bool> answer(int socket, Judge& judge, const Json& said, const std::function<void(const std::string&)>& before) {
  if (const Json* device = said.find("crossing")) {
    PERI_TRY(answer_crossing(socket, judge, *device));
    return !judge.lost();
  }
  if (const Json* device = said.find("open_ahead")) {
    PERI_ASSIGN(const std::string_view kind, device->as_string());
    (void)contained([&] { judge.open_ahead(kind); });
    return true;
  }
  if (const Json* name = said.find("samples_ahead")) {
    PERI_ASSIGN(const std::string_view kernel_name, name->as_string());
    if (const kernels::Kernel* kernel = kernels::find(kernel_name))
      (void)contained([&] { judge.foresee_samples(*kernel); });
    return true;
  }
  if (const Json* name = said.find("samples")) {
    PERI_ASSIGN(const std::string_view kernel_name, name->as_string());
    const kernels::Kernel* kernel = kernels::find(kernel_name);
    SampleVerdict v;
    int64_t told = now_ns();
    const auto alive = [&] {
      if (before) before("a sample of " + std::string(kernel_name));
      if (seconds_since(told) < kTellEveryS) return;
      told = now_ns();
      (void)send_text(socket, one_field("goes_on", kernel_name));
    };
    if (kernel) v = samples_contained(judge, *kernel, alive);
    PERI_TRY(send_text(socket, samples_text(v)));
    return v.failed.empty() || !judge.lost();
  }
  auto question = contained([&] { return read_question(said); });
  if (!question.ok()) {
    if (const auto ahead = said.get_bool("ahead"); ahead.ok() && *ahead) return true;  // nobody waits for an answer
    PERI_TRY(send_text(socket, one_field("error", question.error().text())));
    return true;
  }
  if (question->resolve) {
    const Resolved resolved = resolve_of(judge, *question, before);
    PERI_TRY(send_text(socket, resolved_text(resolved)));
    return resolved.failed.empty() || !judge.lost();
  }
  std::vector<const Candidate*> list;
  for (const Candidate& c : question->candidates) list.push_back(&c);
  if (question->terms.ahead) {
    (void)contained([&] { judge.foresee(question->region, question->constant, list); });
    return true;
  }
  Status sent = Ok{};
  bool lost = false;
  question->terms.stop = [&lost] { return lost; };
  judge_contained(judge, question->region, question->constant, list, question->terms, [&](size_t k, const Verdict* v) {
    sent = send_text(socket, v ? verdict_text(k, *v) : format("{\"candidate\":%zu}", k));
    if (!v && before) before(list[k]->id());
    lost = lost || (v && !v->evidence.right() && judge.lost());
  });
  PERI_TRY(sent);
  if (lost) return false;
  JsonWriter w;
  w.begin_object().key("done");
  write_spent(w, judge.take_spent());
  w.end_object();
  PERI_TRY(send_text(socket, w.take()));
  return true;
}
}  // namespace

Status serve(int socket, const std::function<void(const std::string& candidate)>& before) {
  const Status greeted = send_text(socket, one_field(kGreeting, version()));
  auto first = greeted.ok() ? receive(socket, kStartPatienceS) : Result<Json>(greeted.error());
  // Of a build that is gone the socket is left.
  if (!first.ok()) return is_socket(socket) ? Status(Ok{}) : usage("a build starts this command, and nobody else");
  PERI_ASSIGN(const int64_t threads, first->get_int("threads"));
  PERI_ASSIGN(const int64_t parent, first->get_int("parent"));
  PERI_ASSIGN(const std::string_view device, first->get_string("device"));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return Ok{};  // it went before the line above
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // a crash is told, not kept
  // What changed meanwhile, or cannot be read, shows in the signature.
  if (const Json* const manifests = first->find("kernels"))
    for (const Json& path : manifests->items())
      if (const auto text = path.as_string(); text.ok()) (void)kernels::outside::add(std::string(*text));
  Judge judge(static_cast<int>(threads), std::string(device));
  JsonWriter w;
  w.begin_object().field("signature", signature()).end_object();
  PERI_TRY(send_text(socket, w.take()));
  while (true) {
    auto said = receive(socket, -1);
    if (!said.ok()) return Ok{};  // the build is done
    PERI_ASSIGN(const bool more, answer(socket, judge, *said, before));
    if (!more) return Ok{};
    give_back_memory(kKeptBytes);
  }
}

}  // namespace peri::tune
