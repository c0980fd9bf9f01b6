// Whether a model fits a device, how fast it will be, why, and what to change: computed on paper, from the model's
// graph and the device's profile (docs/plan.md has the formulas). Whatever follows from a figure that the profile does
// not have is absent here, and `unknown` says why. Not for measuring: bench does that; not for text: plan_text.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/profile.h"
#include "plan/operators.h"
#include "plan/speed_model.h"
#include "tensor/mixes.h"

namespace knapsack {

struct PlanTensor {
  TensorPlace place{};
  std::int64_t experts = 1;             // its rows are those of so many experts, of which a token takes some
  std::optional<std::int64_t> bytes{};  // as the checkpoint stores it
  std::optional<DType> dtype{};         // of these
};

// What this program's own engine holds of a checkpoint as it is stored (bundle/footprint.h), once all of it was used.
struct EngineMemory {
  std::int64_t weights_bytes = 0;  // in the form that products read, and a table's rows as the file has them
  std::int64_t arena_bytes = 0;    // of the programs that `run` makes
  std::int64_t tokenizer_bytes = 0;
};

struct PlanModel {
  std::string name{};
  std::int64_t parameters = 0;
  std::int64_t hidden = 0, layers = 0, vocab = 0, trained_ctx = 0;
  std::int64_t attention = 0;  // columns of all heads together
  std::int64_t heads_per_kv = 1;
  std::int64_t experts = 0, top_k = 0;
  bool tied = false;
  std::vector<PlanTensor> tensors{};
  std::vector<std::int64_t> kv_cols{};   // elements of a token in the KV cache, by layer
  std::vector<std::int64_t> windows{};   // by layer: 0: attention to all tokens; empty: all
  std::int64_t arena_bytes = 0;          // activations of prefill and decode
  std::optional<EngineMemory> engine{};  // of a checkpoint
  std::string stored{};                  // how the checkpoint stores it, "Q4_0" or "GGUF"; empty: no weights there
  [[nodiscard]] ModelPlace place() const { return {layers, heads_per_kv}; }
};

// What is asked of the whole; the defaults of the command.
struct PlanBar {
  double load_s = 5, ttft_s = 4, decode_tokens_per_s = 6, minutes = 10;
  std::optional<double> memory_mib{};  // the budget, where it is less than what the device leaves
  // Asked for by name, so that not being able to say it is no fit.
  bool asks_load = false, asks_ttft = false, asks_minutes = false;
};

struct PlanOptions {
  std::int64_t ctx = 4096;
  std::int64_t prompt = 512;
  std::string quant = "auto";                // a scheme, "auto", or "stored"
  std::string kv = "f16";                    // f16, i8, i4
  std::string unit = "auto";                 // cpu, gpu, npu, auto
  std::optional<PlanOperators> operators{};  // what the NPU's toolchain makes of the graph; nothing: not asked
  std::string framework{};                   // whose efficiency counts; empty: the one most measured there
  std::optional<double> memory_gib{};        // of the device at hand, where its profile has several sizes or none
  std::optional<double> gb_per_s{};          // its bandwidth, where the profile has none or another
  std::optional<double> storage_gb_per_s{};  // what the weights' file is read at
  double ambient_c = 25;
  PlanBar bar{};
};

enum class Verdict : std::uint8_t { fits, tight, does_not_fit };
std::string_view verdict_name(Verdict verdict);

// What a plan can come to grief on; each of them is judged. unknown: that something cannot be said.
enum class Wall : std::uint8_t { memory, decode, first_token, load, heat, unit, unknown };
constexpr std::size_t walls = 7;

struct DepthRate {
  std::int64_t depth = 0;
  Estimate tokens_per_s{};
};

struct Plan {
  Verdict verdict = Verdict::fits;
  std::vector<std::string> reasons{};  // the weightiest first
  std::vector<std::string> changes{};  // the cheapest first
  std::string quant{}, unit{}, framework{};
  double bits_per_weight = 0;
  double weights_mib = 0, kv_mib = 0, arena_mib = 0, overhead_mib = 0, peak_mib = 0;
  std::optional<double> budget_mib{};
  // Loading: the file's bytes by the storage's speed at least; as a whole where this program's engine was measured.
  std::optional<double> load_floor_s{};
  std::optional<Estimate> load_s{};
  std::optional<Estimate> ttft_cold_ms{};  // loading and then the prompt
  std::optional<Estimate> ttft_ms{}, prefill_tokens_per_s{}, decode_tokens_per_s{};
  std::vector<DepthRate> decode_at_depth{};
  std::optional<double> energy_mj_per_token{}, steady_c{}, minutes_to_throttle{}, sustained_tokens_per_s{};
  bool never_throttles = false;
  bool measured = false;  // this unit and chip, with this framework
  // The working of it.
  double read_gb = 0, kv_read_gb = 0;  // for one token, at the prompt's depth
  std::optional<double> gb_per_s{}, bandwidth_share{}, floor_ms{}, peak_tops{};
  double prefill_tflop = 0, attention_tflop = 0;
  std::int64_t padded_prompt = 0;
  std::optional<PlanOperators> operators{};  // of a plan for the NPU, where they were asked about
  std::vector<std::string> unknown{};
  std::array<Verdict, walls> by_wall{};  // fits where there was nothing to judge
  double excess = 0;                     // by how much all that does not fit is beyond the bar, as logarithms
};

// Usage errors: a context of 0 or beyond the model's, a prompt that does not fit into it, a scheme or unit there is
// none of.
Result<Plan> plan(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
                  const PlanOptions& options);

// The schemes that `--quant all` shows and `auto` chooses from on a unit, the most exact first.
std::vector<std::string> usual_schemes(const std::string& unit);

}  // namespace knapsack
