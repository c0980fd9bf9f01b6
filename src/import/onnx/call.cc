#include "import/onnx/call.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/evaluate.h"
#include "graph/shape.h"
#include "tensor/half.h"

namespace knapsack::onnx {
namespace {

constexpr std::int64_t most_numbers = 1 << 16;  // of an input that becomes an attribute

const Value& nothing() {
  static const Value value{.name = "nothing", .dims = {}};
  return value;
}

std::int64_t integer_at(const Weight& weight, std::int64_t i) {
  const std::byte* data = weight.slabs.front();
  switch (weight.dtype) {
    case DType::I64:
      return load_unaligned<std::int64_t>(data + i * 8);
    case DType::I32:
      return load_unaligned<std::int32_t>(data + i * 4);
    case DType::I16:
      return load_unaligned<std::int16_t>(data + i * 2);
    case DType::I8:
      return load_unaligned<std::int8_t>(data + i);
    default:
      return load_unaligned<std::uint8_t>(data + i) != 0 ? 1 : 0;
  }
}

bool whole(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 || dtype == DType::I8 ||
         dtype == DType::BOOL;
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(T));
}

// Casting what does not fit is undefined; the nearest that does is taken.
template <class T>
T fitting(double number) {
  if (!(number > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
  if (number >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(number);
}

}  // namespace

std::vector<std::byte> bytes_of(const std::vector<std::int64_t>& numbers) {
  std::vector<std::byte> bytes;
  bytes.reserve(numbers.size() * sizeof(std::int64_t));
  for (const std::int64_t each : numbers) append(bytes, each);
  return bytes;
}

std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes;
  bytes.reserve(numbers.size() * static_cast<std::size_t>(format(dtype).block_bytes));
  for (const double x : numbers) {
    if (dtype == DType::F32) append(bytes, static_cast<float>(x));
    if (dtype == DType::F16) append(bytes, float_to_half(static_cast<float>(x)));
    if (dtype == DType::BF16) append(bytes, float_to_bf16(static_cast<float>(x)));
    if (dtype == DType::F64) append(bytes, x);
    if (dtype == DType::I64) append(bytes, fitting<std::int64_t>(x));
    if (dtype == DType::I32) append(bytes, fitting<std::int32_t>(x));
    if (dtype == DType::I16) append(bytes, fitting<std::int16_t>(x));
    if (dtype == DType::I8) append(bytes, fitting<std::int8_t>(x));
    if (dtype == DType::BOOL) append(bytes, static_cast<std::uint8_t>(x != 0 ? 1 : 0));
  }
  return bytes;
}

void Call::arity(std::size_t least, std::size_t most) {
  while (!inputs_.empty() && inputs_.back() < 0) inputs_.pop_back();  // optional ones may be left out or be ""
  if (inputs_.size() < least || inputs_.size() > most)
    broken("takes {} to {} inputs, has {}", least, most, inputs_.size());
  for (std::size_t i = 0; i < std::min(least, inputs_.size()); ++i)
    if (inputs_[i] < 0) broken("needs its input {}", i);
  if (node_.outputs.empty()) broken("has no output");
}

Ref Call::in(std::size_t i) {
  if (!given(i)) broken("needs its input {}", i);
  return given(i) ? inputs_[i] : -1;
}

const Value& Call::value_of(Ref ref) { return ref < 0 ? nothing() : importer_.value(ref); }
const Value& Call::value(std::size_t i) { return value_of(in(i)); }

const OnnxTensor* Call::raw(std::size_t i) {
  const Ref ref = in(i);
  return ref < 0 ? nullptr : importer_.entry(ref).raw;
}

std::vector<std::int64_t> Call::numbers(std::size_t i, std::string_view what) {
  const Value& v = value(i);
  if (failed()) return {};
  if (v.kind != ValueKind::constant) {
    refuse("its {} ('{}') must be known when it is imported, and is computed from what the model is given", what,
           v.name);
    return {};
  }
  if (!whole(v.dtype)) broken("its {} must be whole numbers, not {}", what, name(v.dtype));
  if (v.dims.size() > 1) broken("its {} must be a list, not {}", what, dims_text(v.dims));
  if (v.elements() > most_numbers) broken("its {} are {} numbers", what, v.elements());
  std::vector<std::int64_t> out;
  if (failed()) return out;
  out.reserve(static_cast<std::size_t>(v.elements()));
  for (std::int64_t k = 0; k < v.elements(); ++k) out.push_back(integer_at(*v.weight, k));
  return out;
}

std::int64_t Call::number(std::size_t i, std::string_view what) {
  const auto all = numbers(i, what);
  if (!failed() && all.size() != 1) broken("needs one number as its {}, found {}", what, all.size());
  return failed() ? 0 : all.front();
}

std::vector<double> Call::reals(std::size_t i, std::string_view what) {
  const Value& v = value(i);
  if (!failed() && whole(v.dtype)) {
    const auto all = numbers(i, what);
    return {all.begin(), all.end()};
  }
  if (failed()) return {};
  if (v.kind != ValueKind::constant) {
    refuse("its {} ('{}') must be known when it is imported, and is computed from what the model is given", what,
           v.name);
    return {};
  }
  if (v.dims.size() > 1 || v.elements() > most_numbers) {
    broken("its {} must be a list, not {}", what, dims_text(v.dims));
    return {};
  }
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(v.elements()));
  for (std::int64_t k = 0; k < v.elements(); ++k) {
    if (v.dtype == DType::F64) {
      out.push_back(load_unaligned<double>(v.weight->slabs.front() + k * 8));
      continue;
    }
    float x = 0;
    format(v.dtype).decode(v.weight->slabs.front() + k * format(v.dtype).block_bytes, &x, 1);
    out.push_back(static_cast<double>(x));
  }
  return out;
}

double Call::real(std::size_t i, std::string_view what) {
  const auto all = reals(i, what);
  if (!failed() && all.size() != 1) broken("needs one number as its {}, found {}", what, all.size());
  return failed() ? 0 : all.front();
}

const OnnxAttribute* Call::attribute(std::string_view name, OnnxAttributeType type) {
  asked_.emplace(name);
  const OnnxAttribute* found = node_.attribute(name);
  if (found == nullptr) return nullptr;
  if (!found->ref.empty() || found->type != type) {
    broken("its attribute {} is {}, expected {}", name, onnx_attribute_type_name(found->type),
           onnx_attribute_type_name(type));
    return nullptr;
  }
  return found;
}

std::int64_t Call::i(std::string_view name, std::int64_t otherwise) {
  const OnnxAttribute* found = attribute(name, OnnxAttributeType::i);
  return found != nullptr ? found->i : otherwise;
}

double Call::f(std::string_view name, float otherwise) {
  const OnnxAttribute* found = attribute(name, OnnxAttributeType::f);
  const float value = found != nullptr ? found->f : otherwise;
  if (!std::isfinite(value)) broken("its attribute {} is not finite", name);
  return static_cast<double>(value);
}

std::string Call::s(std::string_view name, std::string_view otherwise) {
  const OnnxAttribute* found = attribute(name, OnnxAttributeType::s);
  return found != nullptr ? found->s : std::string(otherwise);
}

std::vector<std::int64_t> Call::ints(std::string_view name) {
  const OnnxAttribute* found = attribute(name, OnnxAttributeType::ints);
  if (found == nullptr) return {};
  if (std::ssize(found->ints) > most_numbers) broken("its attribute {} has {} numbers", name, found->ints.size());
  return found->ints;
}

void Call::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names) asked_.emplace(each);
}

