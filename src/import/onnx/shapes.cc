// Constants and shape arithmetic: operators whose result is known while importing.
#include <algorithm>
#include <cmath>

#include "graph/evaluate.h"
#include "graph/shape.h"
#include "import/onnx/call.h"

namespace knapsack::onnx {

void constant(Call& call) {
  call.arity(0, 0);
  if (call.node().attributes.size() != 1) call.broken("needs one value, has {}", call.node().attributes.size());
  if (call.failed()) return;
  const OnnxAttribute& value = call.node().attributes.front();
  if (const auto* a = value.name == "value" ? call.attribute("value", OnnxAttributeType::tensor) : nullptr) {
    call.make(call.constant(a->tensors.front()));
  } else if (value.name == "value_int") {
    call.make(call.constant(DType::I64, {}, bytes_of({call.i("value_int", 0)})));
  } else if (value.name == "value_ints") {
    const auto numbers = call.ints("value_ints");
    call.make(call.constant(DType::I64, {std::ssize(numbers)}, bytes_of(numbers)));
  } else if (const auto* x =
                 value.name == "value_float" ? call.attribute("value_float", OnnxAttributeType::f) : nullptr) {
    call.make(call.scalar(DType::F32, static_cast<double>(x->f)));
  } else if (const auto* all =
                 value.name == "value_floats" ? call.attribute("value_floats", OnnxAttributeType::floats) : nullptr) {
    call.make(call.constant(DType::F32, {std::ssize(all->floats)},
                            bytes_of(DType::F32, {all->floats.begin(), all->floats.end()})));
  } else {
    call.refuse("a value of kind '{}'; the nearest form is a tensor", value.name);
  }
}

// A dimension that depends on data counts as the most that it can be.
void shape(Call& call) {
  call.arity(1, 1);
  const std::int64_t rank = call.rank();
  const auto place = [&](std::int64_t x) { return std::clamp<std::int64_t>(x < 0 ? x + rank : x, 0, rank); };
  const bool ranged = call.opset() >= 15;
  const std::int64_t start = ranged ? place(call.i("start", 0)) : 0;
  const std::int64_t end = ranged && call.has("end") ? place(call.i("end", 0)) : rank;
  if (call.failed()) return;
  const auto& dims = call.dims(0);
  const std::vector<std::int64_t> taken(dims.begin() + std::min(start, end), dims.begin() + end);
  call.make(call.constant(DType::I64, {std::ssize(taken)}, bytes_of(taken)));
}

void size(Call& call) {
  call.arity(1, 1);
  call.make(call.constant(DType::I64, {}, bytes_of({call.value(0).elements()})));
}

void constant_of_shape(Call& call) {
  call.arity(1, 1);
  const auto dims = call.numbers(0, "shape");
  Ref value = -1;
  if (const OnnxAttribute* a = call.attribute("value", OnnxAttributeType::tensor)) {
    const OnnxTensor& tensor = a->tensors.front();
    value = call.constant(tensor);
    if (!dtype_from_onnx(tensor.type)) {
      call.refuse("a value of {}: this version has no such type", onnx_type_name(tensor.type));
    } else if (!call.failed() && call.value_of(value).elements() != 1) {
      call.broken("needs one value, has {}", dims_text(tensor.dims));
    }
  } else {
    value = call.scalar(DType::F32, 0);
  }
  if (call.failed()) return;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    for (const std::int64_t each : dims)
      if (each < 0 || each > 1 << 20 || dims.size() > 2)
        call.refuse("makes {}, a value without elements", dims_text(dims));
    call.make(call.constant(call.value_of(value).dtype, dims, {}));
    return;
  }
  const Ref scalar = call.part("value", Op::Reshape, {value}, Attrs().set(Attr::shape, std::vector<std::int64_t>{}));
  call.make(Op::Expand, {scalar}, Attrs().set(Attr::shape, dims));
}

void range(Call& call) {
  call.arity(3, 3);
  const double start = call.real(0, "start");
  const double limit = call.real(1, "limit");
  const double delta = call.real(2, "step");
  const DType dtype = call.value(0).dtype;
  if (delta == 0 || !std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta))
    call.broken("goes from {} to {} by {}", start, limit, delta);
  if (call.failed()) return;
  const double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (count * static_cast<double>(format(dtype).block_bytes) > static_cast<double>(max_evaluated_bytes)) {
    call.refuse("makes {} numbers", count);
    return;
  }
  std::vector<double> numbers;
  numbers.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    numbers.push_back(start + static_cast<double>(i) * delta);
  call.make(call.constant(dtype, {std::ssize(numbers)}, bytes_of(dtype, numbers)));
}

}  // namespace knapsack::onnx
