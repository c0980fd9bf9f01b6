// Which operators a vendor's compiler takes, as devices/toolchains/ID.json says it; a table covers one version or a
// range of them. An operator that is not listed is neither taken nor refused: nothing is known about it. Not for what a
// refusal costs, and not for whether a node of a graph keeps a check (src/plan).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/profile.h"

namespace knapsack {

enum class Support : std::uint8_t { yes, partial, no };  // partial: under the constraint, or as several operators
std::string_view support_name(Support support);

// What a graph decides of a constraint; devices/toolchain.schema.json says what each rule means.
enum class CheckRule : std::uint8_t {
#define KNAP_CHECK_RULE(name, needs) name,
#include "device/check_rules.inc"
#undef KNAP_CHECK_RULE
};
std::string_view check_rule_name(CheckRule rule);

struct OpCheck {
  CheckRule rule{};
  std::int64_t value = 0;
  std::vector<std::string> types{};
  std::string why{};
  // It binds before these only.
  std::string before_version{};
  std::optional<std::int64_t> before_generation{};
};

struct OpSupport {
  std::string name{};  // by ONNX: "MatMul"; of a trait: "dynamic_shape"
  Support support = Support::no;
  std::vector<std::string> dtypes{};  // "int8", "a16w4"; empty: not stated
  std::string constraint{};           // as the source has it
  std::vector<OpCheck> checks{};      // what of it a graph decides
  std::string condition{};            // what of it no graph decides
  std::string advice{};
  std::vector<std::string> written_as{};  // by these operators
  std::string within{};                   // as a part of this one only
  bool on_cpu = false;                    // taken, and run there
  std::optional<std::int64_t> fp16_since_generation{};
  // From these versions of the toolchain on: the operator; each of these types.
  std::string since_version{};
  std::map<std::string, std::string, std::less<>> dtypes_since_version{};
  std::string source{};
};

struct Toolchain {
  std::string id{};       // "qairt-2.39-2.49"
  std::string name{};     // "Qualcomm AI Runtime converter for HTP"
  std::string version{};  // "2.39-2.49", "5.2.0", a commit
  std::string at{};       // of these the one that is asked about; the newest where none was named
  std::vector<OpSupport> ops{};
  std::vector<OpSupport> traits{};  // what is no operator of a graph: dynamic shapes, masks of minus infinity

  // Nothing: not known.
  [[nodiscard]] const OpSupport* op(std::string_view which) const;
  [[nodiscard]] const OpSupport* trait(std::string_view which) const;
  // "qairt"
  [[nodiscard]] std::string_view base() const;
  [[nodiscard]] bool covers(std::string_view which) const;
  // Whether what is there from `since` on is not yet there.
  [[nodiscard]] bool before(std::string_view since) const;
};

// By numbers: "2.9" is before "2.10". Of what is no version, as a commit, nothing is before anything.
bool version_before(std::string_view a, std::string_view b);

// As check_profile and read_profile.
Result<std::vector<ProfileFault>> check_toolchain(std::string_view text, const std::string& origin,
                                                  Toolchain& toolchain);
Result<Toolchain> read_toolchain(std::string_view text, const std::string& origin);

}  // namespace knapsack