std::int64_t Call::choice(std::string_view name, std::string_view otherwise,
                          std::initializer_list<std::string_view> known) {
  const std::string given = s(name, otherwise);
  std::int64_t number = 0;
  std::string all;
  for (const std::string_view each : known) {
    if (each == given) return number;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", each);
    ++number;
  }
  refuse("{}='{}'; known are {}", name, given, all);
  return 0;
}

std::int64_t Call::axis_of(std::int64_t axis, std::int64_t rank_of) {
  if (axis < -rank_of || axis >= rank_of) broken("has axis {} of {}", axis, rank_of);
  return failed() ? 0 : axis < 0 ? axis + rank_of : axis;
}

std::vector<std::int64_t> Call::axes_of(std::vector<std::int64_t> axes, std::int64_t rank_of) {
  for (std::int64_t& each : axes) each = axis_of(each, rank_of);
  return axes;
}

std::string Call::base_name() const {
  for (const std::string& each : node_.outputs)
    if (!each.empty()) return each;
  return node_.name;
}

bool Call::all_known() {
  for (const OnnxAttribute& each : node_.attributes)
    if (!asked_.contains(each.name)) refuse("its attribute {} is not known", each.name);
  return !failed();
}

Ref Call::emitted(const std::string& name, Op op, const std::vector<Ref>& inputs, Attrs attrs) {
  auto made = importer_.emit(op, inputs, std::move(attrs), name);
  if (made) return made->front();
  error_ = made.error();
  return -1;
}

