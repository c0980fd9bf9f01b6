// Faults planted in golden models: the node that is named as born must be the planted one, and no other.
#include "align/align.h"

#include <cmath>
#include <cstring>
#include <ostream>

#include "align/align_text.h"
#include "align/dump_source.h"
#include "align/golden_graph.h"
#include "align/pairing.h"
#include "align/plant.h"
#include "support/npz.h"

namespace knapsack::testing {
namespace {

// A fault: in which nodes of which model, and what is done to them.
struct Case {
  std::string name, model;
  std::function<bool(const Node& node)> where;
  Edit edit;
  bool breaks = true;  // the usual threshold
};
void PrintTo(const Case& fault, std::ostream* out) { *out << fault.name; }

std::function<bool(const Node&)> at(const std::string& name) {
  return [name](const Node& node) { return node.name == name; };
}
std::function<bool(const Node&)> every(Op op) {
  return [op](const Node& node) { return node.op == op; };
}

Edit attribute(Attr key, auto value) {
  return [key, value](Node& node, Graph&) { node.attrs = with(node.attrs, key, value); };
}
Edit weight(std::size_t input, std::function<void(std::vector<float>&)> change) {
  return [input, change = std::move(change)](Node& node, Graph& graph) { alter(node, graph, input, change); };
}

void transpose(std::vector<float>& values) {
  const auto n = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(values.size()))));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) std::swap(values[i * n + j], values[j * n + i]);
}

std::vector<Case> cases() {
  return {
      {"ActivationDropped", "qwen2-tied-gqa", at("layers.1.mlp.act"),
       [](Node& node, Graph&) {
         node.op = Op::scale;
         node.inputs = {node.inputs[1]};
         node.attrs = Attrs().set(Attr::scale, 1.0);
       }},
      {"WeightTransposed", "qwen2-tied-gqa", at("layers.1.attn.o_proj"), weight(1, transpose)},
      {"RopeInterleaved", "qwen2-tied-gqa", at("layers.1.attn.q_rope"), attribute(Attr::interleaved, 1)},
      {"RopeBase", "qwen2-tied-gqa", every(Op::rope),
       weight(1,
              [](std::vector<float>& values) {  // 10000 for 1000000
                for (std::size_t i = 0; i < values.size(); ++i)
                  values[i] =
                      static_cast<float>(std::pow(1e4, -static_cast<double>(i) / static_cast<double>(values.size())));
              })},
      // For 1e-6: beside activations of about 1 a smaller one would drown in float32's own error.
      {"Epsilon", "qwen2-tied-gqa", at("layers.0.attn_norm"), attribute(Attr::eps, 1e-3), false},
      {"MaskOffByOne", "mistral-window", at("layers.1.attn.context"), attribute(Attr::window, 7)},
      {"ChannelScaleTwice", "qwen2-tied-gqa", at("layers.1.mlp.up_proj"),
       weight(1,
              [](std::vector<float>& values) {
                for (std::size_t i = 0; i < 64; ++i) values[5 * 64 + i] *= 2;
              })},
      {"ValueBiasDropped", "qwen2-tied-gqa", at("layers.1.attn.v_proj"),
       [](Node& node, Graph&) { node.inputs.resize(2); }},
      {"NormWeightTwice", "qwen2-tied-gqa", at("layers.1.mlp_norm"),
       weight(1,
              [](std::vector<float>& values) {
                for (float& value : values) value *= value;
              })},
      {"YarnScaleOmitted", "qwen2-yarn", every(Op::rope), attribute(Attr::scale, 1.0)},
      {"EmbeddingScaleMissing", "gemma3-text", at("embed"), attribute(Attr::scale, 1.0)},
      {"TiedHeadNotApplied", "qwen2-tied-gqa", at("logits"),
       weight(1, [](std::vector<float>& values) { std::reverse(values.begin(), values.end()); })},
      {"ExpertsSwapped", "qwen3-moe", at("layers.1.mlp.routed"),
       [](Node& node, Graph& graph) {
         const std::int64_t experts = graph.value(node.inputs[3]).weight->shape[0];
         for (const std::size_t input : {3, 4, 5})
           alter(node, graph, input, [&](std::vector<float>& values) {
             const auto size = static_cast<std::ptrdiff_t>(values.size()) / experts;
             std::swap_ranges(values.begin(), values.begin() + size, values.begin() + size);
           });
       }},
  };
}

