// Which operators a vendor's compiler takes in one version, as devices/toolchains/ID.json says it. An operator that is
// not listed is neither taken nor refused: nothing is known about it. Not for what a refusal costs (src/plan).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/profile.h"

namespace knapsack {

enum class Support : std::uint8_t { yes, partial, no };  // partial: under the constraint, or as several operators
std::string_view support_name(Support support);

struct OpSupport {
  std::string name{};  // by ONNX: "MatMul"; of a trait: "dynamic_shape"
  Support support = Support::no;
  std::vector<std::string> dtypes{};  // "int8", "a16w4"; empty: not stated
  std::string constraint{};
  // Hexagon generations: those before the first have the constraint, those from the second on take fp16.
  std::optional<std::int64_t> constrained_before_generation{};
  std::optional<std::int64_t> fp16_since_generation{};
  // From these versions of the toolchain on: the operator's constraint is lifted, the dtypes are taken.
  std::string since_version{};
  std::string dtype_since_version{};
  std::string source{};
};

struct Toolchain {
  std::string id{};       // "qairt-2.39-2.49"
  std::string name{};     // "Qualcomm AI Runtime converter for HTP"
  std::string version{};  // "2.39-2.49"
  std::vector<OpSupport> ops{};
  std::vector<OpSupport> traits{};  // what is no operator of a graph: dynamic shapes, masks of minus infinity

  // Nothing: not known.
  [[nodiscard]] const OpSupport* op(std::string_view which) const;
  [[nodiscard]] const OpSupport* trait(std::string_view which) const;
};

// As check_profile and read_profile.
Result<std::vector<ProfileFault>> check_toolchain(std::string_view text, const std::string& origin,
                                                  Toolchain& toolchain);
Result<Toolchain> read_toolchain(std::string_view text, const std::string& origin);

}  // namespace knapsack
