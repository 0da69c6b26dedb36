// One row for each part.
#include "tune/spent.hpp"

namespace peri::tune {

namespace {
struct Row {
  const char* name;
  double Spent::* part;
};
constexpr Row kRows[] = {{"arguments", &Spent::arguments}, {"reference", &Spent::reference},
                         {"code", &Spent::code},           {"ready", &Spent::ready},
                         {"checks", &Spent::checks},       {"compared", &Spent::compared},
                         {"timing", &Spent::timing},       {"asked", &Spent::asked}};
}  // namespace

Spent& Spent::operator+=(const Spent& more) {
  for (const Row& r : kRows) this->*r.part += more.*r.part;
  return *this;
}

std::string Spent::text() const {
  return format(
      "arguments %.2f s, reference %.2f, code %.2f, made ready %.2f, checked %.2f, compared %.2f, timed %.2f, asked "
      "%.2f",
      arguments, reference, code, ready, checks, compared, timing, asked);
}

void write_spent(JsonWriter& w, const Spent& spent) {
  w.begin_object();
  for (const Row& r : kRows) w.field(r.name, spent.*r.part);
  w.end_object();
}

Result<Spent> read_spent(const Json& json) {
  Spent out;
  for (const Row& r : kRows) {
    PERI_ASSIGN(out.*r.part, json.get_double(r.name));
    if (!(out.*r.part >= 0)) return invalid("a time below zero").at_node(r.name);
  }
  return out;
}

}  // namespace peri::tune