class PlantedInGraph : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Align, PlantedInGraph, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(PlantedInGraph, IsNamedAndNothingElse) {
  const Case& fault = GetParam();
  const auto [graph, ids] = golden_graph(fault.model);
  std::vector<std::string> planted;
  const Graph wrong = edited(graph, [&](Node& node, Graph& to) {
    if (!fault.where(node)) return;
    fault.edit(node, to);
    planted.push_back(node.name);
  });
  ASSERT_FALSE(planted.empty());
  const auto a = source(graph, "A");
  // Without the fault nothing is born; so it is the fault that is found.
  const auto same = align(*a, *source(edited(graph, [](Node&, Graph&) {}), "B"), {ids}, {}).value();
  EXPECT_EQ(born(same), std::vector<std::string>{});
  EXPECT_TRUE(same.passed);
  EXPECT_EQ(same.logits.kl, 0);
  EXPECT_EQ(same.logits.top1, 1);

  const auto found = align(*a, *source(wrong, "B"), {ids}, {}).value();
  std::vector<std::string> names = born(found);
  std::sort(names.begin(), names.end());
  std::sort(planted.begin(), planted.end());
  EXPECT_EQ(names, planted);
  EXPECT_EQ(found.passed, !fault.breaks);
  EXPECT_GT(node(found, "logits").free.rel_l2, 0);  // carried to the end
  // The same by other steps: error does not depend on how tokens are cut.
  const auto cut = align(*source(graph, "A", 7), *source(wrong, "B", 7), {ids}, {.rows = 7}).value();
  for (const std::size_t number : found.born)
    EXPECT_EQ(cut.nodes[number].born_rel_l2, found.nodes[number].born_rel_l2) << found.nodes[number].name;
}

// Attention over one step that begins at position 0, written out anew so that it can be done wrongly.
struct Wrong {
  bool heads_by_turns = false;  // query head h reads key head h % kv_heads
  std::int64_t shift = 0;       // values are read from the row before
  bool half_sum = false;        // exp without the largest subtracted, summed in float16: overflows at 65504
};
Fault attention(const Graph& graph, const std::string& layer, Wrong wrong) {
  const Attrs& attrs = std::find_if(graph.list().begin(), graph.list().end(), [&](const Node& n) {
                         return n.name == layer + ".attn.context";
                       })->attrs;
  return [=](const Values& values, std::int64_t rows, std::int64_t cols, float* data) {
    const std::int64_t heads = attrs.i(Attr::heads), kv_heads = attrs.i(Attr::kv_heads),
                       width = attrs.i(Attr::head_dim);
    ASSERT_EQ(cols, heads * width);
    const auto& q = values.at(layer + ".attn.q_rope");
    const auto& k = values.at(layer + ".attn.k_rope");
    const auto& v = values.at(layer + ".attn.v_proj");
    const auto get = [](const std::vector<float>& from, std::int64_t index) {
      return static_cast<double>(from[static_cast<std::size_t>(index)]);
    };
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t kv = wrong.heads_by_turns ? head % kv_heads : head / (heads / kv_heads);
        std::vector<double> sum(static_cast<std::size_t>(width));
        double total = 0;
        for (std::int64_t key = 0; key <= row; ++key) {
          double score = 0;
          for (std::int64_t i = 0; i < width; ++i)
            score += get(q, row * cols + head * width + i) * get(k, (key * kv_heads + kv) * width + i);
          const double weight =
              std::exp(score * static_cast<double>(attrs.f(Attr::scale)) + (wrong.half_sum ? 5.5 : 0));
          total += weight;
          const std::int64_t read = std::max<std::int64_t>(0, key - wrong.shift);
          for (std::int64_t i = 0; i < width; ++i)
            sum[static_cast<std::size_t>(i)] += weight * get(v, (read * kv_heads + kv) * width + i);
        }
        if (wrong.half_sum && total > 65504) total = INFINITY;
        for (std::int64_t i = 0; i < width; ++i)
          data[row * cols + head * width + i] = static_cast<float>(sum[static_cast<std::size_t>(i)] / total);
      }
  };
}

