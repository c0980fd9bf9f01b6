// Shape rules of ONNX operators, for static shapes. `numbers` are the axes and sizes that ONNX has as attributes or
// constant inputs; every axis is counted from the front.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "graph/decompose/primitive.h"

namespace knapsack {
namespace {

using Dims = std::vector<std::int64_t>;
using Numbers = std::span<const std::int64_t>;
using Inputs = std::span<const OnnxShape* const>;
using Outputs = Result<std::vector<OnnxShape>>;

struct Row {
  std::string_view name;
  OpClass cls;
};
constexpr std::array rows{
#define KNAP_ONNX(name, cls) Row{#name, OpClass::cls},
#include "graph/decompose/operators.inc"
#undef KNAP_ONNX
};

std::size_t at(std::int64_t axis) { return static_cast<std::size_t>(axis); }

bool any_dynamic(Inputs in) {
  return std::any_of(in.begin(), in.end(), [](const OnnxShape* each) { return each->dynamic; });
}

Outputs one(OnnxType type, Dims dims, Inputs in) {
  return std::vector<OnnxShape>{{type, std::move(dims), any_dynamic(in)}};
}

Result<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return bad_input("{} and {} do not broadcast", x, y);
    out[out.size() - 1 - i] = std::max(x, y);
  }
  return out;
}

Result<void> expect(bool holds, std::string_view rule) {
  if (!holds) return bad_input("{}", rule);
  return {};
}

Result<void> expect_axis(Numbers n, std::size_t count, const Dims& dims) {
  return expect(n.size() >= count && n[0] >= 0 && at(n[0]) < dims.size(), "expected an axis of the first input");
}

Outputs mat_mul(Inputs in) {
  const Dims& a = in[0]->dims;
  const Dims& b = in[1]->dims;
  TRY_VOID(expect(in[0]->type == in[1]->type, "both sides must have one type"));
  TRY_VOID(expect(a.size() >= 2 && b.size() >= 2 && a.back() == b[b.size() - 2], "inner dimensions differ"));
  TRY(Dims out, broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return one(in[0]->type, std::move(out), in);
}

Outputs binary(Inputs in, bool compares) {
  TRY_VOID(expect(in[0]->type == in[1]->type, "both sides must have one type"));
  TRY(Dims out, broadcast(in[0]->dims, in[1]->dims));
  return one(compares ? OnnxType::boolean : in[0]->type, std::move(out), in);
}

Outputs where(Inputs in) {
  TRY_VOID(expect(in[0]->type == OnnxType::boolean && in[1]->type == in[2]->type,
                  "expected a condition and two of one type"));
  TRY(const Dims both, broadcast(in[1]->dims, in[2]->dims));
  TRY(Dims out, broadcast(in[0]->dims, both));
  return one(in[1]->type, std::move(out), in);
}

Outputs reduce(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 2, in[0]->dims));
  Dims out = in[0]->dims;
  if (n[1] != 0) {
    out[at(n[0])] = 1;
  } else {
    out.erase(out.begin() + n[0]);
  }
  return one(in[0]->type, std::move(out), in);
}

Outputs reshape(Inputs in, Numbers n) {
  OnnxShape out{in[0]->type, {n.begin(), n.end()}, in[0]->dynamic};
  TRY_VOID(expect(out.elements() == in[0]->elements(), "the number of elements changes"));
  return std::vector{std::move(out)};
}

Outputs transpose(Inputs in, Numbers n) {
  const Dims& dims = in[0]->dims;
  std::vector<bool> seen(dims.size(), false);
  TRY_VOID(expect(n.size() == dims.size(), "expected an axis for each dimension"));
  Dims out;
  for (const std::int64_t axis : n) {
    TRY_VOID(expect(axis >= 0 && at(axis) < dims.size() && !seen[at(axis)], "expected each axis once"));
    seen[at(axis)] = true;
    out.push_back(dims[at(axis)]);
  }
  return one(in[0]->type, std::move(out), in);
}

