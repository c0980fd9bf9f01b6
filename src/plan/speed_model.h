// Three short formulas with fitted efficiencies: seconds a decoded token, seconds of a prompt, memory of the process
// (docs/plan.md says where each term comes from). Every quantity in them is a sum of effects of unit, device family,
// framework, scheme and chip, read from devices/efficiency.json, which tools/plan/fit.py writes; an effect that is not
// there is 0. tools/plan/speed_model.py is the same in Python: a test compares them. Not for models or devices: plan.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace knapsack {

// Where something runs, in the fit's words. What is empty has no effect.
struct Place {
  std::string unit{};       // "cpu", "gpu", "npu"
  std::string soc{};        // as Efficiency::chip() calls it
  std::string family{};     // the profile's
  std::string framework{};  // as Efficiency::framework() calls it
  std::string scheme{};     // activations: "a8", "a16", "float"
};

struct DecodeWork {
  double weight_gb = 0;  // read for a token, 10^9 bytes
  double kv_gb = 0;
  double gb_per_s = 0;         // of the memory, theoretical
  double weights_billion = 0;  // read for a token
  double layers = 0;
};
struct PrefillWork {
  double tflop = 0;            // of products with weights
  double attention_tflop = 0;  // of attention
  double peak_tops = 0;        // Efficiency::peak()
  double weight_gb = 0;        // read in a chunk
  double gb_per_s = 0;
  double layers = 0;
  double chunks = 1;  // each reads the weights and starts every layer anew
};
struct MemoryWork {
  double weight_gb = 0;  // all, as stored
  double table_gb = 0;   // elements of a tied table, in 10^9
  double kv_gb = 0;
  double logits_gb = 0;  // elements of a prompt's logits, in 10^9
};

struct Estimate {
  double low = 0, expected = 0, high = 0;
};

// Of this program's own engine on a machine that was measured (device/engine_speed.h).
struct EngineEfficiency {
  double runtime_mib = 0;  // of the process beside weights, KV cache and activations
  double band = 0;         // half, as a logarithm
};

class Efficiency {
 public:
  static Result<Efficiency> read(std::string_view text, const std::string& origin);
  // devices/efficiency.json as it was when this program was built.
  static const Efficiency& fitted();

  // The class of a framework's published name; the name in lower case where it is of none.
  [[nodiscard]] std::string framework(std::string_view published) const;
  // Whether anything was measured with a framework of this name; the classes there are.
  [[nodiscard]] bool knows_framework(std::string_view published) const;
  [[nodiscard]] std::vector<std::string> frameworks() const;
  // Devices that are one chip share a name.
  [[nodiscard]] std::string chip(const std::string& device) const;
  // The framework that most measurements of this unit of this chip are of; empty: there are none.
  [[nodiscard]] std::string usual_framework(const std::string& unit, const std::string& chip) const;
  // The same of a chip of this family that was never measured itself.
  [[nodiscard]] std::string usual_framework_of_family(const std::string& unit, const std::string& family) const;
  // How often a prompt of so many tokens goes through the model.
  [[nodiscard]] double chunks(const std::string& unit, double prompt) const;
  // The most bits a weight that a framework was measured with on a unit; absent: it was measured with nothing.
  [[nodiscard]] std::optional<double> most_bits(const std::string& unit, const std::string& framework) const;
  // Tera-operations a second that a unit can feed. published: of its data sheet; 0: not known.
  [[nodiscard]] double peak(const std::string& unit, double published, double gb_per_s) const;

  // Seconds, seconds, MiB. low and high enclose four of five measurements and are no further apart than a factor of 2.
  [[nodiscard]] Estimate decode(const Place& place, const DecodeWork& work) const;
  [[nodiscard]] Estimate prefill(const Place& place, const PrefillWork& work) const;
  [[nodiscard]] Estimate memory(const Place& place, const MemoryWork& work) const;
  // Whether measurements of this very unit, chip and framework were fitted.
  [[nodiscard]] bool known(const std::string& target, const Place& place) const;
  [[nodiscard]] const EngineEfficiency& engine() const { return engine_; }
  // The part of the bandwidth that decode is expected to reach, and the MiB of a runtime without weights.
  [[nodiscard]] double bandwidth_share(const Place& place) const;
  [[nodiscard]] double runtime_mib(const Place& place) const;

 private:
  struct Quantity {
    double base = 0;
    std::map<std::string, std::map<std::string, double>> levels{};  // level -> key -> effect
  };
  struct Target {
    std::map<std::string, Quantity> quantities{};
    std::map<std::string, double> band{};  // by unit: half, as a logarithm
    double band_unseen = 0;
    std::vector<std::string> groups{};
  };
  [[nodiscard]] double sum(const std::string& target, const std::string& quantity, const Place& place) const;
  [[nodiscard]] Estimate with_band(const std::string& target, const Place& place, double expected) const;

  std::vector<std::pair<std::string, std::string>> frameworks_{};
  std::map<std::string, std::string> chips_{}, usual_framework_{}, usual_framework_of_family_{};
  std::map<std::string, double> usual_peak_{}, most_bits_{}, chunk_{};
  std::map<std::string, Target> targets_{};
  EngineEfficiency engine_{};
};

}  // namespace knapsack