Ref Call::part(std::string_view suffix, Op op, std::vector<Ref> inputs, Attrs attrs) {
  if (failed() || std::find(inputs.begin(), inputs.end(), -1) != inputs.end()) return -1;
  return emitted(fmt::format("{}.{}", base_name(), suffix), op, inputs, std::move(attrs));
}

Ref Call::output(std::size_t output, Op op, std::vector<Ref> inputs, Attrs attrs) {
  if (failed() || !all_known() || std::find(inputs.begin(), inputs.end(), -1) != inputs.end()) return -1;
  return emitted(wanted(output) ? node_.outputs[output] : fmt::format("{}.{}", base_name(), output), op, inputs,
                 std::move(attrs));
}

void Call::make(Op op, std::vector<Ref> inputs, Attrs attrs) {
  if (failed()) return;
  if (std::find(inputs.begin(), inputs.end(), -1) != inputs.end()) {
    broken("leaves out an input that it needs");
    return;
  }
  if (!all_known()) return;
  const std::string name = node_.outputs.front().empty() ? base_name() : node_.outputs.front();
  auto made = importer_.emit(op, inputs, std::move(attrs), name);
  if (made) {
    bind(*made);
  } else {
    error_ = made.error();
  }
}

void Call::make(Ref ref) {
  if (failed()) return;
  CHECK(ref >= 0);
  if (all_known()) bind({ref});
}

void Call::make(const std::vector<Ref>& outputs) {
  if (!failed() && all_known()) bind(outputs);
}

void Call::bind(const std::vector<Ref>& made) {
  for (std::size_t k = 0; k < node_.outputs.size() && !failed(); ++k) {
    if (node_.outputs[k].empty()) continue;
    auto defined = k < made.size() && made[k] >= 0 ? importer_.define(node_.outputs[k], made[k])
                                                   : importer_.define_missing(node_, k);
    if (!defined) error_ = defined.error();
  }
}

Ref Call::constant(DType dtype, std::vector<std::int64_t> dims, std::vector<std::byte> bytes) {
  if (failed()) return -1;
  auto made = importer_.constant(base_name(), dtype, std::move(dims), std::move(bytes));
  if (made) return *made;
  error_ = made.error();
  return -1;
}

Ref Call::constant(const OnnxTensor& tensor) {
  if (failed()) return -1;
  auto made = importer_.constant(tensor, base_name());
  if (made) return *made;
  error_ = made.error();
  return -1;
}

Ref Call::scalar(DType dtype, double number) { return constant(dtype, {}, bytes_of(dtype, {number})); }

Ref Call::once(const std::string& key, const std::function<Ref()>& make) {
  if (failed()) return -1;
  if (const Ref known = importer_.common(key); known >= 0) return known;
  const Ref made = make();
  if (!failed()) importer_.common(key) = made;
  return made;
}

Ref Call::cast(std::string_view suffix, Ref ref, DType to) {
  if (failed() || ref < 0 || value_of(ref).dtype == to) return ref;
  return part(suffix, Op::Cast, {ref}, Attrs().set(Attr::to, static_cast<std::int64_t>(to)));
}

}  // namespace knapsack::onnx