Alignment planted(const std::string& model, const std::string& name, const std::function<Fault(const Graph&)>& fault) {
  const auto [graph, ids] = golden_graph(model);
  Planted b(source(graph, "B"), name, fault(graph));
  return align(*source(graph, "A"), b, {ids}, {.rows = longest}).value();
}
const std::string context = "layers.1.attn.context";
Alignment planted_attention(Wrong wrong) {
  return planted("qwen2-tied-gqa", context, [&](const Graph& graph) { return attention(graph, "layers.1", wrong); });
}
using testing::Npz;

TEST(PlantedInKernel, AttentionWrittenOutAnewIsNoFault) {
  const auto found = planted_attention({});
  EXPECT_EQ(born(found), Names{});
  EXPECT_LT(node(found, context).born_rel_l2, born_floor / 10);
}

TEST(PlantedInKernel, HeadsMappedByTurns) {
  const auto found = planted_attention({.heads_by_turns = true});
  EXPECT_EQ(born(found), Names{context});
  EXPECT_FALSE(found.passed);
}

TEST(PlantedInKernel, CacheSlotOffByOne) {
  const auto found = planted_attention({.shift = 1});
  EXPECT_EQ(born(found), Names{context});
  EXPECT_FALSE(found.passed);
}

TEST(PlantedInKernel, SoftmaxInHalfOverflowsAtLongContextOnly) {
  const auto found = planted_attention({.half_sum = true});
  EXPECT_EQ(born(found), Names{context});
  EXPECT_FALSE(found.passed);
  const AlignedNode& at = node(found, context);
  EXPECT_LT(at.by_position[10], 1e-4F);
  EXPECT_GT(at.by_position[47], 0.2F);
  EXPECT_GT(at.born_position, 20);
  EXPECT_EQ(at.born_token, golden_graph("qwen2-tied-gqa").ids[static_cast<std::size_t>(at.born_position)]);
  EXPECT_LT(found.logits.kl_by_position[10], found.logits.kl_by_position[47]);
}

TEST(PlantedInKernel, SquareLost) {
  const std::string name = "layers.1.attn_norm";
  const auto found = planted("qwen2-tied-gqa", name, [&](const Graph& graph) -> Fault {
    std::vector<float> weight;
    for (const Node& each : graph.list())
      if (each.name == name) weight = decoded(*graph.value(each.inputs[1]).weight);
    return [weight](const Values& values, std::int64_t rows, std::int64_t cols, float* data) {
      const auto& x = values.at("layers.0.out");
      for (std::int64_t row = 0; row < rows; ++row) {
        double mean = 0;
        for (std::int64_t i = 0; i < cols; ++i)
          mean += std::abs(static_cast<double>(x[static_cast<std::size_t>(row * cols + i)]));
        const double by = 1 / std::sqrt(mean / static_cast<double>(cols) + 1e-6);
        for (std::int64_t i = 0; i < cols; ++i)
          data[row * cols + i] =
              static_cast<float>(static_cast<double>(x[static_cast<std::size_t>(row * cols + i)]) * by) *
              weight[static_cast<std::size_t>(i)];
      }
    };
  });
  EXPECT_EQ(born(found), Names{name});
  EXPECT_FALSE(found.passed);  // its cosine is 1: the length tells
  EXPECT_GT(node(found, name).born_cosine, 0.999);
}