Outputs concat(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 1, in[0]->dims));
  Dims out = in[0]->dims;
  for (const OnnxShape* each : in.subspan(1)) {
    Dims rest = each->dims;
    TRY_VOID(expect(each->type == in[0]->type && rest.size() == out.size(), "inputs differ in type or rank"));
    out[at(n[0])] += rest[at(n[0])];
    rest[at(n[0])] = out[at(n[0])];
    TRY_VOID(expect(rest == out, "inputs differ beside the axis"));
  }
  return one(in[0]->type, std::move(out), in);
}

Outputs slice(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 3, in[0]->dims));
  Dims out = in[0]->dims;
  TRY_VOID(expect(n[1] >= 0 && n[1] < n[2] && n[2] <= out[at(n[0])], "the range is outside of the axis"));
  out[at(n[0])] = n[2] - n[1];
  return one(in[0]->type, std::move(out), in);
}

Outputs split(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 2, in[0]->dims));
  const Numbers sizes = n.subspan(1);
  TRY_VOID(expect(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == in[0]->dims[at(n[0])],
                  "the parts do not add up to the axis"));
  std::vector<OnnxShape> out;
  for (const std::int64_t size : sizes) {
    out.push_back(*in[0]);
    out.back().dims[at(n[0])] = size;
  }
  return out;
}

Outputs unsqueeze(Inputs in, Numbers n) {
  Dims out = in[0]->dims;
  TRY_VOID(expect(n.size() == 1 && n[0] >= 0 && at(n[0]) <= out.size(), "expected a place between the axes"));
  out.insert(out.begin() + n[0], 1);
  return one(in[0]->type, std::move(out), in);
}

Outputs squeeze(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 1, in[0]->dims));
  Dims out = in[0]->dims;
  TRY_VOID(expect(out[at(n[0])] == 1, "the axis is not 1"));
  out.erase(out.begin() + n[0]);
  return one(in[0]->type, std::move(out), in);
}

Outputs expand(Inputs in, Numbers n) {
  const Dims wanted(n.begin(), n.end());
  TRY(const Dims out, broadcast(in[0]->dims, wanted));
  TRY_VOID(expect(out == wanted, "the input is larger than what it is expanded to"));
  return one(in[0]->type, wanted, in);
}

Outputs gather(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 1, in[0]->dims));
  TRY_VOID(expect(in[1]->type == OnnxType::int64, "indices are int64"));
  Dims out = in[0]->dims;
  out.erase(out.begin() + n[0]);
  out.insert(out.begin() + n[0], in[1]->dims.begin(), in[1]->dims.end());
  return one(in[0]->type, std::move(out), in);
}

Outputs gather_elements(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 1, in[0]->dims));
  TRY_VOID(expect(in[1]->type == OnnxType::int64 && in[1]->dims.size() == in[0]->dims.size(),
                  "indices are int64 of the data's rank"));
  return one(in[0]->type, in[1]->dims, in);
}

// The shape of what GatherND takes and ScatterND puts.
Result<Dims> nd_rows(const OnnxShape& data, const OnnxShape& indices) {
  TRY_VOID(expect(indices.type == OnnxType::int64 && !indices.dims.empty() && indices.dims.back() >= 1 &&
                      at(indices.dims.back()) <= data.dims.size(),
                  "indices are int64, no more in a row than the data has dimensions"));
  Dims out(indices.dims.begin(), indices.dims.end() - 1);
  out.insert(out.end(), data.dims.begin() + indices.dims.back(), data.dims.end());
  return out;
}

Outputs scatter(Inputs in, bool elements, Numbers n) {
  TRY_VOID(expect(in[0]->type == in[2]->type, "data and updates differ in type"));
  if (elements) {
    TRY_VOID(expect_axis(n, 1, in[0]->dims));
    TRY_VOID(
        expect(in[1]->type == OnnxType::int64 && in[1]->dims == in[2]->dims && in[1]->dims.size() == in[0]->dims.size(),
               "indices are int64 of the updates' shape"));
  } else {
    TRY(const Dims rows_of, nd_rows(*in[0], *in[1]));
    TRY_VOID(expect(rows_of == in[2]->dims, "the updates are not what the indices name"));
  }
  return std::vector{*in[0]};
}

