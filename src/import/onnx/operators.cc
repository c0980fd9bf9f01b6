// The table of operators, and what stands for those that are not in it.
#include <array>

#include "import/onnx/call.h"

namespace knapsack::onnx {
namespace {

struct Row {
  std::string_view op;
  Translation translation;
};
constexpr auto rows = std::to_array<Row>({
#define KNAP_ONNX(name, function) {#name, function},
#include "import/onnx/operators.inc"
#undef KNAP_ONNX
});
constexpr auto microsoft_rows = std::to_array<Row>({
#define KNAP_ONNX(name, function) {#name, function},
#include "import/onnx/microsoft.inc"
#undef KNAP_ONNX
});
constexpr std::string_view microsoft = "com.microsoft";

struct Nearest {
  std::string_view op, form;
};
constexpr std::string_view unquantized = "export the float model";
constexpr std::string_view unrolled = "trace the model, so that there is no control flow";
constexpr auto nearest = std::to_array<Nearest>({
    {"ArgMin", "the nearest form is ArgMax of Neg"},
    {"BitShift", "the nearest form is Mul or Div by a power of 2"},
    {"Celu", "the nearest form is Elu"},
    {"ConvInteger", unquantized},
    {"DecoderMaskedMultiHeadAttention", "the nearest form is MultiHeadAttention"},
    {"DequantizeLinear", unquantized},
    {"DynamicQuantizeLinear", unquantized},
    {"Einsum", "the nearest form is Transpose, Reshape and MatMul"},
    {"EyeLike", "the nearest form is a constant"},
    {"FusedConv", "the nearest form is Conv and its activation"},
    {"FusedGemm", "the nearest form is Gemm and its activation"},
    {"GatherBlockQuantized", "the nearest form is Gather of a table of floats"},
    {"GlobalLpPool", "the nearest form is ReduceL2"},
    {"GridSample", "the nearest form is Resize"},
    {"GroupNormalization", "the nearest form is Reshape and InstanceNormalization"},
    {"GRU", "the nearest form is the loop written out: MatMul, Sigmoid, Tanh"},
    {"HardMax", "the nearest form is ArgMax and OneHot"},
    {"If", unrolled},
    {"IsInf", "the nearest form is Equal of Abs"},
    {"LRN", "the nearest form is AveragePool of Mul"},
    {"LSTM", "the nearest form is the loop written out: MatMul, Sigmoid, Tanh"},
    {"Loop", unrolled},
    {"LpNormalization", "the nearest form is ReduceL2 and Div"},
    {"MatMulInteger", unquantized},
    {"Mish", "the nearest form is Softplus, Tanh and Mul"},
    {"PackedMultiHeadAttention", "the nearest form is MultiHeadAttention"},
    {"QLinearConv", unquantized},
    {"QLinearMatMul", unquantized},
    {"QuantizeLinear", unquantized},
    {"RandomNormal", "the nearest form is an input"},
    {"RandomNormalLike", "the nearest form is an input"},
    {"ReduceL1", "the nearest form is ReduceSum of Abs"},
    {"ReduceLogSum", "the nearest form is Log of ReduceSum"},
    {"ReduceLogSumExp", "the nearest form is Log of ReduceSum of Exp"},
    {"ReduceSumSquare", "the nearest form is ReduceSum of Mul"},
    {"Scan", unrolled},
    {"Selu", "the nearest form is Elu and Mul"},
    {"Softsign", "the nearest form is Abs, Add and Div"},
    {"SpaceToDepth", "the nearest form is Reshape and Transpose"},
    {"SparseAttention", "the nearest form is GroupQueryAttention"},
    {"Swish", "the nearest form is Sigmoid and Mul"},
    {"Tan", "the nearest form is Sin, Cos and Div"},
    {"ThresholdedRelu", "the nearest form is Greater and Where"},
    {"Unique", "the nearest form is OneHot, where values are indices"},
});

}  // namespace

Translation translation_of(std::string_view domain, std::string_view op) {
  const auto among = [&](const auto& list) -> Translation {
    for (const Row& row : list)
      if (row.op == op) return row.translation;
    return nullptr;
  };
  if (domain == microsoft) return among(microsoft_rows);
  return domain.empty() ? among(rows) : nullptr;
}

bool takes_codes(std::string_view domain, std::string_view op) { return domain == microsoft && op == "MatMulNBits"; }

std::string nearest_form(std::string_view domain, std::string_view op) {
  for (const Nearest& each : nearest)
    if (each.op == op) return std::string(each.form);
  if (!domain.empty() && translation_of("", op) != nullptr) return fmt::format("the nearest form is {} of ai.onnx", op);
  return domain.empty() ? "write it in operators of docs/graph.md"
                        : "the nearest form is in operators of ai.onnx, which an export has without optimization";
}

}  // namespace knapsack::onnx