// One token is off, of the second sequence: it alone is named, with the node.
TEST(Align, TheTokenThatIsOffIsNamed) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const std::vector<std::int32_t> few(ids.begin(), ids.begin() + 9);
  const std::string name = "layers.2.mlp.up_proj";  // no token after it reads what it makes
  Planted b(source(graph, "B"), name, [&](const Values&, std::int64_t rows, std::int64_t cols, float* data) {
    if (rows != std::ssize(few)) return;
    for (std::int64_t i = 0; i < cols; ++i) data[7 * cols + i] *= 2;
  });
  const auto found = align(*source(graph, "A"), b, {ids, few}, {}).value();
  EXPECT_EQ(born(found), Names{name});
  ASSERT_EQ(found.by_token.size(), ids.size() + few.size());
  EXPECT_EQ(found.token_value, "logits");
  const std::size_t off = ids.size() + 7;
  EXPECT_EQ(found.worst_tokens.front(), off);
  for (std::size_t i = 0; i < found.by_token.size(); ++i) {
    const AlignedToken& token = found.by_token[i];
    EXPECT_EQ(token.sequence, i < ids.size() ? 0 : 1);
    EXPECT_EQ(token.id, i < ids.size() ? ids[i] : few[i - ids.size()]);
    EXPECT_EQ(token.rel_l2 > 0, i == off) << i;
    EXPECT_EQ(token.kl > 0, i == off) << i;
    EXPECT_EQ(token.born_at, i == off ? name : "") << i;
  }
  const std::string text = alignment_text(found, 3);
  EXPECT_NE(text.find(fmt::format("\n       1   7  {} ", few[7])), std::string::npos) << text;
  EXPECT_EQ(alignment_json(found).at("by_token").as_array().at(off).as_object().at("born_at").as_string(), name);
}

TEST(Align, ValuesThatAreNoNumbersAreAnInfiniteError) {
  const auto found = planted("qwen2-tied-gqa", context, [](const Graph&) -> Fault {
    return [](const Values&, std::int64_t rows, std::int64_t cols, float* data) { data[rows * cols - 1] = NAN; };
  });
  EXPECT_EQ(born(found), Names{context});
  EXPECT_TRUE(std::isinf(node(found, context).born_rel_l2));
  EXPECT_EQ(node(found, context).not_finite, 1);
  EXPECT_TRUE(alignment_json(found).at("nodes").is_array());
  EXPECT_EQ(json::serialize(alignment_json(found)).find("1e99999"), std::string::npos);
}

// Where both sides lose a value it is no error, and no agreement: that is said.
TEST(Align, ValuesBeyondFloat32InBothAreTold) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const Fault lost = [](const Values&, std::int64_t rows, std::int64_t cols, float* data) {
    for (std::int64_t i = 0; i < rows * cols; ++i) data[i] = INFINITY;
  };
  Planted a(source(graph, "A"), "logits", lost), b(source(graph, "B"), "logits", lost);
  const auto found = align(a, b, {ids}, {}).value();
  EXPECT_GT(node(found, "logits").beyond, 0);
  EXPECT_EQ(node(found, "norm").beyond, 0);
  const std::string text = alignment_text(found, 3);
  EXPECT_NE(text.find("left the range of float32 in both"), std::string::npos) << text;
  EXPECT_NE(text.find("in 1 node, first logits"), std::string::npos) << text;
  EXPECT_NE(text.find("KL inf nats, top-1 100.0 %, cosine 1.000000; some are no finite numbers"), std::string::npos)
      << text;
  const auto sound = align(*source(graph, "A"), *source(graph, "B"), {ids}, {}).value();
  EXPECT_EQ(alignment_text(sound, 3).find("finite"), std::string::npos);
}

// One token's huge error is in the sum over all tokens, and not in the median.
TEST(Align, TheMedianTokenIsNotTheOneThatIsOff) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const std::string name = "layers.2.mlp.up_proj";
  Planted b(source(graph, "B"), name, [](const Values&, std::int64_t, std::int64_t cols, float* data) {
    for (std::int64_t i = 0; i < cols; ++i) data[i] *= 100;
  });
  const auto found = align(*source(graph, "A"), b, {ids}, {}).value();
  EXPECT_GT(node(found, name).free.rel_l2, 1);
  EXPECT_EQ(node(found, name).median_rel_l2, 0);
  EXPECT_NE(alignment_html(found).find("median token 0, all tokens as one vector"), std::string::npos);
}