Outputs top_k(Inputs in, Numbers n) {
  TRY_VOID(expect_axis(n, 2, in[0]->dims));
  OnnxShape values = *in[0];
  TRY_VOID(expect(n[1] >= 1 && n[1] <= values.dims[at(n[0])], "k is outside of the axis"));
  values.dims[at(n[0])] = n[1];
  OnnxShape indices = values;
  indices.type = OnnxType::int64;
  return std::vector{std::move(values), std::move(indices)};
}

struct Arity {
  std::size_t least, most;
};
Arity arity(OnnxOp op) {
  switch (op) {
    case OnnxOp::Where:
    case OnnxOp::ScatterElements:
    case OnnxOp::ScatterND:
      return {3, 3};
    case OnnxOp::Concat:
      return {2, SIZE_MAX};
    case OnnxOp::MatMul:
    case OnnxOp::Add:
    case OnnxOp::Sub:
    case OnnxOp::Mul:
    case OnnxOp::Div:
    case OnnxOp::Pow:
    case OnnxOp::Greater:
    case OnnxOp::LessOrEqual:
    case OnnxOp::Or:
    case OnnxOp::Gather:
    case OnnxOp::GatherElements:
    case OnnxOp::GatherND:
      return {2, 2};
    default:
      return {1, 1};
  }
}

}  // namespace

std::string_view onnx_name(OnnxOp op) { return rows[static_cast<std::size_t>(op)].name; }
OpClass onnx_class(OnnxOp op) { return rows[static_cast<std::size_t>(op)].cls; }

std::string_view onnx_type_name(OnnxType type) {
  switch (type) {
    case OnnxType::float16:
      return "float16";
    case OnnxType::float32:
      return "float32";
    case OnnxType::int64:
      return "int64";
    case OnnxType::boolean:
      return "bool";
  }
  CHECK(false);
}

std::int64_t onnx_type_bytes(OnnxType type) {
  switch (type) {
    case OnnxType::float16:
      return 2;
    case OnnxType::float32:
      return 4;
    case OnnxType::int64:
      return 8;
    case OnnxType::boolean:
      return 1;
  }
  CHECK(false);
}

