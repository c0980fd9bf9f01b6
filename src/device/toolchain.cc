#include "device/toolchain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/utf8.h"
#include "device/fields.h"

namespace knapsack {
namespace {

bool is_operator(std::string_view name) {
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  return !name.empty() && capital(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return capital(c) || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
}

bool is_version(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

bool is_support_dtype(std::string_view name) {
  constexpr std::array<std::string_view, 15> known{"int4", "int8", "int16", "uint4", "uint8", "uint16", "fp16", "bf16",
                                                   "fp32", "a8w2", "a8w4",  "a8w8",  "a16w2", "a16w4",  "a16w8"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

// "2.39-2.49" -> both; of anything else, twice the whole.
std::pair<std::string_view, std::string_view> ends_of(std::string_view version) {
  const auto dash = version.find('-');
  if (dash == std::string_view::npos || !is_version(version.substr(0, dash)) || !is_version(version.substr(dash + 1)))
    return {version, version};
  return {version.substr(0, dash), version.substr(dash + 1)};
}

std::string version_of(FactFields& fields, std::string_view key) {
  std::string version = fields.text(key);
  if (!version.empty() && !is_version(version))
    fields.fault(key, fmt::format("is {}; expected a version as 2.45", printable(version, 40)));
  return version;
}

struct RuleRow {
  std::string_view name, needs;
};
constexpr std::array rule_rows{
#define KNAP_CHECK_RULE(name, needs) RuleRow{#name, #needs},
#include "device/check_rules.inc"
#undef KNAP_CHECK_RULE
};

OpCheck check_of(FactFields& fields) {
  OpCheck check;
  const std::string rule = fields.one_of("rule", {
#define KNAP_CHECK_RULE(name, needs) #name,
#include "device/check_rules.inc"
#undef KNAP_CHECK_RULE
                                                 });
  const auto value = fields.integer("value", 0, FactFields::most_count);
  check.value = value.value_or(0);
  check.types = fields.texts("types");
  check.why = fields.text("why");
  check.before_version = version_of(fields, "before_version");
  check.before_generation = fields.integer("before_generation", 1, 100000);
  for (std::size_t i = 0; i < rule_rows.size(); ++i) {
    if (rule_rows[i].name != rule) continue;
    check.rule = static_cast<CheckRule>(i);
    const std::string_view needs = rule_rows[i].needs;
    if ((needs == "value" && !value) || (needs == "types" && check.types.empty()) ||
        (needs == "why" && check.why.empty()))
      fields.fault("rule", fmt::format("is {} without its {}", rule, needs));
  }
  fields.no_others();
  return check;
}

void operators_of(FactFields& fields, OpSupport& entry) {
  for (FactFields& inner : fields.objects("checks")) entry.checks.push_back(check_of(inner));
  entry.condition = fields.text("condition");
  entry.advice = fields.text("advice");
  entry.written_as = fields.texts("written_as");
  entry.within = fields.text("within");
  entry.on_cpu = fields.boolean("on_cpu");
  entry.fp16_since_generation = fields.integer("fp16_since_generation", 1, 100000);
  entry.since_version = version_of(fields, "since_version");
  if (auto since = fields.object("dtypes_since_version")) {
    for (const std::string_view dtype : since->keys()) {
      entry.dtypes_since_version[std::string(dtype)] = version_of(*since, dtype);
      if (std::find(entry.dtypes.begin(), entry.dtypes.end(), dtype) == entry.dtypes.end())
        since->fault(dtype, "is not among the dtypes");
    }
    since->no_others();
  }
  // Whoever wrote a constraint without saying which part of it a graph decides has said that none is.
  const bool said = !entry.checks.empty() || !entry.advice.empty() || !entry.written_as.empty() ||
                    !entry.within.empty() || entry.on_cpu;
  if (entry.support == Support::partial && entry.condition.empty() && !said) entry.condition = entry.constraint;
}

OpSupport support_of(FactFields fields, bool trait) {
  OpSupport entry;
  if (trait) {
    entry.name =
        fields.one_of("trait", {"dynamic_shape", "infinite_mask", "compile_host_memory", "per_axis_quantization",
                                "state_variables", "dim_order", "matmul_api", "int4_weights", "memory", "other_ops"});
  } else {
    entry.name = fields.text("op", true);
    if (!entry.name.empty() && !is_operator(entry.name))
      fields.fault("op", fmt::format("is {}; expected a name of ONNX, as MatMul", printable(entry.name, 40)));
  }
  const std::string support = fields.one_of("support", {"yes", "partial", "no"});
  entry.support = support == "yes" ? Support::yes : support == "partial" ? Support::partial : Support::no;
  entry.dtypes = fields.texts("dtypes");
  for (const std::string& dtype : entry.dtypes)
    if (!is_support_dtype(dtype))
      fields.fault("dtypes", fmt::format("has {}; expected types as int8, fp16, a16w4", printable(dtype, 40)));
  entry.constraint = fields.text("constraint");
  if (!trait) operators_of(fields, entry);
  entry.source = fields.text("source", true);
  fields.no_others();
  return entry;
}

std::vector<OpSupport> supports_of(FactFields& fields, std::string_view key, bool trait) {
  std::vector<OpSupport> entries;
  std::set<std::string, std::less<>> seen;
  for (FactFields& inner : fields.objects(key, true)) {
    OpSupport entry = support_of(inner, trait);
    if (!trait && !entry.name.empty() && !seen.insert(entry.name).second)
      inner.fault("op", fmt::format("is {} a second time; expected one entry an operator", printable(entry.name, 40)));
    entries.push_back(std::move(entry));
  }
  return entries;
}

const OpSupport* named(const std::vector<OpSupport>& entries, std::string_view name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const OpSupport& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

std::string_view support_name(Support support) {
  return support == Support::yes ? "yes" : support == Support::partial ? "partial" : "no";
}

std::string_view check_rule_name(CheckRule rule) { return rule_rows[static_cast<std::size_t>(rule)].name; }

bool version_before(std::string_view a, std::string_view b) {
  if (!is_version(a) || !is_version(b)) return false;
  while (!a.empty() || !b.empty()) {
    const auto next = [](std::string_view& text) {
      const std::size_t end = std::min(text.find('.'), text.size());
      std::int64_t number = 0;
      std::from_chars(text.data(), text.data() + end, number);
      text.remove_prefix(std::min(end + 1, text.size()));
      return number;
    };
    const std::int64_t x = next(a);
    const std::int64_t y = next(b);
    if (x != y) return x < y;
  }
  return false;
}

std::string_view Toolchain::base() const {
  const std::string_view whole = id;
  return whole.size() > version.size() && whole.ends_with(version) ? whole.substr(0, whole.size() - version.size() - 1)
                                                                   : whole;
}

bool Toolchain::covers(std::string_view which) const {
  const auto [first, last] = ends_of(version);
  if (which == version || which == last) return true;
  if (!is_version(which) || !is_version(first)) return false;
  // 2.49 has 2.49.1 among it: only as many numbers count as the end has.
  const auto dots = std::count(last.begin(), last.end(), '.');
  std::string_view cut = which;
  for (std::size_t at_dot = 0, seen = 0; at_dot < cut.size(); ++at_dot)
    if (cut[at_dot] == '.' && seen++ == static_cast<std::size_t>(dots)) cut = cut.substr(0, at_dot);
  return !version_before(cut, first) && !version_before(last, cut);
}

bool Toolchain::before(std::string_view since) const { return !since.empty() && version_before(at, since); }

const OpSupport* Toolchain::op(std::string_view which) const { return named(ops, which); }
const OpSupport* Toolchain::trait(std::string_view which) const { return named(traits, which); }

Result<std::vector<ProfileFault>> check_toolchain(std::string_view text, const std::string& origin,
                                                  Toolchain& toolchain) {
  TRY(const json::object object, parse_json_object(text, origin));
  Faults faults;
  FactFields fields(faults, object, "");
  (void)fields.text("$schema");
  toolchain.id = fields.text("id", true);
  if (!toolchain.id.empty() && !is_word(toolchain.id, true))
    fields.fault("id", fmt::format("is {}; expected small letters and digits joined by dashes and dots",
                                   printable(toolchain.id, 40)));
  toolchain.name = fields.text("name", true);
  toolchain.version = fields.text("version", true);
  toolchain.at = ends_of(toolchain.version).second;
  toolchain.ops = supports_of(fields, "ops", false);
  toolchain.traits = supports_of(fields, "traits", true);
  fields.no_others();
  return faults.take();
}

Result<Toolchain> read_toolchain(std::string_view text, const std::string& origin) {
  Toolchain toolchain;
  TRY(const std::vector<ProfileFault> faults, check_toolchain(text, origin, toolchain));
  if (!faults.empty()) return fault_error(faults, origin);
  return toolchain;
}

}  // namespace knapsack
