#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/limits.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/isa.h"
#include "cli/output_file.h"
#include "evaluate/tune.h"
#include "report/progress.h"
#include "report/table.h"

namespace knapsack {
namespace {

const ChoiceInfo& info_of(const Tuned& tuned) { return all_choices()[static_cast<std::size_t>(tuned.choice)]; }

class TuneCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "Kernels can go about a product of integers in several ways, all with the same result; which is fastest "
        "depends on the machine. Each value is measured beside what is built in, turn by turn, on made-up weights of "
        "every "
        "kind (codes of 4, 5, 6 and 8 bits, with mins or in groups of 16), and is chosen only where it is faster by "
        "more "
        "than the measurements scatter. On a machine that others use, too, little or nothing is chosen, and rightly.\n"
        "With -o what is chosen otherwise than built in goes into FILE, with the lines that FILE holds about anything "
        "else. Every command that multiplies reads the table in $KNAPSACK_CHOICES (none where that is empty), else in "
        "$XDG_CONFIG_HOME/knapsack/choices (~/.config without that variable), where it is there: to undo, delete it.\n"
        "ahead: bytes of weights fetched ahead of their use. pieces: at most so many a thread that a product is cut "
        "into. vectors: how many share what is loaded of the tokens. tiles: the fewest tokens for AMX's tiles.");
    isa_flag(arguments, isa_);
    arguments.number("--time", seconds_, 0.001, 600,
                     "seconds for each choice; in less than 2, fewer weights are read, which caches may hold");
    arguments.text("-o,--output", "FILE", output_, "write the table of choices there").complete = Complete::file;
    arguments.example("knapsack tune", "what would be chosen on this machine");
    arguments.example("knapsack tune -o ~/.config/knapsack/choices", "and use it from now on");
    arguments.example("KNAPSACK_CHOICES=new knapsack bench model.gguf", "try a table before it is put in its place");
  }

  Result<int> run(Context& context) override {
    TuneOptions options{.threads = context.threads > 0 ? context.threads : available_cores(), .seconds = seconds_};
    constexpr double bytes_a_second = 64 << 20;
    options.bytes = static_cast<std::int64_t>(bytes_a_second * std::clamp(seconds_, 0.0625, 2.0));
    TRY(options.isa, chosen_isa(isa_));
    if (options.isa == Isa::scalar) return usage_error("scalar has nothing to choose; name another instruction set");
    // What is in the file already, and whether it can be written, is looked at before the minutes that measuring takes.
    Choices before;
    std::optional<AtomicFile> file;
    if (output_) {
      TRY_VOID(file_or_nothing(*output_, "-o"));
      std::error_code failed;  // told by create()
      if (std::filesystem::exists(*output_, failed)) {
        TRY(before, Choices::read(*output_));
      }
      std::filesystem::create_directories(std::filesystem::path(*output_).parent_path(), failed);
      TRY(auto created, AtomicFile::create(*output_));
      file.emplace(std::move(created));
    }
    Interruptible interruptible;
    Progress progress("measuring", "permille", context.quiet);
    options.progress = [&](double done) { progress.update(static_cast<std::uint64_t>(done * 1000), 1000); };
    TRY(const auto tuned, tune(options, interruptible.token()));
    progress.finish();
    if (file) {
      TRY_VOID(file->write(choices_text(options.isa, tuned, before.lines())));
      TRY_VOID(file->commit());
    }
    return print_result(context, text_of(options, tuned), json_of(options, tuned));
  }

 private:
  static std::string text_of(const TuneOptions& options, const std::vector<Tuned>& all) {
    using Align = Table::Align;
    Table table({{"codes"},
                 {"tokens"},
                 {"choice"},
                 {"value", Align::right},
                 {"speed", Align::right},
                 {"spread", Align::right},
                 {""}});
    std::size_t changed = 0;
    double noise = 0;
    for (const Tuned& tuned : all) {
      const ChoiceInfo& info = info_of(tuned);
      const auto row = [&](std::int64_t value, double ratio, double spread, const char* verdict) {
        table.row({tuned.codes, std::string(info.tokens), std::string(info.name), std::to_string(value),
                   fmt::format("{:.3f}", ratio), fmt::format("{:.3f}", spread), verdict});
      };
      const bool kept = tuned.chosen == tuned.before;
      if (!kept) ++changed;
      noise = std::max(noise, tuned.noise);
      row(tuned.before, 1, tuned.noise, kept ? "built in, kept" : "built in");
      for (const Tried& tried : tuned.tried) {
        const bool within = tried.ratio > 1 && tried.value != tuned.chosen;
        row(tried.value, tried.ratio, tried.spread,
            tried.value == tuned.chosen ? "chosen"
            : within && kept            ? "not for sure"
                                        : "");
      }
    }
    std::string text = fmt::format("{}, {} thread{}: {} of {} choices changed\n\n{}", isa_name(options.isa),
                                   options.threads, options.threads == 1 ? "" : "s", changed, all.size(), table.text());
    text +=
        "\nspeed: as a multiple of what is built in; spread: three quarters of the rounds lie within it. Chosen is "
        "what "
        "leads by\nmore than its spread, than that of what is built in, and than 0.01; \"not for sure\" leads by "
        "less.\n";
    constexpr double busy = 0.1;
    if (noise > busy)
      text += fmt::format(
          "One and the same choice differed from itself by up to {:.0f} %: this machine was busy, or --time short; on "
          "a "
          "quiet one more may be chosen.\n",
          100 * noise);
    return text;
  }

  [[nodiscard]] json::object json_of(const TuneOptions& options, const std::vector<Tuned>& all) const {
    json::array choices;
    for (const Tuned& tuned : all) {
      json::array tried;
      for (const Tried& t : tuned.tried)
        tried.push_back(json::object{{"value", t.value}, {"ratio", t.ratio}, {"spread", t.spread}});
      const ChoiceInfo& info = info_of(tuned);
      choices.push_back(json::object{{"codes", tuned.codes},
                                     {"tokens", info.tokens},
                                     {"choice", info.name},
                                     {"built_in", tuned.before},
                                     {"chosen", tuned.chosen},
                                     {"noise", tuned.noise},
                                     {"tried", std::move(tried)}});
    }
    return {{"isa", isa_name(options.isa)},
            {"threads", options.threads},
            {"choices", std::move(choices)},
            {"output", output_ ? json::value(*output_) : json::value(nullptr)}};
  }

  std::optional<std::string> isa_, output_;
  double seconds_ = 2;
};

}  // namespace

std::unique_ptr<Command> make_tune_command() { return std::make_unique<TuneCommand>(); }

}  // namespace knapsack
