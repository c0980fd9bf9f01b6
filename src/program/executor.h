// The one executor: runs a program step by step on the CPU. Allocates everything when made, nothing in run().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/kernel.h"
#include "kernels/packed.h"
#include "program/kv_cache.h"
#include "program/profile.h"
#include "program/program.h"

namespace knapsack {

// One step: all spans have one entry a token but `selected`, which lists the rows whose logits are wanted.
struct Step {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> positions;
  std::span<const std::int32_t> slots;
  std::span<const std::int32_t> selected;
};

// Called after the op that makes `name`, with its value [rows, cols] (valid only during the call). Float activations
// only: not the ids, not the router's choice. What it writes there is what the ops after read.
using Tap = std::function<void(std::string_view name, std::int64_t rows, std::int64_t cols, float* data)>;
// The same of a router's choice: experts by number, [rows, top_k]. What is written there must be experts that it has.
using ChoiceTap = std::function<void(std::string_view name, std::int64_t rows, std::int64_t cols, std::int32_t* data)>;

class Executor {
 public:
  // `pool` and `kv` are borrowed (and stay where they are); several executors (prefill, decode) may share both, one
  // running at a time. Each has its own arena. A failure is out of memory.
  // packed (borrowed, may be null): weights whose products are to be made with integers.
  static Result<std::unique_ptr<Executor>> create(std::shared_ptr<const Program> program, KvCache& kv, ThreadPool& pool,
                                                  Isa isa, const PackedWeights* packed = nullptr);
  // A decoder's step. Token ids are already checked against the vocabulary, positions against ctx. A program of static
  // shapes runs with as many tokens as it is made for and one row selected. Returns the logits,
  // [selected, vocab], valid until the next run.
  // Nothing is selected: the ops behind select_rows are skipped, the result is empty.
  std::span<const float> run(const Step& step);
  // Any other program: `inputs` in the order and of the size that the program's inputs have.
  void run(std::span<const std::span<const std::byte>> inputs);
  // Output `index` (Program::outputs), valid until the next run.
  [[nodiscard]] std::span<const std::byte> output(std::size_t index) const;
  // With a tap, ops run one by one: the same bits, slower.
  void set_tap(Tap tap, ChoiceTap choices = {}) {
    tap_ = std::move(tap);
    choice_tap_ = std::move(choices);
  }
  // Adds to it (borrowed) what each op takes, until another one or null is set.
  void set_profile(Profile* profile);
  [[nodiscard]] const Program& program() const { return *program_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // arena and scratch

 private:
  struct Bound;  // an op with its operands resolved
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* p) const;
  };
  Executor();
  void form_groups(const Program& program);
  void look_ahead();
  void tap(const Bound& bound) const;
  void execute(const RowInfo& rows, bool resized);

 public:
  ~Executor();

 private:
  std::shared_ptr<const Program> program_;
  std::vector<Bound> bound_;
  std::unique_ptr<std::byte, Unmap> memory_{nullptr, Unmap{0}};  // the arena, then the scratch
  std::span<std::byte> scratch_;
  std::size_t bytes_ = 0;
  ThreadPool* pool_ = nullptr;
  const KvCache* kv_ = nullptr;
  std::int64_t tokens_ = 0, selected_ = 0;  // rows the operands are set to
  Tap tap_;
  ChoiceTap choice_tap_;
  Profile* profile_ = nullptr;
};

}  // namespace knapsack
