#include "tensor/weight.h"

#include <cstring>
#include <utility>

namespace knapsack {

std::shared_ptr<const Weight> owned_weight(std::string name, DType dtype, std::vector<std::int64_t> shape,
                                           std::vector<std::byte> bytes) {
  auto buffer = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  Weight weight;
  weight.name = std::move(name);
  weight.dtype = dtype;
  weight.shape = std::move(shape);
  weight.slabs = {buffer->data()};
  weight.owners = {buffer};
  CHECK(weight.bytes() == std::ssize(*buffer));
  return std::make_shared<const Weight>(std::move(weight));
}

std::shared_ptr<const Weight> f32_weight(std::string name, std::vector<std::int64_t> shape,
                                         const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return owned_weight(std::move(name), DType::F32, std::move(shape), std::move(bytes));
}

}  // namespace knapsack
