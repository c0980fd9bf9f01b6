// The golden models and how a test runs one: through import, lowering and the one executor, as the product does.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "import/import.h"
#include "program/executor.h"
#include "program/pack.h"
#include "support/support.h"

namespace knapsack::testing {

inline std::vector<float> read_f32(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// A golden model as it is imported.
inline Graph graph_of(const std::string& name) {
  auto imported = import_model(data_path("golden/" + name).string(), {});
  if (!imported) throw std::runtime_error(imported.error().message);
  return std::move(imported->graph);
}

// One model of tests/golden with what the reference says about it.
struct Golden {
  std::string name;
  std::filesystem::path folder;
  std::vector<std::int32_t> ids_a, ids_b, greedy_prompt, greedy_tokens;
  std::vector<float> logits_a, logits_b, hidden_a;
  double tolerance = 2e-4;
};

inline std::vector<std::int32_t> id_list(const json::object& object, std::string_view key) {
  std::vector<std::int32_t> ids;
  for (const json::value& id : object.at(key).as_array()) ids.push_back(static_cast<std::int32_t>(id.as_int64()));
  return ids;
}

inline Golden load_golden(const std::string& name) {
  Golden golden;
  golden.name = name;
  golden.folder = data_path("golden/" + name);
  const auto parsed = parse_json(read_file(golden.folder / "reference.json"), name).value();
  const json::object& reference = parsed.as_object();
  golden.ids_a = id_list(reference, "ids_a");
  golden.ids_b = id_list(reference, "ids_b");
  golden.greedy_prompt = id_list(reference, "greedy_prompt");
  golden.greedy_tokens = id_list(reference, "greedy_tokens");
  golden.logits_a = read_f32(golden.folder / "logits_a.f32");
  golden.logits_b = read_f32(golden.folder / "logits_b.f32");
  golden.hidden_a = read_f32(golden.folder / "hidden_a.f32");
  if (reference.at("dtype").as_string() != "f32") golden.tolerance = 1e-3;  // weights stored in 16 bits
  return golden;
}

inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("golden")))
    if (std::filesystem::exists(entry.path() / "reference.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// For what takes long on all of them: under a sanitizer every third, since instrumented arithmetic is some thirty times
// as slow and what all of them go through is looked at by other tests.
inline std::vector<std::string> golden_sample() {
  std::vector<std::string> names = golden_names();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::vector<std::string> some;
  some.reserve(names.size() / 3 + 1);
  for (std::size_t i = 0; i < names.size(); i += 3) some.push_back(names[i]);
  return some;
#else
  return names;
#endif
}

struct RunOptions {
  std::int64_t chunk = 128;
  int threads = 1;
  Isa isa = Isa::scalar;
  std::optional<DType> recode{};  // store the matrices of products so, where columns allow
  bool packed = false;            // integer products
  std::int64_t memory = std::numeric_limits<std::int64_t>::max();  // for packed weights
  MemorySource source = huge_memory;
};

// The program with the matrices of its products encoded anew.
inline std::shared_ptr<const Program> recoded(const Program& program, DType dtype) {
  auto made = std::make_shared<Program>(program);
  for (const ProgramOp& op : made->ops) {
    if (op.op != Op::linear && op.op != Op::moe && op.op != Op::head_linear) continue;
    for (const int in : op.in) {
      const Slot& slot = made->slots[static_cast<std::size_t>(in)];
      if (slot.kind != SlotKind::weight) continue;
      auto& weight = made->weights[static_cast<std::size_t>(slot.index)];
      const auto dimensions = weight->shape.size();
      if (weight->dtype == dtype || dimensions < 2 || weight->cols() % format(dtype).block != 0) continue;
      const std::int64_t matrices = dimensions == 3 ? weight->shape[0] : 1;
      const std::int64_t size = weight->elements() / matrices;
      std::vector<float> values(static_cast<std::size_t>(size));
      const FormatInfo& from = format(weight->dtype);
      const std::int64_t size_coded = size / weight->cols() * row_bytes(dtype, weight->cols());
      auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(matrices * size_coded));
      for (std::int64_t i = 0; i < matrices; ++i) {
        from.decode(weight->slab(i), values.data(), size / from.block);
        format(dtype).encode(values.data(), bytes->data() + i * size_coded, size / format(dtype).block);
      }
      auto coded = std::make_shared<Weight>(*weight);
      coded->dtype = dtype;
      coded->slabs = {bytes->data()};
      coded->owners = {bytes};
      weight = std::move(coded);
    }
  }
  return made;
}

// A model with a KV cache of one sequence, f32.
class Model {
 public:
  Model(const std::string& path, std::int64_t ctx, const RunOptions& options)
      : chunk_(options.chunk), pool_(options.threads) {
    auto imported = import_model(path, {.ctx = ctx});
    if (!imported) throw std::runtime_error(imported.error().message);
    imported_ = std::move(*imported);
    auto valid = verify(imported_.graph);
    if (!valid) throw std::runtime_error(valid.error().message);
    program_ = lower(imported_.graph, {.max_tokens = chunk_, .max_selected = chunk_}).value();
    if (options.recode) program_ = recoded(*program_, *options.recode);
    if (options.packed) packed_ = pack_weights(*program_, options.isa, pool_, options.memory, options.source).value();
    cache_ = std::make_unique<KvCache>(KvCache::create(program_->states, 1, ctx, DType::F32).value());
    executor_ = Executor::create(program_, *cache_, pool_, options.isa, packed_.get()).value();
  }

  [[nodiscard]] const Imported& imported() const { return imported_; }
  [[nodiscard]] std::int64_t packed_bytes() const { return packed_ == nullptr ? 0 : packed_->bytes(); }
  // Whether every weight of that op is packed.
  [[nodiscard]] bool packs(Op op) const {
    bool all = packed_ != nullptr;
    for (const ProgramOp& each : program_->ops)
      for (const int in : each.in) {
        const Slot& slot = program_->slots[static_cast<std::size_t>(in)];
        if (each.op != op || slot.kind != SlotKind::weight) continue;
        all = all && packed_->find(program_->weights[static_cast<std::size_t>(slot.index)].get()) != nullptr;
      }
    return all;
  }
  [[nodiscard]] std::int64_t vocab() const { return imported_.graph.value(imported_.graph.output()).cols(); }
  Executor& executor() { return *executor_; }

  // Logits of every token of `ids`, which follow what has been run already.
  std::vector<float> logits(std::span<const std::int32_t> ids) {
    std::vector<float> all;
    for (std::size_t begin = 0; begin < ids.size(); begin += static_cast<std::size_t>(chunk_)) {
      const auto part = ids.subspan(begin, std::min(static_cast<std::size_t>(chunk_), ids.size() - begin));
      std::vector<std::int32_t> positions, slots(part.size(), 0), selected;
      for (std::size_t i = 0; i < part.size(); ++i) {
        positions.push_back(position_ + static_cast<std::int32_t>(i));
        selected.push_back(static_cast<std::int32_t>(i));
      }
      const auto out = executor_->run({part, positions, slots, selected});
      all.insert(all.end(), out.begin(), out.end());
      position_ += static_cast<std::int32_t>(part.size());
    }
    return all;
  }

  void reset() { position_ = 0; }

  std::vector<std::int32_t> greedy(std::span<const std::int32_t> prompt, std::size_t count) {
    std::vector<std::int32_t> tokens;
    std::vector<float> rows = logits(prompt);
    while (tokens.size() < count) {
      const auto last = rows.end() - vocab();
      tokens.push_back(static_cast<std::int32_t>(std::max_element(last, rows.end()) - last));
      rows = logits({&tokens.back(), 1});
    }
    return tokens;
  }

 private:
  std::int64_t chunk_;
  ThreadPool pool_;
  Imported imported_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<PackedWeights> packed_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Executor> executor_;
  std::int32_t position_ = 0;
};

inline double max_error(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace knapsack::testing
