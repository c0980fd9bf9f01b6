// Any bytes as a device profile and as a toolchain's table: what has no fault is in range and finite, and what the
// profile says is found again where the command line would print it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "device/profile.h"
#include "device/toolchain.h"

using namespace knapsack;

namespace {

void in_range(const std::optional<Number>& number) {
  if (!number) return;
  CHECK(std::isfinite(number->value) && number->value > 0);
  CHECK(!number->source.empty());
  if (number->range) CHECK(number->range->first <= number->value && number->value <= number->range->second);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  DeviceProfile profile;
  const auto faults = check_profile(text, "fuzz.json", profile);
  CHECK(faults.has_value() || !faults.error().message.empty());
  const auto whole = read_profile(text, "fuzz.json");
  CHECK(whole.has_value() == (faults.has_value() && faults->empty()));
  if (whole) {
    CHECK(!whole->id.empty());
    in_range(whole->memory.theoretical_gb_per_s);
    in_range(whole->memory.sustained_gb_per_s);
    in_range(whole->heat.resistance_c_per_w);
    for (const UnitKind kind : {UnitKind::cpu, UnitKind::gpu, UnitKind::npu}) {
      const UnitProfile* unit = whole->unit(kind);
      if (unit == nullptr) continue;
      in_range(unit->clock_mhz);
      for (const auto& [dtype, peak] : unit->peak_tops) CHECK(unit->peak(dtype) == &peak);
    }
  }
  const auto toolchain = read_toolchain(text, "fuzz.json");
  if (toolchain)
    for (const OpSupport& op : toolchain->ops) CHECK(toolchain->op(op.name) == &op);
  return 0;
}
