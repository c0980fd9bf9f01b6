#include <fmt/format.h>

#include <bit>
#include <limits>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model.h"
#include "cli/output_file.h"
#include "report/progress.h"

namespace knapsack {
namespace {

static_assert(std::endian::native == std::endian::little, "the .npy below is written as this machine's floats are");

constexpr std::size_t most_ids_bytes = std::size_t{64} << 20;

// Header of a .npy file, version 1.0 (numpy.lib.format): float32, C order. Padded so that the data is aligned to 64.
std::string npy_header(std::size_t rows, std::int64_t cols) {
  std::string dictionary = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  constexpr std::size_t before = 10;  // magic, version, length
  dictionary.append(63 - (before + dictionary.size()) % 64, ' ').push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(dictionary.size() & 0xff));
  header.push_back(static_cast<char>(dictionary.size() >> 8));
  return header + dictionary;
}

class LogitsCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Runs the ids through the model once and writes the logits after each of them: a float32 array "
        "[tokens, vocabulary]. The KV cache is kept in f32. No tokenizer is needed.");
    model_argument(arguments, model_);
    arguments.text("--ids", "IDS", ids_, "token ids, separated by commas or spaces");
    arguments.text("--ids-file", "FILE", ids_file_, "the same from a file; - is standard input").complete =
        Complete::file;
    Argument& out = arguments.text("-o,--output", "FILE", output_, "the .npy file to write; - is standard output");
    out.required = true;
    out.complete = Complete::file;
    arguments.integer("--ctx", ctx_, 1, std::numeric_limits<std::int32_t>::max(),
                      "context in tokens (default: as many as there are ids)");
    arguments.example("knapsack logits model.gguf --ids 1,2,3 -o logits.npy",
                      "then in Python: numpy.load(\"logits.npy\").shape == (3, vocabulary)");
  }

  Result<int> run(Context& context) override {
    if (ids_.has_value() == ids_file_.has_value())
      return usage_error("expected one of --ids and --ids-file; see `knapsack logits --help`");
    if (is_standard_output(output_)) output_.assign(1, '-');
    if (output_ == "-" && context.json) return usage_error("-o - and --json both want standard output; name a file");
    if (output_ != "-") TRY_VOID(not_the_model(output_, model_));
    std::string text = ids_.value_or("");
    if (ids_file_) {
      TRY(text, read_text(*ids_file_, most_ids_bytes));
    }
    const std::string origin = ids_file_ ? input_name(*ids_file_) : "";
    TRY(const auto ids, read_ids(text, origin));
    if (ids.empty()) return wrong_input(origin, "expected at least one token id, found none");
    const auto count = static_cast<std::int64_t>(ids.size());
    if (ctx_ && *ctx_ < count)
      return usage_error("there are {} token ids, the context holds {}; ask for a larger one (--ctx)", count, *ctx_);

    constexpr std::int64_t chunk = 128;
    const std::int64_t ctx = ctx_.value_or(count);
    TRY(const auto bundle, open_model(context, model_, {.ctx = ctx, .chunk = chunk, .max_selected = chunk}));
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= bundle->vocab)
        return wrong_input(origin, "token id {} is {}; the ids of {} go from 0 to {}", i + 1, ids[i], bundle->name,
                           bundle->vocab - 1);
    TRY(auto session,
        start_session(context, bundle, {.ctx = ctx, .kv = DType::F32, .exact = true, .load_tokenizer = false}));
    std::optional<AtomicFile> file;
    if (output_ != "-") {
      TRY(auto made, AtomicFile::create(output_));
      file.emplace(std::move(made));
    }
    Interruptible interruptible;
    Progress progress("logits", "tokens", context.quiet);
    Result<void> written;
    const auto put = [&](std::string_view bytes) {
      if (!written) return;
      written = file ? file->write(std::as_bytes(std::span(bytes))) : context.out.write(bytes);
      if (!written) interruptible.stop();
    };
    put(npy_header(ids.size(), bundle->vocab));
    const Stopwatch clock;
    auto scored = session->score(
        ids, 0,
        [&](std::int64_t first, std::int64_t rows, std::span<const float> logits) {
          put({reinterpret_cast<const char*>(logits.data()), logits.size_bytes()});
          progress.update(static_cast<std::uint64_t>(first + rows), ids.size());
        },
        interruptible.token());
    const double ms = clock.ms();
    progress.finish();
    TRY_VOID(written);
    TRY_VOID(scored);
    if (file) TRY_VOID(file->commit());
    if (context.json) {
      json::object object{{"tokens", count}, {"vocab", bundle->vocab}, {"path", output_}};
      object["tokens_per_s"] = ms > 0 ? static_cast<double>(count) / ms * 1000 : 0.0;
      object["model_hash"] = bundle->model_hash;
      TRY_VOID(print_json(context, object));
    } else if (file && !context.quiet) {
      fmt::print(stderr, "{}: float32 [{}, {}]\n", output_, count, bundle->vocab);
    }
    return 0;
  }

 private:
  std::string model_, output_;
  std::optional<std::string> ids_, ids_file_;
  std::optional<std::int64_t> ctx_;
};

}  // namespace

std::unique_ptr<Command> make_logits_command() { return std::make_unique<LogitsCommand>(); }

}  // namespace knapsack
