#include "import/convert.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands/command.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "report/progress.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

class ConvertCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Any float checkpoint, also FP8, GPTQ and AWQ ones, becomes one GGUF with tokenizer and chat template inside. "
        "Norms and biases stay f32. The file appears whole or not at all.");
    model_argument(arguments, model_);
    Argument& out = arguments.text("-o,--output", "FILE", output_, "the GGUF to write");
    out.required = true;
    out.complete = Complete::file;
    arguments.choice("--type", type_, {"f32", "f16", "bf16"}, "how the matrices are stored");
    arguments.flag("--force", force_, "replace FILE if it is there (never the model itself)");
    arguments.example("knapsack convert folder -o model.gguf --type bf16", "a folder as llama.cpp loads it");
    arguments.example("knapsack convert q4.gguf -o f32.gguf --type f32", "a quantized file as plain floats");
  }

  Result<int> run(Context& context) override {
    TRY_VOID(check_output());
    const DType type = type_ == "f32" ? DType::F32 : type_ == "bf16" ? DType::BF16 : DType::F16;
    const Stopwatch clock;
    Progress progress("converting", "permille", context.quiet);
    const auto show = [&](double share) { progress.update(static_cast<std::uint64_t>(share * 1000), 1000); };
    TRY(const Conversion done,
        convert_to_gguf(model_, output_, type, show, force_ ? Existing::replaced : Existing::kept));
    progress.finish();
    for (const auto& warning : done.warnings) warn("{}", warning);
    std::error_code ignored;
    const auto bytes = fs::is_regular_file(output_, ignored) ? fs::file_size(output_, ignored) : 0;
    const double seconds = clock.ms() / 1000;
    return print_result(context,
                        fmt::format("{}: {}, {} in {:.1f} s\n", one_line(output_), type_,
                                    format_bytes(static_cast<double>(bytes)), seconds),
                        {{"path", output_},
                         {"type", type_},
                         {"bytes", bytes},
                         {"seconds", seconds},
                         {"warnings", json::value_from(done.warnings)}});
  }

 private:
  // The model must survive: neither it, nor a file of its folder, may be written over.
  [[nodiscard]] Result<void> check_output() const {
    if (output_ == "-" || is_standard_output(output_))
      return usage_error("a GGUF is not written to standard output; name a file (./- for one of that name)");
    TRY_VOID(not_the_model(output_, model_));
    std::error_code ignored;
    if (fs::is_regular_file(output_, ignored) && !force_)
      return usage_error("{}: there is such a file already; --force replaces it", output_);
    return {};
  }

  std::string model_, output_, type_ = "f16";
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace knapsack