std::int64_t OnnxShape::elements() const {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

Outputs infer_onnx(OnnxOp op, Numbers numbers, Inputs inputs) {
  const Arity expected = arity(op);
  TRY_VOID(expect(inputs.size() >= expected.least && inputs.size() <= expected.most, "wrong number of inputs"));
  switch (op) {
    case OnnxOp::MatMul:
      return mat_mul(inputs);
    case OnnxOp::Add:
    case OnnxOp::Sub:
    case OnnxOp::Mul:
    case OnnxOp::Div:
    case OnnxOp::Pow:
    case OnnxOp::Or:
      return binary(inputs, false);
    case OnnxOp::Greater:
    case OnnxOp::LessOrEqual:
      return binary(inputs, true);
    case OnnxOp::Where:
      return where(inputs);
    case OnnxOp::ReduceMean:
    case OnnxOp::ReduceSum:
    case OnnxOp::ReduceMax:
      return reduce(inputs, numbers);
    case OnnxOp::Softmax:
      TRY_VOID(expect_axis(numbers, 1, inputs[0]->dims));
      return std::vector{*inputs[0]};
    case OnnxOp::Sqrt:
    case OnnxOp::Sigmoid:
    case OnnxOp::Tanh:
    case OnnxOp::Erf:
    case OnnxOp::Neg:
    case OnnxOp::Sin:
    case OnnxOp::Cos:
      return std::vector{*inputs[0]};
    case OnnxOp::Cast:
      TRY_VOID(expect(numbers.size() == 1 && numbers[0] >= 0 && numbers[0] <= 3, "expected a type"));
      return one(static_cast<OnnxType>(numbers[0]), inputs[0]->dims, inputs);
    case OnnxOp::Reshape:
      return reshape(inputs, numbers);
    case OnnxOp::Transpose:
      return transpose(inputs, numbers);
    case OnnxOp::Concat:
      return concat(inputs, numbers);
    case OnnxOp::Slice:
      return slice(inputs, numbers);
    case OnnxOp::Split:
      return split(inputs, numbers);
    case OnnxOp::Unsqueeze:
      return unsqueeze(inputs, numbers);
    case OnnxOp::Squeeze:
      return squeeze(inputs, numbers);
    case OnnxOp::Expand:
      return expand(inputs, numbers);
    case OnnxOp::Gather:
      return gather(inputs, numbers);
    case OnnxOp::GatherElements:
      return gather_elements(inputs, numbers);
    case OnnxOp::GatherND: {
      TRY(Dims out, nd_rows(*inputs[0], *inputs[1]));
      return one(inputs[0]->type, std::move(out), inputs);
    }
    case OnnxOp::ScatterElements:
      return scatter(inputs, true, numbers);
    case OnnxOp::ScatterND:
      return scatter(inputs, false, numbers);
    case OnnxOp::TopK:
      return top_k(inputs, numbers);
    case OnnxOp::OneHot: {
      TRY_VOID(expect(numbers.size() == 1 && numbers[0] >= 1 && inputs[0]->type == OnnxType::int64,
                      "expected int64 and a depth"));
      Dims out = inputs[0]->dims;
      out.push_back(numbers[0]);
      return one(OnnxType::int64, std::move(out), inputs);
    }
    case OnnxOp::NonZero: {
      // numbers: the most there can be; without data nobody knows how many there are.
      TRY_VOID(expect(numbers.size() == 1 && numbers[0] >= 1 && numbers[0] <= inputs[0]->elements(),
                      "expected how many there can be"));
      return std::vector<OnnxShape>{
          {OnnxType::int64, {static_cast<std::int64_t>(inputs[0]->dims.size()), numbers[0]}, true}};
    }
  }
  CHECK(false);
}

Result<void> verify(const PrimitiveGraph& graph) {
  std::vector<bool> there(graph.tensors.size(), false);
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = graph.tensors[i].kind != ValueKind::computed;
  const auto known = [&](int id) { return id >= 0 && static_cast<std::size_t>(id) < there.size(); };
  for (const PrimitiveNode& node : graph.nodes) {
    const auto fault = [&](std::string_view what) {
      return bad_input("{} ({}): {}", node.name, onnx_name(node.op), what);
    };
    std::vector<const OnnxShape*> inputs;
    for (const int id : node.inputs) {
      if (!known(id) || !there[static_cast<std::size_t>(id)]) return fault("reads what nothing before it has made");
      inputs.push_back(&graph.tensor(id).shape);
    }
    const auto outputs = infer_onnx(node.op, node.numbers, inputs);
    if (!outputs) return fault(outputs.error().message);
    if (outputs->size() != node.outputs.size()) return fault("has another number of outputs than its operator");
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      const int id = node.outputs[i];
      if (!known(id) || there[static_cast<std::size_t>(id)]) return fault("makes what is there already");
      const OnnxShape& made = graph.tensor(id).shape;
      if (made.type != (*outputs)[i].type || made.dims != (*outputs)[i].dims || made.dynamic != (*outputs)[i].dynamic)
        return fault("its output has another shape or type than its operator gives");
      there[static_cast<std::size_t>(id)] = true;
    }
  }
  for (const int id : graph.outputs)
    if (!known(id) || !there[static_cast<std::size_t>(id)])
      return bad_input("an output of the graph is made by nothing");
  return {};
}

}  // namespace knapsack
