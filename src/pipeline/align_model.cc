#include "pipeline/align_model.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "align/dump_source.h"
#include "align/graph_source.h"
#include "files/npz.h"
#include "import/import.h"

namespace knapsack {
namespace {

// Whether `word` is one, and what it asks for.
bool take_word(std::string_view word, AlignSpec& spec) {
  constexpr std::string_view isa = "isa=";
  constexpr std::string_view kv = "kv=";
  if (word == "reference") {
    spec.isa = Isa::scalar;
    spec.exact = true;
    spec.kv = DType::F32;
    return true;
  }
  if (word == "exact") return spec.exact = true;
  if (word.starts_with(isa)) {
    spec.isa = isa_from_name(word.substr(isa.size()));
    return spec.isa.has_value();
  }
  if (!word.starts_with(kv)) return false;
  for (const DType type : {DType::F16, DType::F32, DType::Q8_0}) {
    std::string lower(name(type));
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (word.substr(kv.size()) != lower) continue;
    spec.kv = type;
    return true;
  }
  return false;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

Result<AlignSpec> parse_align_spec(const std::string& text) {
  AlignSpec spec{.path = text};
  const auto colon = text.rfind(':');
  if (!exists(text) && colon != std::string::npos && colon > 0) {
    AlignSpec with = spec;
    with.path = text.substr(0, colon);
    std::string_view words = std::string_view(text).substr(colon + 1);
    while (!words.empty()) {
      const auto comma = words.find(',');
      const std::string_view word = words.substr(0, comma);
      if (!take_word(word, with)) {
        // Either the words are wrong, or the path is one with a colon that does not exist.
        if (!exists(with.path)) break;
        return usage_error(
            "{}: expected reference, exact, isa=NAME, kv=f16, kv=f32 or kv=q8_0 after the last colon, found '{}'; "
            "`knapsack version` lists instruction sets",
            text, word);
      }
      words.remove_prefix(comma == std::string_view::npos ? words.size() : comma + 1);
    }
    if (words.empty()) spec = std::move(with);
  }
  spec.dump = spec.path.ends_with(".npz");
  if (spec.dump && spec.path != text) return usage_error("{}: a dump is not run: expected no words after it", text);
  return spec;
}

Result<AlignSide> open_align_side(const AlignSpec& spec, const std::string& label, std::int64_t ctx, std::int64_t rows,
                                  int threads) {
  AlignSide side;
  if (spec.dump) {
    TRY(NpzFile file, open_npz(spec.path));
    TRY(Dump dump, dump_source(std::move(file), label));
    side.source = std::move(dump.source);
    side.ids = std::move(dump.ids);
    return side;
  }
  TRY(const Isa isa, choose_isa(spec.isa));
  TRY(Imported imported, import_model(spec.path, {.ctx = ctx}));
  TRY_VOID(verify(imported.graph));
  TRY(side.source, graph_source(imported.graph, {.label = label,
                                                 .isa = isa,
                                                 .exact = spec.exact,
                                                 .kv = spec.kv,
                                                 .ctx = ctx,
                                                 .rows = rows,
                                                 .threads = threads}));
  side.tokenizer_json = std::move(imported.tokenizer_json);
  return side;
}

}  // namespace knapsack