// The same weights, whose products one side makes of integers: what breaks a narrow gate is told, and with what word it
// goes.
TEST(Align, RoundedActivationsAreNamedAsTheReason) {
  auto [floats, ids] = golden_graph("qwen2-tied-gqa");
  const Graph graph = edited(floats, [](Node& node, Graph& to) {
    if (node.op != Op::linear || node.name == "logits") return;
    const Weight& weight = *to.value(node.inputs[1]).weight;
    Weight packed{.name = fmt::format("{} in 8 bits", weight.name), .dtype = DType::Q8_0, .shape = weight.shape};
    const auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(packed.bytes()));
    format(DType::Q8_0).encode(weight.f32(), bytes->data(), weight.elements() / format(DType::Q8_0).block);
    packed.slabs = {bytes->data()};
    packed.owners = {bytes};
    node.inputs[1] = to.constant(std::make_shared<Weight>(std::move(packed)));
  });
  const auto run = [&](bool exact, const char* label) {
    return graph_source(graph, {.label = label, .exact = exact, .ctx = longest, .rows = longest}).value();
  };
  const AlignOptions narrow{.cosine = 0.99999};
  const auto found = align(*run(true, "A"), *run(false, "B"), {ids}, narrow).value();
  EXPECT_FALSE(found.passed);
  EXPECT_TRUE(node(found, "layers.1.attn.o_proj").rounds_b);
  EXPECT_FALSE(node(found, "layers.1.attn.o_proj").rounds_a);
  EXPECT_FALSE(node(found, "layers.1.attn.context").rounds_b);
  const std::string text = alignment_text(found, 3);
  for (const char* part : {"integer products of activations in 8 bits", "products of integers in B",
                           "the word `exact` behind the colon of B", "\n!  layers."})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const auto turned = align(*run(false, "A"), *run(true, "B"), {ids}, narrow).value();
  EXPECT_NE(alignment_text(turned, 3).find("behind the colon of A"), std::string::npos);
  EXPECT_TRUE(align(*run(false, "A"), *run(false, "B"), {ids}, narrow).value().born.empty());
  EXPECT_TRUE(align(*run(true, "A"), *run(true, "B"), {ids}, narrow).value().born.empty());
  // Another fault beside it is not explained by that.
  Planted wrong(run(false, "B"), "layers.1.mlp.act",
                [](const Values&, std::int64_t rows, std::int64_t cols, float* data) {
                  for (std::int64_t i = 0; i < rows * cols; ++i) data[i] *= 2;
                });
  EXPECT_EQ(alignment_text(align(*run(true, "A"), wrong, {ids}, narrow).value(), 3).find("`exact`"), std::string::npos);
}

TEST(Align, ClippedValuesAreSaturated) {
  const std::string name = "layers.1.mlp.up_proj";
  const auto found = planted("qwen2-tied-gqa", name, [](const Graph&) -> Fault {
    return [](const Values&, std::int64_t rows, std::int64_t cols, float* data) {
      float most = 0;
      for (std::int64_t i = 0; i < rows * cols; ++i) most = std::max(most, std::abs(data[i]));
      for (std::int64_t i = 0; i < rows * cols; ++i) data[i] = std::clamp(data[i], -most / 4, most / 4);
    };
  });
  EXPECT_EQ(born(found), Names{name});
  EXPECT_GT(node(found, name).saturated, 0.01);
  EXPECT_EQ(node(found, "layers.0.mlp.up_proj").saturated, 0);
  EXPECT_LT(node(found, name).b_high, node(found, name).a_high);
}

// A cache in f16 rounds what attention reads; nothing else differs.
TEST(Align, TheCachesTypeIsBornInAttention) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const auto found = align(*source(graph, "A"), *source(graph, "B", longest, DType::F16), {ids}, {}).value();
  for (const std::string& name : born(found)) EXPECT_TRUE(name.ends_with(".attn.context")) << name;
  EXPECT_EQ(found.born.size(), 3);
  EXPECT_TRUE(found.passed);
}

