#include "align/align.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <vector>

#include "align/align_text.h"
#include "base/atomic_file.h"
#include "base/threads.h"
#include "cli/commands/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model.h"
#include "cli/onnx_pins.h"
#include "cli/output_file.h"
#include "pipeline/align_model.h"
#include "report/progress.h"

namespace knapsack {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 20;
// Prose, digits, code and two scripts: so that no part of a vocabulary is left out altogether.
constexpr std::string_view usual_prompt =
    "The river rises in the hills, passes 3 towns and 12 bridges, and ends in the sea.\n"
    "def area(w, h):\n    return w * h  # 7.5 * 4 = 30\n"
    "Warum ist der Himmel blau? \xd0\x9f\xd0\xbe\xd1\x87\xd0\xb5\xd0\xbc\xd1\x83 \xd0\xbd\xd0\xb5\xd0\xb1\xd0\xbe "
    "\xd0\xb3\xd0\xbe\xd0\xbb\xd1\x83\xd0\xb1\xd0\xbe\xd0\xb5?\n";

using Sequences = std::vector<std::vector<std::int32_t>>;

class AlignCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Runs the same tokens through A and B, compares every value both make, and tells where error is born from "
        "where it is only carried: each node of B is run once more on A's values, and what differs then is its own "
        "doing. Exit code 1 where a node is born beyond the threshold.\n\n"
        "A and B are a GGUF, a Hugging Face folder, an ONNX file that is a decoder, or, one of the two, values dumped "
        "elsewhere (.npz) or what "
        "`export --to onnx` wrote, under ONNX Runtime (FOLDER:ort). After a "
        "model's last colon may stand how it is run, in words separated by commas: reference (scalar kernels, float "
        "products, KV cache in f32), exact (float products), isa=NAME, kv=f16, kv=f32, kv=q8_0, stage=NAME "
        "(what passes make of it: canonical, static, fused, primitive), without=PASS, tokens=N (of a step, where "
        "shapes "
        "are static; 1), dim=NAME=SIZE (of this ONNX file alone; --dim is for both). Without: as `run` does. "
        "docs/align.md has the method and how to dump from Python.");
    arguments.positional("A", a_, "the truth: a model, or a dump").complete = Complete::model;
    arguments.positional("B", b_, "what is doubted: likewise").complete = Complete::model;
    arguments.text("--ids", "IDS", ids_, "token ids, separated by commas or spaces");
    arguments.text("--input", "FILE", input_, "a text, UTF-8, as one sequence; - is standard input").complete =
        Complete::file;
    arguments.text("--prompts", "FILE", prompts_, "a text a line, each a sequence of its own; - is standard input")
        .complete = Complete::file;
    arguments.integer("--tokens", tokens_, 1, 1 << 20, "use only the first tokens of each sequence");
    arguments.texts("--dim", "NAME=SIZE", dims_,
                    "ONNX files: the size of a dimension that they leave open; of a decoder 1 for the batch, 2 for the "
                    "tokens and 9 for the past are enough");
    arguments.texts("--shape", "NAME=SIZES", shapes_, "ONNX files: all sizes of an input, as input_ids=1,2");
    arguments.number(
        "--cosine", cosine_, -1, 1,
        "the gate: the least cosine of a replayed token; a relative L2 over sqrt(2 (1 - X)) breaks it, too");
    arguments.integer("--top", top_, 1, 1 << 20, "rows of the table");
    arguments
        .text("--python", "PROGRAM", python_,
              "the Python that runs ONNX Runtime, with numpy, onnx and onnxruntime; else KNAPSACK_PYTHON, else python3")
        .complete = Complete::file;
    arguments.integer("--time-limit", limit_, 1, 1 << 20, "seconds that ONNX Runtime may take to load, and for a step");
    arguments
        .text("--html", "FILE", html_,
              "also write a report: heat maps layer by op, curves along depth and position, tokens")
        .complete = Complete::file;
    arguments.example("knapsack align folder/ model.q4.gguf", "what quantization did to which node, on a usual prompt");
    arguments.example("knapsack align model.gguf:reference model.gguf:isa=avx2,kv=q8_0 --html report.html",
                      "what fast kernels and a small KV cache cost, as a report");
    arguments.example("knapsack align model.gguf:reference model.gguf:reference,stage=fused",
                      "whether passes change anything, and where");
    arguments.example("knapsack align model.gguf:reference folder:ort", "an ONNX export under ONNX Runtime");
    arguments.example(
        "knapsack align folder:reference model.onnx:reference --dim batch_size=1 --dim sequence_length=2 --dim "
        "past_sequence_length=9",
        "an ONNX file of optimum's, its open dimensions pinned");
    arguments.example("knapsack align dump.npz model.gguf:reference --json",
                      "against values from Python, on the ids of the dump");
  }

  Result<int> run(Context& context) override {
    const int inputs = (ids_ ? 1 : 0) + (input_ ? 1 : 0) + (prompts_ ? 1 : 0);
    if (inputs > 1) return usage_error("expected one of --ids, --input and --prompts, found {}", inputs);
    TRY(AlignSpec a_spec, parse_align_spec(a_));
    TRY(AlignSpec b_spec, parse_align_spec(b_));
    TRY_VOID(pin(a_spec, b_spec));
    if (!a_spec.ours() && !b_spec.ours())
      return usage_error(
          "{} and {} are both dumps or ONNX exports: one of them must be a model, to know which value is made of which",
          a_, b_);
    std::optional<AtomicFile> report;  // before hours of work, not behind them
    if (html_) {
      if (*html_ == "-" || is_standard_output(*html_))
        return usage_error("--html: standard output has the table, or the JSON; name a file");
      TRY_VOID(only_over(*html_, {".html", ".htm"}, "--html"));
      TRY_VOID(not_the_model(*html_, a_spec.path));
      TRY_VOID(not_the_model(*html_, b_spec.path));
      TRY(auto file, AtomicFile::create(*html_));
      report.emplace(std::move(file));
    }
    TRY(const Text text, read());
    AlignSide a, b;
    Interruptible interruptible;
    const char* named = std::getenv("KNAPSACK_PYTHON");
    AlignRun how{.ctx = tokens_, .python = named != nullptr && *named != '\0' ? named : "python3"};
    if (python_) how.python = *python_;
    how.limit = std::chrono::seconds(limit_);
    how.stop = interruptible.token();
    how.threads = context.threads > 0 ? context.threads : available_cores();
    {
      const Busy busy("loading A and B", context.quiet);
      // What was made elsewhere first: its length is then the model's context, by which LongRoPE chooses its factors as
      // there; and whole steps of an export's prefill are taken.
      const auto open = [&](const AlignSpec& spec, const std::string& label, AlignSide& side) -> Result<void> {
        TRY(side, open_align_side(spec, label, how));
        if (spec.dump) how.ctx = std::min(how.ctx, side.source->longest());
        if (spec.onnx) how.ctx = side.source->longest(), how.rows = side.source->rows();
        return {};
      };
      if (!b_spec.ours()) TRY_VOID(open(b_spec, b_, b));
      TRY_VOID(open(a_spec, a_, a));
      if (b_spec.ours()) TRY_VOID(open(b_spec, b_, b));
    }
    for (const auto& [spec, side, label] : {std::tuple{&a_spec, &a, &a_}, {&b_spec, &b, &b_}})
      if (spec->dump && side->ids.empty() && text.usual)
        return usage_error("{} does not say which token ids it is of; give them (--ids), or add an array 'ids'",
                           *label);
    TRY(const Sequences sequences, sequences_of(text, a, b));
    Progress progress("align", "permille", context.quiet);
    auto result =
        align(*a.source, *b.source, sequences,
              {.cosine = cosine_,
               .rows = how.rows,
               .progress = [&](double done) { progress.update(static_cast<std::uint64_t>(done * 1000), 1000); },
               .stop = interruptible.token()});
    progress.finish();
    if (!result) return result.error();
    write_texts(a, b, *result);
    result->text = what_was_run(text, a, b);
    if (report) {
      TRY_VOID(report->write(alignment_html(*result)));
      TRY_VOID(report->commit());
    }
    TRY_VOID(print_result(context, alignment_text(*result, static_cast<std::size_t>(top_)), alignment_json(*result)));
    return result->passed ? 0 : static_cast<int>(Code::gate);
  }

 private:
  struct Text {
    std::string origin;              // empty: the command line, or ours
    std::vector<std::string> parts;  // one a sequence; empty: the ids below, if any
    std::vector<std::int32_t> ids;
    bool usual = false;
  };

  Result<Text> read() const {
    Text text;
    if (ids_) {
      TRY(text.ids, read_ids(*ids_, ""));
      if (text.ids.empty()) return usage_error("--ids: expected at least one token id, found none");
    } else if (input_ || prompts_) {
      const std::string& path = input_ ? *input_ : *prompts_;
      text.origin = input_name(path);
      TRY(std::string whole, read_text(path, most_bytes));
      if (input_) {
        text.parts.push_back(std::move(whole));
      } else {
        for (std::size_t at = 0; at < whole.size();) {
          const auto end = std::min(whole.find('\n', at), whole.size());
          if (end > at) text.parts.push_back(whole.substr(at, end - at));
          at = end + 1;
        }
      }
      if (text.parts.empty() || text.parts.front().empty())
        return bad_input("{}: expected a text, found nothing", text.origin);
    } else {
      text.usual = true;
      text.parts.emplace_back(usual_prompt);
    }
    return text;
  }

  // The flags' pins for each ONNX file; what a side says itself holds there.
  Result<void> pin(AlignSpec& a, AlignSpec& b) const {
    if (dims_.empty() && shapes_.empty()) return {};
    if (!a.onnx_file && !b.onnx_file)
      return usage_error("--dim and --shape are for ONNX files, found {} and {}", a_, b_);
    TRY(const OnnxPins pins, read_pins(dims_, shapes_, "--shape"));
    for (AlignSpec* side : {&a, &b}) {
      if (!side->onnx_file) continue;
      side->pins.dims.insert(pins.dims.begin(), pins.dims.end());
      side->pins.shapes.insert(pins.shapes.begin(), pins.shapes.end());
    }
    return {};
  }

  // Empty: what the person gave.
  [[nodiscard]] std::string what_was_run(const Text& text, const AlignSide& a, const AlignSide& b) const {
    if (!text.usual) return "";
    if (!a.ids.empty() || !b.ids.empty()) return "the dump's own ids";
    return a.tokenizer_json || b.tokenizer_json
               ? "a usual prompt (--input, --prompts and --ids give another)"
               : "ids spread over the vocabulary, as neither side has a tokenizer (--ids gives others)";
  }

  // One of them has a tokenizer.
  Result<std::shared_ptr<const Tokenizer>> tokenizer_of(const AlignSide& a, const AlignSide& b) const {
    TRY(const std::string source, a.tokenizer_json ? a.tokenizer_json() : b.tokenizer_json());
    return Tokenizer::from_json(source, a.tokenizer_json ? a_ : b_);
  }

  // What tokens say is for the reader alone: where no tokenizer can be had, their ids stand there.
  void write_texts(const AlignSide& a, const AlignSide& b, Alignment& alignment) const {
    if (!a.tokenizer_json && !b.tokenizer_json) return;
    const auto tokenizer = tokenizer_of(a, b);
    if (!tokenizer) return;
    for (AlignedToken& token : alignment.by_token) {
      const auto id = static_cast<std::int32_t>(token.id);
      token.text = (*tokenizer)->decode({&id, 1}, false);
    }
  }

  Result<Sequences> sequences_of(const Text& text, const AlignSide& a, const AlignSide& b) const {
    const std::vector<std::int32_t>& dumped = a.ids.empty() ? b.ids : a.ids;
    const std::int64_t a_vocab = a.source->vocab(), b_vocab = b.source->vocab();
    if (a_vocab > 0 && b_vocab > 0 && a_vocab != b_vocab)
      return bad_input("{} has {} tokens in its vocabulary, {} has {}: these are not the same model", a_, a_vocab, b_,
                       b_vocab);
    const std::int64_t vocab = std::max(a_vocab, b_vocab);
    Sequences sequences;
    std::string origin = text.usual ? "the usual prompt (--input, --prompts and --ids give another)" : text.origin;
    if (!text.ids.empty()) {
      sequences.push_back(text.ids);
    } else if (text.usual && !dumped.empty()) {
      sequences.push_back(dumped);
      origin = a.ids.empty() ? b_ : a_;
    } else if (a.tokenizer_json || b.tokenizer_json) {
      TRY(const auto loaded, tokenizer_of(a, b));
      for (const std::string& part : text.parts) {
        TRY(auto ids, loaded->encode(part, true));
        if (!ids.empty()) sequences.push_back(std::move(ids));
      }
      if (sequences.empty()) return wrong_input(origin, "expected a text, found nothing that makes tokens");
    } else if (text.usual) {
      // Without a tokenizer a text says nothing: ids spread over the vocabulary.
      constexpr std::int64_t count = 64;
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab));
      sequences.push_back(std::move(ids));
    } else {
      return usage_error("neither {} nor {} has a tokenizer; give token ids (--ids)", a_, b_);
    }
    if (!dumped.empty() && (sequences.size() > 1 || !begins(dumped, sequences[0])))
      return usage_error("the ids asked for are not those of the dump; leave out --ids, --input and --prompts");
    const std::int64_t longest = std::min({tokens_, a.source->longest(), b.source->longest()});
    for (auto& ids : sequences) {
      if (static_cast<std::int64_t>(ids.size()) > longest) ids.resize(static_cast<std::size_t>(longest));
      for (const std::int32_t id : ids)
        for (const AlignSide* side : {&a, &b})
          if (side->source->vocab() > 0 && id >= side->source->vocab())
            return wrong_input(origin, "token id {}: the ids of {} go from 0 to {}", id, side->source->label(),
                               side->source->vocab() - 1);
    }
    return sequences;
  }

  [[nodiscard]] bool begins(const std::vector<std::int32_t>& dumped, const std::vector<std::int32_t>& ids) const {
    const auto count = std::min({dumped.size(), ids.size(), static_cast<std::size_t>(tokens_)});
    return std::equal(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), dumped.begin());
  }

  std::string a_, b_;
  std::optional<std::string> ids_, input_, prompts_, html_, python_;
  std::vector<std::string> dims_, shapes_;
  std::int64_t tokens_ = 128, top_ = 20, limit_ = 600;
  double cosine_ = 0.999;
};

}  // namespace

std::unique_ptr<Command> make_align_command() { return std::make_unique<AlignCommand>(); }

}  // namespace knapsack
