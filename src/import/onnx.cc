#include "import/onnx.h"

#include "import/onnx/importer.h"

namespace knapsack {

std::optional<DType> dtype_from_onnx(OnnxType type) {
  switch (type) {
    case OnnxType::f32:
      return DType::F32;
    case OnnxType::f16:
      return DType::F16;
    case OnnxType::bf16:
      return DType::BF16;
    case OnnxType::f64:
      return DType::F64;
    case OnnxType::i8:
      return DType::I8;
    case OnnxType::i16:
      return DType::I16;
    case OnnxType::i32:
      return DType::I32;
    case OnnxType::i64:
      return DType::I64;
    case OnnxType::boolean:
      return DType::BOOL;
    default:
      return std::nullopt;
  }
}

Result<ImportedOnnx> graph_from_onnx(const OnnxModel& model, const OnnxPins& pins) {
  return onnx::Importer(model).run(pins);
}

Result<ImportedOnnx> import_onnx(const std::string& path, const OnnxPins& pins) {
  TRY(const OnnxModel model, read_onnx(path));
  auto made = graph_from_onnx(model, pins);
  if (!made) return Error{made.error().code, fmt::format("{}: {}", path, made.error().message)};
  return made;
}

}  // namespace knapsack
