#include "program/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/clock.h"

namespace knapsack {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// What is read ahead of a share, and the tokens of a step for which it pays: a tenth of a usual L2 is read in the few
// microseconds that there are, and with more tokens products are not held up by memory.
constexpr std::int64_t ahead_bytes = 48 << 10;
constexpr std::int64_t few_tokens = 4;
constexpr std::int64_t small_bytes = 32 << 10;  // norms and biases

std::size_t aligned(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

// An op whose operands are resolved. Only the row counts of activations change between steps.
struct Executor::Bound {
  const Kernel* kernel = nullptr;
  const ProgramOp* op = nullptr;
  Rows rows = Rows::tokens;  // of its result; an op without rows is skipped
  std::size_t group = 1;     // ops from this one on that run together
  bool before = false;       // it is the first of its group and makes the activation that the others read
  bool after = false;        // it is the last of its group and adds to the result of the one before it
  ReadAhead ahead{};         // of the first of products: what comes after them, up to the next ones
  std::vector<Operand> in{}, out{};
  std::vector<Rows> in_rows{}, out_rows{};

  // Where lies what says how it is called, and its weights that are small.
  void add_to(std::vector<std::span<const std::byte>>& memory) const {
    const auto add = [&](const auto& values) { memory.push_back(std::as_bytes(std::span(values))); };
    const auto add_one = [&](const auto& value) { memory.push_back(std::as_bytes(std::span(&value, 1))); };
    add_one(*this);
    add(in), add(out), add(in_rows), add(out_rows);
    add(op->attrs.entries());
    for (const Operand& operand : in) {
      if (operand.packed != nullptr) add_one(*operand.packed);
      if (operand.weight == nullptr) continue;
      const Weight& weight = *operand.weight;
      add_one(weight), add(weight.slabs);
      if (operand.packed == nullptr && weight.bytes() <= small_bytes)
        memory.emplace_back(weight.slab(0), static_cast<std::size_t>(weight.bytes()));
    }
  }

  void set_rows(std::int64_t tokens, std::int64_t selected) {
    const auto set = [&](std::vector<Operand>& operands, const std::vector<Rows>& domains) {
      for (std::size_t i = 0; i < operands.size(); ++i)
        if (domains[i] != Rows::fixed) operands[i].rows = domains[i] == Rows::tokens ? tokens : selected;
    };
    set(in, in_rows);
    set(out, out_rows);
  }
};

Executor::Executor() = default;
Executor::~Executor() = default;

void Executor::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

Result<std::unique_ptr<Executor>> Executor::create(std::shared_ptr<const Program> program, KvCache& kv,
                                                   ThreadPool& pool, Isa isa, const PackedWeights* packed) {
  std::unique_ptr<Executor> executor(new Executor());
  executor->pool_ = &pool;
  executor->kv_ = &kv;
  const KernelTable& kernels = KernelTable::get(isa);
  const Program& p = *program;
  CHECK(p.fixed_ctx == 0 || p.fixed_ctx == kv.ctx());

  // Operands before there is memory: enough for kernels to say how much scratch they need.
  std::size_t scratch = 0;
  for (const ProgramOp& op : p.ops) {
    Bound bound{.kernel = &kernels[op.op], .op = &op};
    CHECK(bound.kernel->run != nullptr);
    const auto bind = [&](int number, std::vector<Operand>& operands, std::vector<Rows>& rows) {
      const Slot& slot = p.slots[static_cast<std::size_t>(number)];
      Operand operand{.rows = slot.rows == Rows::fixed ? slot.fixed_rows() : 0, .cols = slot.cols};
      if (op_info(op.op).primitive || op.op == Op::kv_read) {
        operand.dtype = slot.dtype;
        operand.dims = slot.dims;
        operand.transposed = slot.transposed;
      }
      if (slot.kind == SlotKind::weight) {
        operand.weight = p.weights[static_cast<std::size_t>(slot.index)].get();
        CHECK(!operand.weight->slabs.empty());
        // What is packed of a weight are the rows that plain products take of each head.
        if (packed != nullptr && (op.op != Op::head_linear || op.attrs.i(Attr::transposed) == 0)) {
          operand.packed = packed->find(operand.weight);
          operand.cold =
              std::find(packed->left().begin(), packed->left().end(), operand.weight) != packed->left().end();
        }
      } else if (slot.kind == SlotKind::state) {
        operand.state = &kv.state(slot.index);
        CHECK(operand.state->cols == slot.cols);
      }
      operands.push_back(operand);
      rows.push_back(slot.rows);
      if (operand.state != nullptr && operand.state->channel_first)
        bound.kernel = &KernelTable::get(Isa::scalar)[op.op];
    };
    for (const int slot : op.in) bind(slot, bound.in, bound.in_rows);
    for (const int slot : op.out) bind(slot, bound.out, bound.out_rows);
    bound.rows = p.slots[static_cast<std::size_t>(op.out[0])].rows;
    bound.set_rows(p.max_tokens, p.max_selected);
    if (bound.kernel->scratch_bytes != nullptr) {
      const OpCall shape{.in = bound.in, .out = bound.out, .attrs = &op.attrs, .pool = &pool};
      scratch = std::max(scratch, bound.kernel->scratch_bytes(shape, kv.ctx(), pool.size()));
    }
    executor->bound_.push_back(std::move(bound));
  }

  const std::size_t arena = aligned(std::max<std::size_t>(p.arena_bytes, 1), 64);
  executor->bytes_ = aligned(arena + scratch, 64);
  void* memory = mmap(nullptr, executor->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return out_of_resource("a step of {} tokens needs {} MiB of working memory, which is not to be had", p.max_tokens,
                           ((executor->bytes_ - 1) >> 20) + 1);  // rounded up, so never 0
  if (executor->bytes_ >= huge_page) madvise(memory, executor->bytes_, MADV_HUGEPAGE);
  executor->memory_ = {static_cast<std::byte*>(memory), Unmap{executor->bytes_}};
  executor->scratch_ = {executor->memory_.get() + arena, executor->bytes_ - arena};

  std::byte* base = executor->memory_.get();
  for (Bound& bound : executor->bound_) {
    const auto place = [&](std::vector<Operand>& operands, const std::vector<int>& slots) {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const Slot& slot = p.slots[static_cast<std::size_t>(slots[i])];
        if (slot.kind == SlotKind::activation) operands[i].data = base + slot.offset;
      }
    };
    place(bound.in, bound.op->in);
    place(bound.out, bound.op->out);
  }
  executor->form_groups(p);
  executor->look_ahead();
  executor->program_ = std::move(program);
  return executor;
}

// Ops that follow each other and read the same activation first, where their kernel wants them together, and the
// row-wise op that makes this activation, where it comes just before. No value dies between them but what that op
// reads, and of that nothing is overwritten before all rows are made; so running them as one overwrites nothing.
// Or one op and an add of its result, where nothing else reads that; its kernel says whether its input, which is dead
// when the sum is written, may be overwritten.
void Executor::form_groups(const Program& program) {
  const auto call = [](const Bound& bound) { return OpCall{.in = bound.in, .out = bound.out}; };
  const auto joins = [&](const Bound& first, const Bound& next) {
    return first.kernel->run_group != nullptr && next.kernel == first.kernel && next.op->in[0] == first.op->in[0] &&
           first.kernel->joins(call(first), call(next));
  };
  std::vector<int> readers(program.slots.size());
  for (const ProgramOp& op : program.ops)
    for (const int slot : op.in) ++readers[static_cast<std::size_t>(slot)];
  for (const int slot : program.outputs) ++readers[static_cast<std::size_t>(slot)];
  const auto adds = [&](const Bound& first, const Bound& next) {
    const int result = first.op->out[0];
    return first.kernel->run_group != nullptr && first.kernel->adds != nullptr && next.op->op == Op::add &&
           (next.op->in[0] == result || next.op->in[1] == result) && readers[static_cast<std::size_t>(result)] == 1 &&
           first.kernel->adds(call(first), call(next));
  };
  for (std::size_t i = 0; i < bound_.size(); i += bound_[i].group) {
    Bound& first = bound_[i];
    if (i + 1 < bound_.size()) {
      const Bound& next = bound_[i + 1];
      first.before = first.kernel->row_wise && joins(next, next) && next.op->in[0] == first.op->out[0];
    }
    const std::size_t begin = first.before ? i + 1 : i;
    std::size_t end = begin + 1;
    while (end < bound_.size() && end - begin < group_calls && joins(bound_[begin], bound_[end])) ++end;
    if (end == begin + 1 && end < bound_.size() && adds(bound_[begin], bound_[end])) bound_[end++].after = true;
    first.group = end - i;
  }
}

// After products of few tokens, which the memory holds up, come small ops that one thread makes, from operands that the
// weights have swept from the caches; the memory is idle meanwhile. So while the others finish, the caller asks for
// what the small ops look at, and the workers read what their shares of the next products begin with.
void Executor::look_ahead() {
  Bound* last = nullptr;  // the products before
  for (std::size_t i = 0; i < bound_.size(); i += bound_[i].group) {
    const std::span<Bound> group(&bound_[i], bound_[i].group);
    const std::size_t before = group[0].before ? 1 : 0;
    const std::span<Bound> products = group.subspan(before, group.size() - before - (group.back().after ? 1 : 0));
    if (last != nullptr)
      for (const Bound& bound : group) bound.add_to(last->ahead.small);
    if (products[0].kernel->run_group == nullptr || products[0].in[1].packed == nullptr) continue;
    if (last != nullptr) {
      std::vector<const PackedMatrix*> weights;
      for (const Bound& bound : products) weights.push_back(bound.in[1].packed);
      for (int thread = 0; thread < pool_->size(); ++thread)
        last->ahead.shares.push_back(packed_share(weights, thread, pool_->size(), ahead_bytes));
    }
    last = &group[0];
  }
}

void Executor::set_profile(Profile* profile) {
  profile_ = profile;
  if (profile != nullptr) profile->ops.resize(bound_.size());
}

std::span<const float> Executor::run(const Step& step) {
  const Program& p = *program_;
  const auto tokens = static_cast<std::int64_t>(step.ids.size());
  const auto selected = static_cast<std::int64_t>(step.selected.size());
  CHECK(p.ids >= 0 && tokens <= p.max_tokens && selected <= p.max_selected);
  const Slot& ids = p.slots[static_cast<std::size_t>(p.ids)];
  CHECK(ids.rows != Rows::fixed || (tokens == p.max_tokens && selected == 1));
  CHECK(step.positions.size() == step.ids.size() && step.slots.size() == step.ids.size());
  for (const std::int32_t row : step.selected) CHECK(row >= 0 && row < tokens);
  for (const std::int32_t position : step.positions) CHECK(position >= 0 && position < kv_->ctx());
  for (const std::int32_t slot : step.slots) CHECK(slot >= 0 && slot < kv_->slots());
  if (tokens == 0) return {};

  const bool resized = tokens != tokens_ || selected != selected_;
  tokens_ = tokens;
  selected_ = selected;
  const RowInfo rows{.positions = step.positions, .slots = step.slots, .selected = step.selected};
  std::memcpy(memory_.get() + ids.offset, step.ids.data(), step.ids.size_bytes());
  execute(rows, resized);
  const Slot& logits = p.slots[static_cast<std::size_t>(p.logits)];
  return {reinterpret_cast<const float*>(memory_.get() + logits.offset),
          static_cast<std::size_t>(selected * logits.cols)};
}

void Executor::run(std::span<const std::span<const std::byte>> inputs) {
  const Program& p = *program_;
  CHECK(p.ids < 0 && inputs.size() == p.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Slot& slot = p.slots[static_cast<std::size_t>(p.inputs[i])];
    CHECK(static_cast<std::int64_t>(inputs[i].size()) == slot.fixed_rows() * row_bytes(slot.dtype, slot.cols));
    std::memcpy(memory_.get() + slot.offset, inputs[i].data(), inputs[i].size());
  }
  execute({}, false);
}

std::span<const std::byte> Executor::output(std::size_t index) const {
  const Slot& slot = program_->slots[static_cast<std::size_t>(program_->outputs[index])];
  const std::int64_t rows = slot.rows == Rows::tokens     ? tokens_
                            : slot.rows == Rows::selected ? selected_
                                                          : slot.fixed_rows();
  return {memory_.get() + slot.offset, static_cast<std::size_t>(rows * row_bytes(slot.dtype, slot.cols))};
}

void Executor::execute(const RowInfo& rows, bool resized) {
  // A tap may overwrite a value before the next op reads it; so none run together then.
  const bool apart = static_cast<bool>(tap_);
  for (std::size_t i = 0, next = 0; i < bound_.size(); i = next) {
    const std::span<Bound> group(&bound_[i], apart ? 1 : bound_[i].group);
    next = i + group.size();
    for (Bound& bound : group)
      if (resized) bound.set_rows(tokens_, selected_);
    if (group[0].rows == Rows::selected && selected_ == 0) continue;
    if (tokens_ <= few_tokens && !apart && !group[0].ahead.shares.empty()) pool_->read_ahead(&group[0].ahead);
    std::optional<Stopwatch> since;  // a clock is read only where someone asks
    if (profile_ != nullptr) since.emplace();
    std::array<OpCall, group_calls + 2> calls;
    for (std::size_t j = 0; j < group.size(); ++j)
      calls[j] = {.in = group[j].in,
                  .out = group[j].out,
                  .attrs = &group[j].op->attrs,
                  .rows = &rows,
                  .pool = pool_,
                  .scratch = scratch_};
    const std::size_t before = !apart && group[0].before ? 1 : 0;
    const std::size_t after = !apart && group.back().after ? 1 : 0;
    const std::span<const OpCall> grouped(calls.data() + before, group.size() - before - after);
    if (group.size() > 1) {
      group[before].kernel->run_group({.before = before == 1 ? group[0].kernel->run : nullptr,
                                       .before_call = calls.data(),
                                       .calls = grouped,
                                       .after = after == 1 ? &calls[group.size() - 1] : nullptr});
    } else {
      group[0].kernel->run(calls[0]);
    }
    if (since) profile_->add(i + before, group[before].op->op, grouped, since->ms());
    if (apart) tap(group[0]);
  }
  pool_->read_ahead(nullptr);
}

void Executor::tap(const Bound& bound) const {
  for (std::size_t i = 0; i < bound.out.size(); ++i) {
    const Slot& slot = program_->slots[static_cast<std::size_t>(bound.op->out[i])];
    const Operand& value = bound.out[i];
    if (slot.kind == SlotKind::activation && slot.dtype == DType::F32)
      tap_(slot.name, value.rows, value.cols, value.f32());
    if (choice_tap_ && bound.op->op == Op::router && slot.dtype == DType::I32)
      choice_tap_(slot.name, value.rows, value.cols, value.i32());
  }
}

}  // namespace knapsack
