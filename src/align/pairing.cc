#include "align/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace knapsack {
namespace {

using Names = std::map<std::string, std::size_t, std::less<>>;

Names numbered(const Source& source) {
  Names names;
  const auto nodes = source.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) names.emplace(nodes[i].name, i);
  return names;
}

// What `name`, of the side that has `own`, is called among `others`.
std::optional<std::size_t> called(const std::string& name, const Names& own, const Names& others) {
  if (const auto at = others.find(name); at != others.end()) return at->second;
  for (const std::string& ours : our_names(name))
    if (const auto at = others.find(ours); at != others.end() && !own.contains(ours)) return at->second;
  return {};
}

// Columns of interleaved RoPE by the half-split ones: rotary pair (2i, 2i+1) is pair (i, i + rotary/2).
std::vector<std::int32_t> interleaved(const Attrs& rope) {
  const std::int64_t stride = rope.i(Attr::stride), begin = rope.i(Attr::begin), half = rope.i(Attr::rotary) / 2;
  std::vector<std::int32_t> order(static_cast<std::size_t>(rope.i(Attr::heads) * stride));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t head = 0; head < rope.i(Attr::heads); ++head)
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t at = head * stride + begin;
      order[static_cast<std::size_t>(at + 2 * i)] = static_cast<std::int32_t>(at + i);
      order[static_cast<std::size_t>(at + 2 * i + 1)] = static_cast<std::int32_t>(at + half + i);
    }
  return order;
}

std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  return out;
}

// Whether it is a further output of a node: NAME.1.
bool further(std::string_view name) {
  const auto last = name.find_last_not_of("0123456789");
  return last != std::string_view::npos && last + 1 < name.size() && name[last] == '.';
}

// A value taken apart, as decompositions and exports have it, is the first output of the last of its parts,
// `NAME/PART`; where that has other columns it comes about elsewhere. Takes what it pairs out of the names of one side
// alone.
void pair_parts(const Source& a, const Source& b, Pairing& pairing) {
  const auto pair_up = [&](const Source& whole, std::vector<std::string>& wholes, const Source& apart,
                           std::vector<std::string>& parts, bool a_is_whole) {
    const Names whole_names = numbered(whole), part_names = numbered(apart);
    std::map<std::string, std::size_t, std::less<>> last;  // by the name of the whole
    for (const std::string& name : parts)
      if (const auto slash = name.find('/'); slash != std::string::npos && slash > 0 && !further(name))
        last[name.substr(0, slash)] = part_names.at(name);
    std::set<std::string, std::less<>> paired;
    for (const std::string& name : wholes) {
      const auto part = last.find(name);
      if (part == last.end()) continue;
      const std::size_t at = whole_names.at(name);
      const SourceNode& made = apart.nodes()[part->second];
      if (made.cols != whole.nodes()[at].cols) continue;
      pairing.pairs.push_back({.a = a_is_whole ? at : part->second, .b = a_is_whole ? part->second : at});
      paired.insert(name);
      paired.insert(made.name);
    }
    for (auto* names : {&wholes, &parts})
      std::erase_if(*names, [&](const std::string& name) { return paired.contains(name); });
  };
  pair_up(a, pairing.a_only, b, pairing.b_only, true);
  pair_up(b, pairing.b_only, a, pairing.a_only, false);
  std::sort(pairing.pairs.begin(), pairing.pairs.end(), [](const Pair& x, const Pair& y) { return x.b < y.b; });
}