// One value cut in two, which only B has: the fault inside shows at the next value that both have.
TEST(Align, ValuesOfOneSideAloneRunOn) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  for (const double factor : {1.0, 1.5}) {
    const Graph split = edited(graph, [&](Node& node, Graph& to) {
      if (node.name != "layers.1.mlp.down_proj") return;
      node.inputs[0] = to.node(Op::scale, "layers.1.mlp.smooth", {node.inputs[0]}, Attrs().set(Attr::scale, 2.0));
      alter(node, to, 1, [&](std::vector<float>& values) {
        for (float& value : values) value *= static_cast<float>(factor / 2);
      });
    });
    const auto found = align(*source(graph, "A"), *source(split, "B"), {ids}, {}).value();
    EXPECT_EQ(found.b_only, Names{"layers.1.mlp.smooth"});
    EXPECT_EQ(born(found), factor == 1.0 ? Names{} : Names{"layers.1.mlp.down_proj"});
  }
}

// Q and K with their rows interleaved, as GGUF's Llama has them, and RoPE that fits: no fault.
TEST(Align, InterleavedRowsWithInterleavedRopeAreTheSameModel) {
  const auto [graph, ids] = golden_graph("llama-llama3rope");
  const auto interleave = [&](Node& node, Graph& to) {
    if (node.op == Op::rope) node.attrs = with(node.attrs, Attr::interleaved, 1);
    if (!node.name.ends_with("q_proj") && !node.name.ends_with("k_proj")) return;
    alter(node, to, 1, [&](std::vector<float>& values) {
      constexpr std::size_t width = 16;
      const std::size_t cols = 64;
      const std::vector<float> old = values;
      for (std::size_t row = 0; row < values.size() / cols; ++row) {
        const std::size_t head = row / width * width, within = row % width;
        const std::size_t from = head + (within % 2 == 0 ? within / 2 : width / 2 + within / 2);
        std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(from * cols), cols,
                    values.begin() + static_cast<std::ptrdiff_t>(row * cols));
      }
    });
  };
  const Graph other = edited(graph, interleave);
  EXPECT_EQ(born(align(*source(graph, "A"), *source(other, "B"), {ids}, {}).value()), Names{});
  EXPECT_EQ(born(align(*source(other, "A"), *source(graph, "B"), {ids}, {}).value()), Names{});
}

TEST(Align, SeveralSequencesAreComparedEach) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const std::vector<std::int32_t> few(ids.begin(), ids.begin() + 5);
  const auto found = align(*source(graph, "A"), *source(graph, "B"), {few, ids}, {}).value();
  EXPECT_EQ(found.tokens, static_cast<std::int64_t>(ids.size()) + 5);
  EXPECT_EQ(born(found), Names{});
  EXPECT_EQ(node(found, "logits").by_position.size(), ids.size());
}

Result<Dump> dump_of(const Npz& npz, std::string& bytes) {
  bytes = npz.file();
  TRY(auto arrays, parse_npz(std::as_bytes(std::span(bytes)), "dump.npz"));
  return dump_source({.file = nullptr, .arrays = std::move(arrays)}, "dump.npz");
}

