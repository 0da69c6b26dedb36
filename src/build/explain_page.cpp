// Tables from the proof; bars are blocks whose widths are relative to the slowest step.
#include "build/explain_page.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "build/explain_why.hpp"

namespace peri::build {

const FileKind kPageFile{"a page of peri explain",
                         [](std::string_view head) { return head.starts_with("<!DOCTYPE html>\n<!-- peri explain"); }};

namespace {
constexpr const char* kStyle =
    ":root{--ink:#1b1f24;--paper:#fff;--soft:#5b6570;--line:#d8dee4;--time:#f0a35e;--floor:#2f6f9f}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#14181d;--soft:#9aa7b3;--line:#2c343c}}"
    "body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:75em;margin:2em auto;"
    "padding:0 1em}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:.3em .6em;border-bottom:1px solid var(--line)}"
    "th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}"
    ".bar{width:14em;height:1em;position:relative}.bar i{position:absolute;left:0;top:0;height:100%;"
    "background:var(--time)}"
    ".bar i.floor{background:var(--floor)}code{font-size:.9em;overflow-wrap:anywhere}td "
    "code{display:block;min-width:9em}.soft{color:var(--soft)}"
    "summary{cursor:pointer}ul{margin:.3em 0;padding-left:1.2em}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string code(std::string_view text) { return "<code>" + escaped(text) + "</code>"; }
std::string number(const std::string& text) { return "<td class=n>" + text + "</td>"; }
std::string cell(const std::string& html) { return "<td>" + html + "</td>"; }

struct Column {
  const char* name;
  bool number = false;
};
std::string table(std::initializer_list<Column> columns, const std::string& rows) {
  std::string out = "<div class=wide><table><thead><tr>";
  for (const Column& c : columns) out += std::string("<th") + (c.number ? " class=n>" : ">") + c.name + "</th>";
  return out + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string percent(double share) { return format("%.1f %%", 100 * share); }

// The time, and in it the floor; both as shares of the slowest step's time.
std::string bar(double ms, double floor, double slowest) {
  const auto width = [&](double of) { return slowest > 0 ? std::clamp(100 * of / slowest, 0.0, 100.0) : 0; };
  return format(
      "<div class=bar role=img aria-label=\"%.4f ms, floor %.4f ms\"><i style=\"width:%.2f%%\"></i>"
      "<i class=floor style=\"width:%.2f%%\"></i></div>",
      ms, floor, width(ms), width(floor));
}

std::string why_cell(const Json& step) {
  const Why why = why_of(step);
  std::string out = escaped(why.chosen);
  std::string more;
  for (const std::string& line : why.rejected) more += "<li>" + escaped(line) + "</li>";
  for (const std::string& line : why.slower) more += "<li>" + escaped(line) + "</li>";
  if (!more.empty()) out += "<details><summary class=soft>the others</summary><ul>" + more + "</ul></details>";
  if (!why.refused.empty()) {
    more.clear();
    for (const std::string& line : why.refused) more += "<li>" + escaped(line) + "</li>";
    out += format("<details><summary class=soft>%zu kernel%s that cannot take it</summary><ul>", why.refused.size(),
                  why.refused.size() == 1 ? "" : "s") +
           more + "</ul></details>";
  }
  return cell(out);
}

std::string steps_table(const Explanation& e) {
  double slowest = 0;
  for (const ExplainedStep& r : e.steps) slowest = std::max({slowest, r.ms, r.floor.value_or(0)});
  std::string rows;
  for (const ExplainedStep& r : e.steps) {
    const bool timed = r.timed();
    rows += "<tr>" + cell(code(proof_word(*r.step, "name"))) + cell(code(proof_word(*r.step, "chosen"))) +
            number(r.runs ? std::to_string(*r.runs) : "?") +
            cell(bar(std::max(r.ms, 0.0), r.floor.value_or(0), slowest)) + number(timed ? ms_digits(r.ms) : "-") +
            number(timed && e.ms > 0 ? percent(r.ms / e.ms) : "-") + number(r.floor ? ms_digits(*r.floor) : "-") +
            number(timed && r.sustained ? percent(r.share_of(r.sustained)) : "-") + why_cell(*r.step) + "</tr>\n";
  }
  return table({{"step"},
                {"kernel"},
                {"runs", true},
                {"time, and the floor in it"},
                {"ms", true},
                {"share", true},
                {"floor ms", true},
                {"efficiency", true},
                {"why"}},
               rows);
}

std::string totals_table(const char* what, const std::vector<Total>& totals, double ms, bool counts_problems) {
  std::string rows;
  for (const Total& t : totals)
    rows += "<tr>" + cell(code(t.name)) + number(std::to_string(t.steps)) + number(ms_digits(t.ms)) +
            number(ms > 0 ? percent(t.ms / ms) : "-") + number(t.floors > 0 ? ms_digits(t.floor) : "-") +
            (counts_problems ? cell(escaped(t.members)) : "") + "</tr>\n";
  if (counts_problems)
    return table({{what}, {"steps", true}, {"ms", true}, {"share", true}, {"floor ms", true}, {"which"}}, rows);
  return table({{what}, {"steps", true}, {"ms", true}, {"share", true}, {"floor ms", true}}, rows);
}

std::string facts(const Json& proof, const Explanation& e) {
  std::string out = "<p>" + escaped(e.text()) + escaped(e.proven) + ".</p>\n<ul>\n";
  const auto fact = [&out](const char* what, const std::string& is) {
    if (!is.empty()) out += std::string("<li><span class=soft>") + what + "</span> " + escaped(is) + "</li>\n";
  };
  std::string sizes;
  if (const Json* tuned = proof.find("tuned_for"))
    for (const Json::Member& d : tuned->members())
      if (const auto n = d.value.as_int(); n.ok())
        sizes += (sizes.empty() ? "" : ", ") + d.key + "=" + std::to_string(*n);
  fact("tuned for", sizes);
  if (const Json* machine = proof.find("machine")) fact("machine", proof_word(*machine, "cpu"));
  fact("threads", std::to_string(e.threads));
  fact("built", proof_word(proof, "built") + " by peri " + proof_word(proof, "peri"));
  fact("times are", proof_word(proof, "times_are") + (e.times_runs() ? "; " + std::string(kEngineTimeInWords) : ""));
  fact("floor",
       "the least that the algorithm's products and the step's arguments and results take at the hardware's "
       "limits (roofline)");
  fact("efficiency", "the time at the rates this machine sustains, as a share of the step's time");
  return out + "</ul>\n";
}

std::string memory_list(const Json& proof) {
  const Json* memory = proof.find("memory");
  if (!memory) return "";
  std::string rows;
  for (const Json::Member& m : memory->members())
    if (const auto bytes = m.value.as_int(); bytes.ok())
      rows += "<tr>" + cell(escaped(m.key)) +
              number(*bytes < (1 << 20) ? format("%.1f KiB", static_cast<double>(*bytes) / (1 << 10))
                                        : format("%.1f MiB", static_cast<double>(*bytes) / (1 << 20))) +
              "</tr>\n";
  return "<h2>Memory</h2>\n" + table({{"what"}, {"size", true}}, rows);
}
}  // namespace

std::string explanation_page(const std::string& path, const Json& proof, const Explanation& e) {
  std::string out =
      "<!DOCTYPE html>\n<!-- peri explain -->\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n<title>" +
      escaped(path) + "</title>\n<style>" + kStyle + "</style></head>\n<body>\n<h1>" + escaped(path) + "</h1>\n" +
      facts(proof, e);
  for (const std::string& note : proof_words(proof, "notes")) out += "<p>Note: " + escaped(note) + "</p>\n";
  out += "<h2>Steps, the slowest first</h2>\n" + steps_table(e);
  const auto groups = totals_of(e, Grouping::kProblem);
  out += "<h2>Groups of equal problems</h2>\n" +
         (groups.empty() ? "<p>All problems differ.</p>\n" : totals_table("problem", groups, e.ms, true));
  out += "<h2>By operator</h2>\n" + totals_table("operator", totals_of(e, Grouping::kOperator), e.ms, false);
  out += "<h2>By kernel</h2>\n" + totals_table("kernel", totals_of(e, Grouping::kKernel), e.ms, false);
  return out + memory_list(proof) + "</body></html>\n";
}

}  // namespace peri::build