void find_orders(const Source& a, const Source& b, Pairing& pairing) {
  std::map<std::string, Pair*, std::less<>> by_name;
  for (Pair& pair : pairing.pairs) by_name.emplace(b.nodes()[pair.b].name, &pair);
  for (Pair& pair : pairing.pairs) {
    const SourceNode& x = a.nodes()[pair.a];
    const SourceNode& y = b.nodes()[pair.b];
    if (x.op != "rope" || y.op != "rope") continue;
    const bool a_interleaved = x.attrs.i(Attr::interleaved) != 0;
    if (a_interleaved == (y.attrs.i(Attr::interleaved) != 0)) continue;
    const auto same = [&](Attr key) { return x.attrs.i(key) == y.attrs.i(key); };
    if (!same(Attr::heads) || !same(Attr::stride) || !same(Attr::begin) || !same(Attr::rotary)) continue;
    auto order = interleaved(y.attrs);
    if (a_interleaved) order = inverse(order);
    const auto before = by_name.find(y.inputs.front());
    if (before == by_name.end() || b.nodes()[before->second->b].op != "linear") continue;
    const int group = pairing.groups++;
    *before->second = {before->second->a, before->second->b, order, group};
    pair.order = std::move(order);
    pair.group = group;
  }
}

}  // namespace

std::vector<std::string> our_names(std::string_view module) {
  constexpr std::string_view model = "model.";
  if (module == "lm_head") return {"logits"};
  if (module.starts_with(model)) module.remove_prefix(model.size());
  if (module == "embed_tokens") return {"embed"};
  if (module == "norm") return {"norm"};
  constexpr std::string_view layers = "layers.";
  if (!module.starts_with(layers)) return {};
  const auto dot = module.find('.', layers.size());
  const std::string layer(module.substr(0, dot));
  if (dot == std::string_view::npos) return {layer + ".out"};
  const std::string_view rest = module.substr(dot + 1);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> whole{{
      {"input_layernorm", "attn_norm"},
      {"pre_feedforward_layernorm", "mlp_norm"},
      {"post_feedforward_layernorm", "mlp.post_norm"},
      {"self_attn.q_a_layernorm", "attn.q_a_norm"},
      {"self_attn.kv_a_layernorm", "attn.kv_norm"},
      {"mlp.gate", "mlp.router"},
      {"mlp.shared_expert_gate", "mlp.shared.gate"},
  }};
  for (const auto& [theirs, ours] : whole)
    if (rest == theirs) return {fmt::format("{}.{}", layer, ours)};
  // Gemma's stands behind the attention, all others' before the MLP.
  if (rest == "post_attention_layernorm")
    return {fmt::format("{}.attn.post_norm", layer), fmt::format("{}.mlp_norm", layer)};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> prefixes{{
      {"self_attn.", "attn."},
      {"mlp.shared_expert.", "mlp.shared."},
      {"mlp.shared_experts.", "mlp.shared."},
  }};
  for (const auto& [theirs, ours] : prefixes)
    if (rest.starts_with(theirs)) return {fmt::format("{}.{}{}", layer, ours, rest.substr(theirs.size()))};
  return {fmt::format("{}.{}", layer, rest)};
}

Result<Pairing> pair_values(const Source& a, const Source& b) {
  const Names a_names = numbered(a);
  const Names b_names = numbered(b);
  Pairing pairing;
  std::map<std::size_t, std::size_t> b_of;  // by A's number
  for (std::size_t i = 0; i < b.nodes().size(); ++i) {
    const SourceNode& node = b.nodes()[i];
    auto found = called(node.name, b_names, a_names);
    // Or A's is the foreign name.
    for (std::size_t j = 0; !found && j < a.nodes().size(); ++j)
      if (called(a.nodes()[j].name, a_names, b_names) == i) found = j;
    if (!found) {
      pairing.b_only.push_back(node.name);
      continue;
    }
    const SourceNode& other = a.nodes()[*found];
    if (!b_of.emplace(*found, i).second)
      return bad_input("'{}' and '{}' of {} are both '{}' of {}", b.nodes()[b_of.at(*found)].name, node.name, b.label(),
                       other.name, a.label());
    if (other.cols != node.cols)
      return bad_input("'{}' has {} columns in {}, {} in {}: these are not the same model", node.name, other.cols,
                       a.label(), node.cols, b.label());
    pairing.pairs.push_back({.a = *found, .b = i});
  }
  for (std::size_t j = 0; j < a.nodes().size(); ++j)
    if (!b_of.contains(j)) pairing.a_only.push_back(a.nodes()[j].name);
  pair_parts(a, b, pairing);
  find_orders(a, b, pairing);
  return pairing;
}

}  // namespace knapsack
