// The planner on worked examples: a device and a model whose figures can be reckoned by hand.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/bar.h"
#include "plan/csv.h"
#include "plan/estimate.h"
#include "plan/plan_text.h"
#include "plan/sweep.h"
#include "plan/validate.h"

namespace knapsack {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

// 7 billion weights in 32 layers, multi-head attention of 32 x 128.
PlanModel seven_billion() {
  PlanModel model{.name = "seven",
                  .parameters = 7'000'000'000,
                  .hidden = 4096,
                  .layers = 32,
                  .vocab = 32000,
                  .trained_ctx = 32768,
                  .attention = 4096,
                  .kv_cols = std::vector<std::int64_t>(32, 2 * 4096)};
  model.tensors.push_back({.place = {TensorPart::other, 0, 1'000'000, 7000}});
  return model;
}

DeviceProfile board(double gb_per_s = 50, std::int64_t memory = 16) {
  DeviceProfile device{.id = "board", .name = "Board"};
  device.cpu = UnitProfile{};
  if (gb_per_s > 0) device.memory.theoretical_gb_per_s = Number{.value = gb_per_s, .source = "test"};
  if (memory > 0) device.memory.sizes_bytes = Counts{.value = {memory << 30}, .source = "test"};
  return device;
}

Plan planned(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options) {
  auto result = plan(model, device, Efficiency::fitted(), options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result ? std::move(result).value() : Plan{};
}
std::string refused(const PlanOptions& options) {
  const auto result = plan(seven_billion(), board(), Efficiency::fitted(), options);
  EXPECT_FALSE(result.has_value());
  if (result) return "";
  EXPECT_EQ(result.error().code, Code::usage);
  return result.error().message;
}

TEST(Plan, WeightsOfSevenBillion) {
  const PlanModel model = seven_billion();
  EXPECT_NEAR(weigh(model, "f16").bytes, 14e9, 1);
  EXPECT_NEAR(weigh(model, "w8a8").bytes, 7e9, 0.01e9);
  EXPECT_NEAR(weigh(model, "w4a16").bytes, 3.5e9, 0.01e9);
}

// 512 KiB a token: 2 GiB at 4096 tokens, 16 GiB at 32768; int8 with a scale for 32 takes 8.5 bits.
TEST(Plan, KvOf4kAnd32k) {
  const PlanModel model = seven_billion();
  EXPECT_DOUBLE_EQ(kv_bytes(model, 16, 4096), 2 * gib);
  EXPECT_DOUBLE_EQ(kv_bytes(model, 16, 32768), 16 * gib);
  EXPECT_DOUBLE_EQ(kv_bytes(model, bits_of_kv("i8"), 4096), 2 * gib * 8.5 / 16);
}

TEST(Plan, WindowsAreReadNoFurtherButAllocatedWhole) {
  PlanModel model = seven_billion();
  model.windows.assign(32, 1024);
  EXPECT_DOUBLE_EQ(kv_bytes_read(model, 16, 4096), 0.5 * gib);
  EXPECT_DOUBLE_EQ(kv_bytes(model, 16, 4096), 2 * gib);
}

// 3.5 GB at 50 GB/s: 70 ms a token, without the KV of one token.
TEST(Plan, FloorOfFourBits) {
  const Plan result = planned(seven_billion(), board(), {.ctx = 4096, .prompt = 1, .quant = "w4a16"});
  ASSERT_TRUE(result.floor_ms.has_value());
  EXPECT_NEAR(*result.floor_ms, 70, 0.2);
  ASSERT_TRUE(result.decode_tokens_per_s.has_value());
  EXPECT_LT(result.decode_tokens_per_s->high, 1000 / *result.floor_ms);
  EXPECT_LE(result.decode_tokens_per_s->high / result.decode_tokens_per_s->low, 2.001);
  EXPECT_NEAR(result.kv_mib, 2048, 1e-6);
}

TEST(Plan, ExpertsCountWithThoseATokenTakes) {
  PlanModel model = seven_billion();
  model.tensors = {{.place = {TensorPart::gate, 0, 64 * 1000, 1024}, .experts = 64},
                   {.place = {TensorPart::table, -1, 1000, 1024}}};
  model.top_k = 8;
  const WeightTotals weights = weigh(model, "f16");
  EXPECT_DOUBLE_EQ(weights.bytes, 2 * 65000.0 * 1024);
  EXPECT_DOUBLE_EQ(weights.read_bytes, 2 * 8000.0 * 1024);
}

TEST(Plan, TooLargeNamesWhatWouldHelp) {
  const Plan result = planned(seven_billion(), board(50, 8), {.ctx = 4096, .prompt = 64, .quant = "f16"});
  EXPECT_EQ(result.verdict, Verdict::does_not_fit);
  ASSERT_FALSE(result.reasons.empty());
  EXPECT_NE(result.reasons.front().find("more than the budget"), std::string::npos);
  EXPECT_FALSE(result.changes.empty());
}

TEST(Plan, AnUnknownBandwidthLeavesSpeedUnknownAndMemoryKnown) {
  const Plan result = planned(seven_billion(), board(0), {.quant = "w4a16"});
  EXPECT_FALSE(result.decode_tokens_per_s.has_value());
  EXPECT_FALSE(result.ttft_ms.has_value());
  EXPECT_GT(result.peak_mib, 3000);
  EXPECT_EQ(result.verdict, Verdict::tight);
  EXPECT_TRUE(std::any_of(result.unknown.begin(), result.unknown.end(),
                          [](const std::string& u) { return u.find("bandwidth") != std::string::npos; }));
  const json::object object = plan_json(seven_billion(), board(0), {}, result);
  EXPECT_TRUE(object.at("decode_tokens_per_s").is_null());
  for (const char* key : {"verdict", "reasons", "changes", "weights_mib", "kv_mib", "arena_mib", "peak_mib", "ttft_ms",
                          "prefill_tokens_per_s", "energy_mj_per_token", "steady_c", "minutes_to_throttle", "unknown"})
    EXPECT_TRUE(object.contains(key)) << key;
}

// 10 W over 5 C/W: 75 C in the end at 25 C. 65 C are 4/5 of the rise: after RC ln 5, and 8 W can be held.
TEST(Plan, HeatByHand) {
  DeviceProfile device = board();
  device.power.sustained_w = Number{.value = 10, .source = "test"};
  device.heat.resistance_c_per_w = Number{.value = 5, .source = "test"};
  device.heat.capacity_j_per_c = Number{.value = 60, .source = "test"};
  device.heat.throttle_points = {{Number{.value = 65, .source = "test"}, "passive"}};
  const Plan result = planned(seven_billion(), device, {.prompt = 1, .quant = "w4a16"});
  EXPECT_DOUBLE_EQ(result.steady_c.value(), 75);
  EXPECT_NEAR(result.minutes_to_throttle.value(), 5 * 1.6094379, 1e-4);
  EXPECT_NEAR(result.sustained_tokens_per_s.value() / result.decode_tokens_per_s->expected, 0.8, 1e-9);
  EXPECT_NEAR(result.energy_mj_per_token.value() * result.decode_tokens_per_s->expected, 10e3, 1e-6);
  device.heat.throttle_points.front().celsius.value = 80;
  const Plan cool = planned(seven_billion(), device, {.prompt = 1, .quant = "w4a16"});
  EXPECT_TRUE(cool.never_throttles);
  EXPECT_FALSE(cool.minutes_to_throttle.has_value());
}

// A machine whose engine was measured: 4 GB of Q8_0 in decode at 40 GB/s are 0.1 s, 32 layers of 100 us 3.2 ms, 512
// tokens of KV at 25 GB/s 10.7 ms.
TEST(Plan, AMeasuredMachineByHand) {
  PlanModel model = seven_billion();
  model.tensors = {{.place = {TensorPart::up, 0, 1'000'000, 4000}}, {.place = {TensorPart::head, -1, 1000, 1024}}};
  model.parameters = 4'001'024'000;
  DeviceProfile host = board();
  host.machine.emplace();
  host.machine->peaks.memory = {{.threads = 2, .gb_per_s = 50}};
  host.machine->engine = EngineSpeed{.threads = 2,
                                     .matrices = {{"Q8_0", 4096, 40, 800}},
                                     .layers = {{4096, 100, 0.5}},
                                     .load_gb_per_s = 2,
                                     .attention_gb_per_s = 25,
                                     .attention_gop_per_s = 100};
  const Plan result = planned(model, host, {.ctx = 4096, .prompt = 512, .quant = "q8_0"});
  ASSERT_TRUE(result.decode_tokens_per_s && result.prefill_tokens_per_s && result.load_s && result.ttft_cold_ms);
  const double weights = (4e9 + 1'024'000) * 34 / 32;
  const double kv = 512.0 * 512 * 1024;
  EXPECT_NEAR(1 / result.decode_tokens_per_s->expected, weights / 40e9 + 3.2e-3 + kv / 25e9, 1e-6);
  // 512 tokens of 2 x 4e9 operations at 800e9 a second, 0.5 ns for each of 4096 columns in 32 layers, the head once,
  // attention of 32 layers x 4 x 4096 columns x 512 x 512 / 2 pairs.
  const double seconds =
      512 * (8e9 / 800e9 + 32 * 4096 * 0.5e-9) + 1'024'000 * 34.0 / 32 / 40e9 + 32.0 * 4 * 4096 * 512 * 512 / 2 / 100e9;
  EXPECT_NEAR(result.ttft_ms->expected, 1e3 * seconds, 0.01);
  EXPECT_NEAR(result.load_s->expected, weights / 2e9, 1e-6);
  EXPECT_NEAR(result.ttft_cold_ms->expected, 1e3 * (seconds + weights / 2e9), 0.01);
  EXPECT_NEAR(result.floor_ms.value_or(0), 1e3 * (weights + kv) / 50e9, 1e-6);
}

// Limits of an NPU are looked at before anything is compiled.
TEST(Plan, LimitsOfAnNpu) {
  PlanModel model = seven_billion();  // one matrix of 1,000,000 rows
  DeviceProfile device = board(50, 64);
  device.npu = UnitProfile{};
  UnitLimits& limits = device.npu->limits;
  const auto says = [&](const std::string& text) {
    const Plan result = planned(model, device, {.ctx = 4096, .quant = "w4a16", .unit = "npu"});
    const auto found = std::find_if(result.reasons.begin(), result.reasons.end(),
                                    [&](const std::string& reason) { return reason.find(text) != std::string::npos; });
    EXPECT_NE(found, result.reasons.end()) << text;
    return result.verdict;
  };
  const auto count = [](std::int64_t value) { return Count{.value = value, .source = "test"}; };
  // 3.5 GB of weights and 2 GiB of KV.
  limits.address_bits = count(32);
  EXPECT_EQ(says("(5.3 GiB) are more than the NPU's addresses of 32 bits reach"), Verdict::does_not_fit);
  limits.address_bits = count(40);
  limits.weight_buffer_bytes = count(std::int64_t{420} << 20);
  says("as at least 8 buffers");
  limits.tensor_dim = count(16384);
  says("must be cut into 62");
  limits.process_domain_bytes = count(std::int64_t{4} << 30);
  says("2 sessions are needed");
  limits.context_bytes = count(std::int64_t{1} << 30);
  says("split into 4 contexts");
  limits.contexts = count(3);
  EXPECT_EQ(says("split into 4 contexts"), Verdict::does_not_fit);
}

TEST(Plan, AMachineThatWasNotMeasuredHasNoSpeed) {
  DeviceProfile host = board();
  host.machine.emplace();
  const Plan result = planned(seven_billion(), host, {.quant = "w4a16"});
  EXPECT_FALSE(result.decode_tokens_per_s);
  EXPECT_TRUE(std::any_of(result.unknown.begin(), result.unknown.end(),
                          [](const std::string& text) { return text.find("devices measure") != std::string::npos; }));
}

// 3.5 GB at 0.5 GB/s take 7 s, 5 s are asked for.
TEST(Plan, StorageThatIsTooSlow) {
  const Plan slow = planned(seven_billion(), board(), {.quant = "w4a16", .storage_gb_per_s = 0.5});
  EXPECT_NEAR(slow.load_floor_s.value_or(0), 7, 0.02);
  EXPECT_EQ(slow.verdict, Verdict::does_not_fit);
  EXPECT_TRUE(std::any_of(slow.reasons.begin(), slow.reasons.end(), [](const std::string& text) {
    return text.find("reading the weights alone takes 7.0 s") != std::string::npos;
  }));
  EXPECT_FALSE(slow.load_s);  // compiling comes on top, and nobody knows how long that takes
  EXPECT_FALSE(planned(seven_billion(), board(), {.quant = "w4a16"}).load_floor_s);
}

// What frees memory is no way out of a prompt that takes too long.
TEST(Plan, ChangesHelpWhatFails) {
  const Plan slow = planned(seven_billion(), board(1000, 64), {.ctx = 32768, .prompt = 30000, .quant = "q8_0"});
  ASSERT_EQ(slow.verdict, Verdict::does_not_fit);
  EXPECT_EQ(slow.by_wall[static_cast<std::size_t>(Wall::memory)], Verdict::fits);
  EXPECT_EQ(slow.by_wall[static_cast<std::size_t>(Wall::first_token)], Verdict::does_not_fit);
  EXPECT_GT(slow.excess, 0);
  EXPECT_FALSE(slow.changes.empty());
  for (const std::string& change : slow.changes) EXPECT_FALSE(change.starts_with("KV int8")) << change;
}

TEST(Plan, NonsenseIsRefusedByName) {
  EXPECT_NE(refused({.ctx = 0}).find("--ctx 0"), std::string::npos);
  EXPECT_NE(refused({.ctx = 40000}).find("at most 32768"), std::string::npos);
  EXPECT_NE(refused({.prompt = 0}).find("--prompt 0"), std::string::npos);
  EXPECT_NE(refused({.ctx = 100, .prompt = 101}).find("--prompt 101"), std::string::npos);
  EXPECT_NE(refused({.quant = "q4_k_x"}).find("q4_k_m"), std::string::npos);
  EXPECT_NE(refused({.unit = "npu"}).find("it has cpu"), std::string::npos);
  EXPECT_NE(refused({.quant = "stored"}).find("no weights"), std::string::npos);
}

TEST(Sweep, ValuesAreDoubledOrListed) {
  const auto doubled = read_sweep("ctx=1k..32k");
  ASSERT_TRUE(doubled.has_value());
  EXPECT_EQ(doubled->values, (std::vector<std::string>{"1024", "2048", "4096", "8192", "16384", "32768"}));
  const auto listed = read_sweep("device=a,b");
  ASSERT_TRUE(listed.has_value());
  EXPECT_EQ(listed->values, (std::vector<std::string>{"a", "b"}));
  for (const char* wrong : {"ctx", "ctx=", "ctx=0..4", "ctx=8k..1k", "ctx=a,b", "colour=red", "ctx=1..99999999999"})
    EXPECT_FALSE(read_sweep(wrong).has_value()) << wrong;
}

TEST(Csv, QuotesAndFaults) {
  const auto rows = read_csv("a,b\n\"x, \"\"y\"\"\nz\",2\r\n", "t.csv");
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->at(0).at("a"), "x, \"y\"\nz");
  EXPECT_EQ(rows->at(0).at("b"), "2");
  for (const auto& [text, says] : {std::pair{"", "empty"}, {"a,b\n1\n", "line 2"}, {"a\n\"1", "quote"}}) {
    const auto wrong = read_csv(text, "t.csv");
    ASSERT_FALSE(wrong.has_value());
    EXPECT_NE(wrong.error().message.find(says), std::string::npos) << wrong.error().message;
  }
}

std::vector<ValidatedRow> validated(const std::string& rows, const DeviceProfile* device) {
  RowSources sources;
  sources.device = [&](const std::string& name) { return name == "Board" ? device : nullptr; };
  sources.model = [](const std::string&) { return std::optional<RowShape>(); };
  const auto result =
      validate_rows("id,device,soc,backend,framework,model,params_b,weight_bits,decode_tok_s,memory_mb,fit_ok\n" + rows,
                    "rows.csv", Efficiency::fitted(), sources);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : std::vector<ValidatedRow>{};
}

TEST(Validate, WhyARowHasNoError) {
  const DeviceProfile device = board();
  const DeviceProfile unknown = board(0);
  const auto reason = [&](const std::string& row) { return validated(row, &device).at(0).reason; };
  EXPECT_EQ(reason("a,,Board,cpu,llama.cpp,x,1.5,4.5,10,,1\n"), "");
  EXPECT_EQ(reason("a,,Board,cpu,llama.cpp,x,,4.5,10,,1\n"), "parameters is not stated");
  EXPECT_EQ(reason("a,,Bored,cpu,llama.cpp,x,1,4.5,10,,1\n"), "no profile of \"Bored\", so its bandwidth is not known");
  EXPECT_EQ(reason("a,,Board,tpu,llama.cpp,x,1,4.5,10,,1\n"), "backend \"tpu\" is no cpu, gpu or npu");
  EXPECT_EQ(reason("a,,Board,cpu,llama.cpp,x,1,4.5,1e-300,,1\n"),
            "decode_tok_s is \"1e-300\", no number from 1e-09 to 1e+12");
  EXPECT_EQ(validated("a,,Board,cpu,llama.cpp,x,1,4.5,10,,1\n", &unknown).at(0).reason,
            "the bandwidth of Board is not known");
}

TEST(Validate, AChipByWhatStandsBeforeTheBracketsOrByItsDevice) {
  const DeviceProfile device = board();
  EXPECT_TRUE(validated("a,,Board (MT1),cpu,x,x,1,4.5,10,,1\n", &device).at(0).decode_err);
  EXPECT_TRUE(validated("a,Board,Something,cpu,x,x,1,4.5,10,,1\n", &device).at(0).decode_err);
  EXPECT_FALSE(validated("a,,Board (variant not stated),cpu,x,x,1,4.5,10,,1\n", &device).at(0).decode_err);
}

TEST(Bar, NamesAndNumbers) {
  const auto bar = read_bar(R"({"ttft_s": 2.5, "memory_mib": 900})", "bar.json");
  ASSERT_TRUE(bar) << bar.error().message;
  EXPECT_EQ(bar->ttft_s, 2.5);
  EXPECT_EQ(bar->memory_mib, 900);
  EXPECT_EQ(bar->load_s, 5);
  for (const char* bad : {R"({"ttft": 1})", R"({"ttft_s": 0})", R"({"ttft_s": -1})", R"({"ttft_s": "1"})", "[]", "{"})
    EXPECT_FALSE(read_bar(bad, "bar.json")) << bad;
}

}  // namespace
}  // namespace knapsack
