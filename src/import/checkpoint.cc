#include "import/checkpoint.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <unordered_set>

namespace knapsack {
namespace {

// A broken config can ask for millions of expert tensors; the list stops being useful long before.
constexpr std::size_t max_listed = 400;

bool is_float(DType dtype) {
  switch (dtype) {
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
    case DType::F8_E4M3:
      return false;
    default:
      return true;
  }
}

// [hidden] stands for [1, hidden]: leading ones do not change what a tensor holds.
std::span<const std::int64_t> without_ones(std::span<const std::int64_t> shape) {
  while (shape.size() > 1 && shape.front() == 1) shape = shape.subspan(1);
  return shape;
}

bool same_shape(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  a = without_ones(a);
  b = without_ones(b);
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

struct Problems {
  std::vector<std::string> lines;
  std::size_t count = 0;
  void add(std::string line) {
    ++count;
    if (lines.size() < max_listed) lines.push_back(std::move(line));
  }
};

struct Found {
  const WeightEntry* entry;
  std::vector<LogicalTensor> tensors;
};

std::vector<std::int64_t> part_shape(const WeightEntry& entry, std::size_t pieces) {
  if (entry.kind == WeightKind::experts && pieces > 1) return {entry.shape[1], entry.shape[2]};
  return entry.shape;
}

void match(const Checkpoint& checkpoint, const WeightEntry& entry, Problems& problems, std::vector<Found>& found,
           std::unordered_set<const TensorView*>& used) {
  const auto names = checkpoint.stored_names(entry);
  Found hit{&entry, {}};
  const bool one_of_one = entry.kind == WeightKind::experts && names.size() == 1 && entry.shape[0] == 1;
  const auto want = part_shape(entry, names.size());
  for (const std::string& name : names) {
    if (problems.count > max_listed) return;
    auto tensor = checkpoint.find(name);
    if (!tensor) {
      if (!entry.optional) problems.add(fmt::format("missing: {} {}", name, shape_text(want)));
      continue;
    }
    for (const TensorView* part : tensor->parts) used.insert(part);
    if (!tensor->fault.empty()) {
      problems.add(fmt::format("misshapen: {}: {}", name, tensor->fault));
    } else if (!same_shape(tensor->shape, want) && !(one_of_one && same_shape(tensor->shape, entry.shape))) {
      problems.add(
          fmt::format("misshapen: {}: expected {}, found {}", name, shape_text(want), shape_text(tensor->shape)));
    } else {
      hit.tensors.push_back(std::move(*tensor));
    }
  }
  found.push_back(std::move(hit));
}

Result<std::shared_ptr<const Weight>> as_vector(const LoadedWeight& loaded, std::vector<std::string>& oddities) {
  const Weight& weight = *loaded.weight;
  const std::vector<float> values = decoded(weight);
  std::size_t bad = 0;
  for (const float v : values) bad += std::isfinite(v) ? 0 : 1;
  if (bad > 0) oddities.push_back(fmt::format("{}: {} of {} values are NaN or Inf", weight.name, bad, values.size()));
  if (weight.dtype == DType::F32) return loaded.weight;
  return f32_weight(weight.name, weight.shape, values);
}

// Expert matrices of one kind as one weight: a slab each. Storage that differs from expert to expert is decoded.
std::shared_ptr<const Weight> stacked(const WeightEntry& entry, std::vector<std::shared_ptr<const Weight>> pieces,
                                      std::vector<std::string>& oddities) {
  Weight stack;
  stack.name = entry.name;
  stack.shape = entry.shape;
  stack.dtype = pieces.front()->dtype;
  bool same = true;
  for (const auto& piece : pieces) same = same && piece->dtype == stack.dtype;
  if (!same) {
    oddities.push_back(fmt::format("{}: experts are stored in different types; they are held as F32", entry.name));
    stack.dtype = DType::F32;
    for (auto& piece : pieces) piece = f32_weight(piece->name, piece->shape, decoded(*piece));
  }
  for (const auto& piece : pieces) {
    stack.slabs.push_back(piece->slabs[0]);
    stack.owners.push_back(piece);
  }
  return std::make_shared<const Weight>(std::move(stack));
}

Result<LoadedWeight> load_entry(const Checkpoint& checkpoint, const Found& found, std::vector<std::string>& oddities) {
  const WeightEntry& entry = *found.entry;
  if (found.tensors.empty()) return LoadedWeight{};
  const bool keep_order = entry.kind != WeightKind::matrix;
  std::vector<std::shared_ptr<const Weight>> pieces;
  LoadedWeight loaded;
  for (const LogicalTensor& tensor : found.tensors) {
    TRY(loaded, checkpoint.read(tensor, keep_order));
    if (!is_float(loaded.weight->dtype))
      return bad_input("{}: {}: expected a float or block format, found {}", checkpoint.path(), tensor.name,
                       name(loaded.weight->dtype));
    pieces.push_back(loaded.weight);
  }
  if (entry.kind == WeightKind::experts && pieces.size() > 1)
    return LoadedWeight{stacked(entry, std::move(pieces), oddities), {}};
  if (loaded.weight->shape != entry.shape) {
    Weight reshaped = *loaded.weight;
    reshaped.shape = entry.shape;
    loaded.weight = std::make_shared<const Weight>(std::move(reshaped));
  }
  if (entry.kind == WeightKind::vector) {
    TRY(loaded.weight, as_vector(loaded, oddities));
  }
  return loaded;
}

void note_unused(const Checkpoint& checkpoint, const ModelConfig& config,
                 const std::unordered_set<const TensorView*>& used, Problems& problems,
                 std::vector<std::string>& oddities) {
  std::map<std::string, std::pair<std::size_t, std::string>> reasons;  // reason -> how many, the first
  for (const TensorView& tensor : checkpoint.tensors()) {
    if (used.contains(&tensor) || checkpoint.read_with_config(tensor)) continue;
    const std::string reason = checkpoint.harmless(tensor, config);
    if (reason.empty()) {
      const bool head = config.tied && tensor.name.ends_with("lm_head.weight");
      problems.add(fmt::format("surplus: {} {} {}{}", tensor.name, name(tensor.dtype), shape_text(tensor.shape),
                               head ? " (tie_word_embeddings is true, but it differs from the embeddings)" : ""));
    } else {
      auto& [count, first] = reasons[reason];
      if (count++ == 0) first = tensor.name;
    }
  }
  for (const auto& [reason, seen] : reasons)
    oddities.push_back(seen.first == 1
                           ? fmt::format("{} is not used: {}", seen.second, reason)
                           : fmt::format("{} and {} more are not used: {}", seen.second, seen.first - 1, reason));
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::shared_ptr<const Weight> mapped_weight(const TensorView& view, const std::vector<std::int64_t>& shape) {
  const FormatInfo& f = format(view.dtype);
  const std::size_t alignment = f.block == 1 ? static_cast<std::size_t>(f.block_bytes) : 1;
  if (reinterpret_cast<std::uintptr_t>(view.data.data()) % alignment != 0)
    return owned_weight(view.name, view.dtype, shape, {view.data.begin(), view.data.end()});
  Weight weight;
  weight.name = view.name;
  weight.dtype = view.dtype;
  weight.shape = shape;
  weight.slabs = {view.data.data()};
  weight.owners = {view.owner};
  return std::make_shared<const Weight>(std::move(weight));
}

std::vector<float> decoded(const Weight& weight) {
  const FormatInfo& f = format(weight.dtype);
  std::vector<float> values(static_cast<std::size_t>(weight.elements()));
  const std::int64_t per_slab = weight.elements() / static_cast<std::int64_t>(weight.slabs.size());
  for (std::size_t i = 0; i < weight.slabs.size(); ++i)
    f.decode(weight.slabs[i], values.data() + static_cast<std::ptrdiff_t>(i) * per_slab, per_slab / f.block);
  return values;
}

const LoadedWeight& Weights::at(const std::string& name) const {
  const auto it = loaded_.find(name);
  CHECK(it != loaded_.end());  // an architecture reads only what its spec declares
  return it->second;
}

Weights Weights::blank(const WeightSpec& spec) {
  Weights weights;
  for (const WeightEntry& entry : spec.entries()) {
    Weight weight;
    weight.name = entry.name;
    weight.shape = entry.shape;
    weights.put(entry.name, {std::make_shared<const Weight>(std::move(weight)), nullptr});
  }
  return weights;
}

Weights Weights::made_up(const WeightSpec& spec, DType dtype) {
  // Scales and floats of F16 become 0.004 with either sign, so that sums stay near 0.
  constexpr std::array filling{std::byte{0x1c}, std::byte{0x9c}};
  std::minstd_rand random;
  std::vector<std::byte> pattern(std::size_t{1} << 16);
  for (std::byte& byte : pattern) byte = filling[random() >> 8 & 1];
  Weights weights;
  for (const WeightEntry& entry : spec.entries()) {
    if (entry.kind == WeightKind::vector) {
      const std::vector<float> ones(static_cast<std::size_t>(entry.shape.front()), 1.0F);
      weights.put(entry.name, {f32_weight(entry.name, entry.shape, ones), nullptr});
      continue;
    }
    const DType type = entry.shape.back() % format(dtype).block == 0 ? dtype : DType::F16;
    Weight shaped{.name = entry.name, .dtype = type, .shape = entry.shape};
    std::vector<std::byte> bytes(static_cast<std::size_t>(shaped.bytes()));
    for (std::size_t at = 0; at < bytes.size(); at += pattern.size())
      std::memcpy(bytes.data() + at, pattern.data(), std::min(pattern.size(), bytes.size() - at));
    weights.put(entry.name, {owned_weight(entry.name, type, entry.shape, std::move(bytes)), nullptr});
  }
  return weights;
}

Result<Weights> load_weights(const Checkpoint& checkpoint, const WeightSpec& spec, const ModelConfig& config,
                             std::vector<std::string>& oddities) {
  Problems problems;
  std::vector<Found> found;
  std::unordered_set<const TensorView*> used;
  for (const WeightEntry& entry : spec.entries()) {
    match(checkpoint, entry, problems, found, used);
    if (problems.count > max_listed) break;
  }
  if (problems.count <= max_listed) note_unused(checkpoint, config, used, problems, oddities);
  if (problems.count > 0) {
    std::string list;
    for (const std::string& line : problems.lines) list += "\n  " + line;
    if (problems.count > problems.lines.size()) list += "\n  ... and more";
    return bad_input("{}: tensors do not fit what the {} config describes ({} problems):{}", checkpoint.path(),
                     config.architecture, problems.count, list);
  }
  Weights weights;
  for (const Found& hit : found) {
    TRY(auto loaded, load_entry(checkpoint, hit, oddities));
    weights.put(hit.entry->name, std::move(loaded));
  }
  return weights;
}

}  // namespace knapsack