// Under transformers' names, both ways round, right and with a fault.
TEST(AlignDump, IsReplayedByTheModelItIsComparedWith) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  for (const bool wrong : {false, true}) {
    Npz npz;
    npz.add("ids", "<i4", fmt::format("({},)", ids.size()),
            {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t)});
    const Graph made = edited(graph, [&](Node& node, Graph&) {
      if (wrong && node.name == "layers.1.attn.v_proj") node.inputs.resize(2);
    });
    const std::map<std::string, std::string, std::less<>> theirs{
        {"embed", "model.embed_tokens"},
        {"layers.1.attn_norm", "model.layers.1.input_layernorm"},
        {"layers.1.attn.q_proj", "model.layers.1.self_attn.q_proj"},
        {"layers.1.attn.v_proj", "model.layers.1.self_attn.v_proj"},
        {"layers.1.attn.o_proj", "model.layers.1.self_attn.o_proj"},
        {"layers.1.mlp_norm", "model.layers.1.post_attention_layernorm"},
        {"layers.1.out", "model.layers.1"},
        {"logits", "lm_head"}};
    ASSERT_TRUE(
        source(made, "dumped")
            ->run(ids, 0, Lane::free,
                  {.values = [&](std::string_view name, std::int64_t rows, std::int64_t cols, const float* data) {
                    if (const auto at = theirs.find(name); at != theirs.end())
                      npz.floats(at->second, rows, {data, data + rows * cols});
                  }}));
    std::string bytes;
    const auto dump = dump_of(npz, bytes);
    ASSERT_TRUE(dump) << dump.error().message;
    EXPECT_EQ(dump->ids, ids);
    const Names expected = wrong ? Names{"layers.1.attn.v_proj"} : Names{};
    const auto as_b = align(*source(graph, "A", 16), *dump->source, {ids}, {.rows = 16}).value();
    EXPECT_TRUE(as_b.a_replayed);
    EXPECT_EQ(as_b.nodes.size(), theirs.size());
    EXPECT_EQ(born(as_b), expected);
    const auto as_a = align(*dump->source, *source(graph, "B", 16), {ids}, {.rows = 16}).value();
    EXPECT_FALSE(as_a.a_replayed);
    EXPECT_EQ(born(as_a), expected);
    EXPECT_TRUE(as_a.has_logits);
    EXPECT_EQ(as_a.passed, !wrong);
    const auto neither = align(*dump->source, *dump->source, {ids}, {});
    ASSERT_FALSE(neither);
    EXPECT_EQ(neither.error().code, Code::usage);
  }
}

// transformers' own hidden states and logits: nothing is born between them, and a fault shows in its own layer.
TEST(AlignDump, TransformersValuesAreAgreedWith) {
  for (const std::string& name : golden_names()) {
    SCOPED_TRACE(name);
    const Golden golden = load_golden(name);
    const auto count = golden.ids_a.size();
    const auto ctx = static_cast<std::int64_t>(count);
    const auto imported = import_model(golden.folder.string(), {.ctx = ctx}).value();
    const auto size = count * static_cast<std::size_t>(imported.config.hidden);
    Npz npz;
    const auto hidden = [&](std::int64_t layer) {
      const auto from = golden.hidden_a.begin() + static_cast<std::ptrdiff_t>(size) * layer;
      return std::vector<float>(from, from + static_cast<std::ptrdiff_t>(size));
    };
    npz.floats("model.embed_tokens", ctx, hidden(0));
    for (std::int64_t i = 0; i + 1 < imported.config.layers; ++i)
      npz.floats(fmt::format("model.layers.{}", i), ctx, hidden(i + 1));
    npz.floats("model.norm", ctx, hidden(imported.config.layers));
    npz.floats("logits", ctx, golden.logits_a);
    std::string bytes;
    const auto dump = dump_of(npz, bytes);
    ASSERT_TRUE(dump) << dump.error().message;
    const auto run = [&](const Graph& graph) {
      const auto b = graph_source(graph, {.label = "B", .ctx = ctx, .rows = ctx}).value();
      return align(*dump->source, *b, {golden.ids_a}, {}).value();
    };
    const auto right = run(imported.graph);
    EXPECT_EQ(born(right), Names{});
    EXPECT_LT(right.logits.kl, 1e-6);
    EXPECT_EQ(right.nodes.size(), static_cast<std::size_t>(imported.config.layers + 2));
    if (imported.config.layers < 2) continue;
    const auto wrong = run(edited(imported.graph, [](Node& node, Graph& to) {
      if (node.name.starts_with("layers.0.") && node.name.ends_with("mlp_norm"))
        weight(1, [](auto& w) {
          for (float& value : w) value *= 3;
        })(node, to);
    }));
    EXPECT_EQ(born(wrong), Names{"layers.0.out"});
  }
}

