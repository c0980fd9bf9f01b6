#include "device/toolchain.h"

#include <fmt/format.h>

#include <algorithm>
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
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

bool is_support_dtype(std::string_view name) {
  constexpr std::array<std::string_view, 15> known{"int4", "int8", "int16", "uint4", "uint8", "uint16", "fp16", "bf16",
                                                   "fp32", "a8w2", "a8w4",  "a8w8",  "a16w2", "a16w4",  "a16w8"};
  return std::find(known.begin(), known.end(), name) != known.end();
}

std::string version_of(FactFields& fields, std::string_view key) {
  std::string version = fields.text(key);
  if (!is_version(version)) fields.fault(key, fmt::format("is {}; expected a version as 2.45", printable(version, 40)));
  return version;
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
  entry.constrained_before_generation = fields.integer("constrained_before_generation", 1, 100000);
  entry.fp16_since_generation = fields.integer("fp16_since_generation", 1, 100000);
  entry.since_version = version_of(fields, "since_version");
  entry.dtype_since_version = version_of(fields, "dtype_since_version");
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
