#include "program/profile.h"

#include <algorithm>

#include "kernels/packed.h"

namespace knapsack {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

double read_bytes(const Operand& operand) {
  return number(operand.packed != nullptr ? packed_bytes(*operand.weight) : operand.weight->bytes());
}

double activation_bytes(const OpCall& call) {
  double bytes = 0;
  const auto add = [&](const Operand& operand) {
    if (operand.data != nullptr) bytes += number(operand.rows * row_bytes(operand.dtype, operand.cols));
  };
  std::for_each(call.in.begin(), call.in.end(), add);
  std::for_each(call.out.begin(), call.out.end(), add);
  return bytes;
}

// Every weight once, every row of it against every row of activations.
void add_products(const OpCall& call, OpWork& work) {
  for (const Operand& operand : call.in) {
    if (operand.weight == nullptr) continue;
    work.bytes += read_bytes(operand);
    if (operand.weight->shape.size() == 2)
      work.operations += 2 * number(call.out[0].rows) * number(operand.weight->elements());
  }
}

// Some rows of each head's part of the weight.
void add_head_products(const OpCall& call, OpWork& work) {
  const std::int64_t rows = call.attrs->i(Attr::heads) * call.attrs->i(Attr::rows);
  const Weight& w = *call.in[1].weight;
  work.bytes += number(rows * w.row_size());
  work.operations += 2 * number(call.out[0].rows) * number(rows * w.cols());
}

void add_experts(const OpCall& call, OpWork& work) {
  const std::span<const std::int32_t> ids{call.in[1].i32(),
                                          static_cast<std::size_t>(call.in[1].rows * call.in[1].cols)};
  std::vector<bool> used(static_cast<std::size_t>(call.in[3].weight->shape[0]));
  for (const std::int32_t id : ids) used[static_cast<std::size_t>(id)] = true;
  const double share = number(std::count(used.begin(), used.end(), true)) / number(std::ssize(used));
  for (const Operand& operand : call.in) {
    if (operand.weight == nullptr) continue;
    work.bytes += read_bytes(operand) * share;
    work.operations += 2 * number(std::ssize(ids)) * number(operand.weight->elements()) / number(std::ssize(used));
  }
}

void add_attention(const OpCall& call, OpWork& work) {
  const StateView& k = *call.in[1].state;
  const StateView& v = *call.in[2].state;
  const std::int64_t row = row_bytes(k.dtype, k.cols) + (&k == &v ? 0 : row_bytes(v.dtype, v.cols));
  const std::int64_t head_dim = call.attrs->i(Attr::head_dim);
  const std::int64_t pair = call.attrs->i(Attr::heads) * (head_dim + call.attrs->i(Attr::v_dim, head_dim));
  const std::int64_t window = call.attrs->i(Attr::window);
  const auto first = [&](std::int64_t p) { return window > 0 ? std::max<std::int64_t>(0, p - window + 1) : 0; };
  const RowInfo& rows = *call.rows;
  for (std::size_t i = 0; i < rows.positions.size();) {
    const std::int64_t begin = first(rows.positions[i]);
    std::int64_t end = 0;
    const std::int32_t slot = rows.slots[i];
    for (; i < rows.positions.size() && rows.slots[i] == slot; ++i) {
      const std::int64_t p = rows.positions[i];
      work.operations += 2 * number(pair * (p + 1 - first(p)));
      end = std::max(end, p + 1);
    }
    work.bytes += number((end - begin) * row);
  }
}

}  // namespace

OpWork work_of(Op op, const OpCall& call) {
  OpWork work{.bytes = activation_bytes(call)};
  if (op == Op::embed) {
    work.bytes += number(call.out[0].rows * call.in[1].weight->row_size());
  } else if (op == Op::head_linear) {
    add_head_products(call, work);
  } else if (op == Op::moe) {
    add_experts(call, work);
  } else if (op == Op::attention) {
    add_attention(call, work);
  } else if (op_info(op).cls == OpClass::matrix) {
    add_products(call, work);
  } else if (op == Op::kv_write) {
    work.bytes += number(call.in[0].rows * row_bytes(call.in[1].state->dtype, call.in[0].cols));
  }
  return work;
}

void Profile::add(std::size_t index, Op op, std::span<const OpCall> calls, double ms) {
  double bytes = 0;
  for (const OpCall& call : calls) bytes += work_of(op, call).bytes;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Entry& entry = ops[index + i];
    const OpWork work = work_of(op, calls[i]);
    ++entry.calls;
    entry.ms += calls.size() == 1 ? ms : ms * work.bytes / bytes;
    entry.work.bytes += work.bytes;
    entry.work.operations += work.operations;
    entry.packed =
        op_info(op).cls == OpClass::matrix &&  // an embedding is looked up in the weight as it is stored
        std::any_of(calls[i].in.begin(), calls[i].in.end(), [](const Operand& in) { return in.packed != nullptr; });
  }
}

}  // namespace knapsack