TEST(AlignDump, BrokenFilesAreRefused) {
  const std::vector<float> values(12, 1.0F);
  std::string bytes;
  const auto message = [&](const Npz& npz) {
    const auto dump = dump_of(npz, bytes);
    return dump ? "none" : dump.error().message;
  };
  const std::string_view data(reinterpret_cast<const char*>(values.data()), 48);
  Npz good;
  good.add("embed", "<f4", "(3, 4)", data);
  EXPECT_EQ(message(good), "none");
  const std::string whole = bytes;
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_npz(std::as_bytes(std::span(whole.data(), size)), "cut.npz")) << size;
  Npz packed;
  packed.add("embed", "<f4", "(3, 4)", data, 12);
  EXPECT_EQ(message(packed),
            "dump.npz: 'embed' is compressed by method 12; write it with numpy.savez or savez_compressed");
  Npz much;
  much.add("embed", "<f4", "(4611686018427387904, 4)", data);
  EXPECT_NE(message(much).find("its shape holds more than its bytes"), std::string::npos);
  Npz less;
  less.add("embed", "<f4", "(3, 3)", data);
  EXPECT_NE(message(less).find("9 elements of 4 bytes each expected, found 48 bytes"), std::string::npos);
  Npz words;
  words.add("embed", "<U4", "(3,)", data);
  EXPECT_NE(message(words).find("expected float16, float32"), std::string::npos);
  Npz twice;
  twice.add("embed", "<f4", "(3, 4)", data), twice.add("embed", "<f4", "(3, 4)", data);
  EXPECT_EQ(message(twice), "dump.npz: two arrays are called 'embed'");
  Npz uneven;
  uneven.add("embed", "<f4", "(3, 4)", data), uneven.add("norm", "<f4", "(4, 3)", data);
  EXPECT_NE(message(uneven).find("has 4 rows, 'embed' has 3"), std::string::npos);
  EXPECT_NE(message(Npz()).find("expected arrays of floats"), std::string::npos);
}

TEST(AlignPairing, KnowsTransformersNames) {
  EXPECT_EQ(our_names("model.layers.12.mlp.down_proj"), Names{"layers.12.mlp.down_proj"});
  EXPECT_EQ(our_names("model.layers.3"), Names{"layers.3.out"});
  EXPECT_EQ(our_names("lm_head"), Names{"logits"});
  EXPECT_EQ(our_names("model.layers.0.self_attn.q_a_layernorm"), Names{"layers.0.attn.q_a_norm"});
  EXPECT_EQ(our_names("model.layers.0.self_attn.kv_a_layernorm"), Names{"layers.0.attn.kv_norm"});
  EXPECT_EQ(our_names("transformer.h.0"), Names{});
}

TEST(AlignPairing, OtherShapesAreAnotherModel) {
  const auto a = golden_graph("qwen2-tied-gqa"), b = golden_graph("qwen2-untied-bf16");
  const auto paired = align(*source(a.graph, "A"), *source(b.graph, "B"), {a.ids}, {});
  ASSERT_FALSE(paired);
  EXPECT_EQ(paired.error().message, "'embed' has 64 columns in A, 128 in B: these are not the same model");
}

TEST(AlignText, NamesTheWorstAndLoadsNothing) {
  const auto found = planted_attention({.shift = 1});
  const std::string text = alignment_text(found, 3);
  EXPECT_NE(text.find("NOT aligned: 1 node born beyond cosine 0.999, the worst layers.1.attn.context"),
            std::string::npos)
      << text;
  const std::string html = alignment_html(found);
  for (const char* outside : {"src=", "href=", "url(", "@import", "<script"})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  EXPECT_NE(html.find("<title>layers.1.attn.context: born"), std::string::npos);
  const json::object object = alignment_json(found);
  EXPECT_EQ(object.at("born").as_array().size(), 1);
  EXPECT_EQ(object.at("born").as_array()[0].as_string(), context);
  EXPECT_FALSE(object.at("passed").as_bool());
}

}  // namespace
}  // namespace knapsack::testing
