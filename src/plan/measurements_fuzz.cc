// Any bytes as published measurements and as what is asked of a plan: errors are finite or null with a reason, and bars
// are numbers above 0.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "plan/bar.h"
#include "plan/validate.h"

using namespace knapsack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const DeviceProfile device = [] {
    DeviceProfile profile{.id = "a", .name = "a", .family = "rockchip"};
    profile.memory.theoretical_gb_per_s = Number{.value = 38.4, .source = "made up"};
    return profile;
  }();
  RowSources sources;
  sources.device = [](const std::string& name) { return name.size() % 2 == 0 ? &device : nullptr; };
  sources.model = [](const std::string& name) -> std::optional<RowShape> {
    if (name.size() % 3 == 0) return std::nullopt;
    return RowShape{};
  };
  if (const auto rows = validate_rows(text, "fuzz.csv", Efficiency::fitted(), sources))
    for (const ValidatedRow& row : *rows)
      for (const auto& error : {row.decode_err, row.prefill_err, row.ttft_err, row.memory_err})
        CHECK(!error || std::isfinite(*error));
  if (const auto bar = read_bar(text, "fuzz.json"))
    for (const double value : {bar->load_s, bar->ttft_s, bar->decode_tokens_per_s, bar->minutes}) CHECK(value > 0);
  return 0;
}
