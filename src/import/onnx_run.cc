#include "import/onnx_run.h"

#include <algorithm>
#include <cstring>

#include "graph/run.h"
#include "graph/shape.h"
#include "import/onnx/call.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

const NpyArray* find(std::span<const NpyArray> arrays, std::string_view name) {
  const auto it = std::find_if(arrays.begin(), arrays.end(), [&](const NpyArray& each) { return each.name == name; });
  return it == arrays.end() ? nullptr : &*it;
}

Result<std::vector<std::byte>> bytes_for(const Value& input, const std::string& name, const NpyArray& array) {
  if (array.shape != input.dims)
    return bad_input("input '{}' is {}, the array of that name {}", name, dims_text(input.dims),
                     dims_text(array.shape));
  std::vector<double> numbers(static_cast<std::size_t>(array.elements()));
  if (array.floats()) {
    std::vector<float> floats(numbers.size());
    array.floats_at(0, floats);
    std::copy(floats.begin(), floats.end(), numbers.begin());
  } else {
    if (input.dtype == DType::I64) {
      std::vector<std::int64_t> whole(numbers.size());
      for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = array.integer_at(static_cast<std::int64_t>(i));
      return onnx::bytes_of(whole);
    }
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>(array.integer_at(static_cast<std::int64_t>(i)));
  }
  return onnx::bytes_of(input.dtype, numbers);
}

}  // namespace

double NamedTensor::at(std::int64_t index) const {
  const std::byte* data = bytes.data() + index * format(dtype).block_bytes;
  switch (dtype) {
    case DType::F64:
      return load_unaligned<double>(data);
    case DType::I64:
      return static_cast<double>(load_unaligned<std::int64_t>(data));
    case DType::I32:
      return load_unaligned<std::int32_t>(data);
    default: {
      float value = 0;
      format(dtype).decode(data, &value, 1);
      return static_cast<double>(value);
    }
  }
}

Result<std::vector<NamedTensor>> run_onnx(const ImportedOnnx& model, std::span<const NpyArray> arrays,
                                          ThreadPool& pool) {
  std::vector<std::vector<std::byte>> inputs;
  inputs.reserve(model.inputs.size());
  for (const std::string& name : model.inputs) {
    const NpyArray* array = find(arrays, name);
    if (array == nullptr) return bad_input("there is no array for the input '{}'", name);
    TRY(auto bytes, bytes_for(model.graph.value(model.graph.find(name)), name, *array));
    inputs.push_back(std::move(bytes));
  }
  TRY(auto made, run_tensors(model.graph, std::vector<std::span<const std::byte>>(inputs.begin(), inputs.end()), pool));
  std::vector<NamedTensor> outputs;
  outputs.reserve(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Value& value = model.graph.value(model.graph.outputs()[i]);
    outputs.push_back(
        {.name = model.outputs[i], .dtype = value.dtype, .dims = value.dims, .bytes = std::move(made[i])});
  }
  return outputs;
}

OnnxPins pins_from(std::span<const NpyArray> arrays, const OnnxModel& model) {
  OnnxPins pins;
  for (const OnnxValue& input : model.graph.inputs)
    if (const NpyArray* array = find(arrays, input.name)) pins.shapes.emplace(input.name, array->shape);
  return pins;
}

}  // namespace knapsack
