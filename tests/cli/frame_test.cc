// The frame that all commands share: help, errors, exit codes, standard streams, completions, generated documents.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/json.h"
#include "cli/commands/command.h"
#include "cli/help.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::run;
using testing::TempDir;

testing::CommandResult shell(const std::string& script) {
  return run({"bash", "-c", script}, "", {"KNAPSACK=" + binary()});
}

bool one_error_line(const std::string& text) {
  return text.starts_with("knapsack: error: ") && text.find('\n') == text.size() - 1;
}

TEST(Commands, EachHasHelpWithAnExampleAndItsPlaceInTheDocuments) {
  const std::string docs = testing::read_file(testing::source_dir() / "docs/cli.md");
  for (const auto& entry : all_commands()) {
    const std::string name(entry.name);
    const auto help = run({binary(), name, "--help"});
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_EQ(help.err, "") << name;
    EXPECT_TRUE(help.out.starts_with("knapsack " + name + ": ")) << help.out;
    EXPECT_NE(help.out.find("\nExamples:\n  "), std::string::npos) << name;
    EXPECT_EQ(run({binary(), "help", name}).out, help.out);
    EXPECT_EQ(run({binary(), name, "-h", "and", "--nonsense"}).exit_code, 2) << "an unknown option is told even so";
    EXPECT_NE(docs.find("\n## " + name + "\n"), std::string::npos) << name;
    const Prepared prepared(entry);
    EXPECT_FALSE(prepared.arguments.examples().empty()) << name;
    for (const auto& argument : prepared.arguments.all()) EXPECT_FALSE(argument.help.empty()) << name;
  }
}

TEST(Commands, DocumentsAreCurrent) {
  EXPECT_EQ(testing::read_file(testing::source_dir() / "docs/cli.md"), markdown_help())
      << "run `knapsack help --markdown > docs/cli.md`";
  EXPECT_EQ(testing::read_file(testing::source_dir() / "docs/knapsack.1"), man_page())
      << "run `knapsack help --man > docs/knapsack.1`";
}

TEST(Commands, ManPageIsTakenByGroffWithoutAWord) {
  if (std::system("groff --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no groff here";
  const auto result = shell("\"$KNAPSACK\" help --man | groff -man -Tutf8 -ww -P-cbou");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("EXIT STATUS"), std::string::npos);
}

TEST(Errors, UsageIsTwoAndNamesTheNearest) {
  const auto command = run({binary(), "versoin"});
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_EQ(command.out, "");
  EXPECT_TRUE(one_error_line(command.err)) << command.err;
  EXPECT_NE(command.err.find("did you mean version?"), std::string::npos) << command.err;
  const auto option = run({binary(), "version", "--jsn"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_NE(option.err.find("did you mean --json?"), std::string::npos) << option.err;
  EXPECT_NE(run({binary(), "rnu"}).err.find("did you mean run?"), std::string::npos) << "two letters swapped";
  const auto longer = run({binary(), "run", "m", "--ctx-size", "9"});
  EXPECT_NE(longer.err.find("did you mean --ctx?"), std::string::npos) << longer.err;
  EXPECT_EQ(run({binary()}).exit_code, 2);
  EXPECT_EQ(run({binary(), "--threads"}).exit_code, 2);
  EXPECT_EQ(run({binary(), "version", "surplus"}).exit_code, 2);
  EXPECT_EQ(run({binary(), "version", "--json=1"}).exit_code, 2);
  EXPECT_EQ(run({binary(), "help", "nothing"}).exit_code, 2);
  EXPECT_EQ(run({binary(), "completions", "tcsh"}).exit_code, 2);
}

TEST(Errors, WithJsonThereIsOneObjectOnStdoutAllTheSame) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"--json"},
                                                                 {"nothing", "--json"},
                                                                 {"--json", "version", "--bogus"},
                                                                 {"version", "--json", "--threads", "0"}}) {
    std::vector<std::string> argv{binary()};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto result = run(argv);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(one_error_line(result.err)) << result.err;
    const auto object = parse_json_object(result.out, "stdout");
    ASSERT_TRUE(object) << result.out;
    EXPECT_EQ(object->at("error").at("code").as_int64(), 2);
  }
}

TEST(Commands, HelpAndVersionAreObjectsWithJson) {
  const auto object_of = [](std::vector<std::string> words) {
    words.insert(words.begin(), binary());
    const auto result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const auto object = parse_json_object(result.out, "stdout");
    EXPECT_TRUE(object) << result.out;
    return object ? *object : json::object();
  };
  EXPECT_EQ(object_of({"--version", "--json"}), object_of({"version", "--json"}));
  EXPECT_EQ(object_of({"--json", "--help"}), object_of({"help", "--json"}));
  EXPECT_EQ(object_of({"run", "--help", "--json"}), object_of({"help", "run", "--json"}));
  EXPECT_EQ(run({binary(), "--help", "run"}).out, run({binary(), "help", "run"}).out);
  EXPECT_EQ(run({binary(), "-t", "2", "version"}).out, run({binary(), "version"}).out);
}

TEST(Commands, UsageNamesTheOptionsThatMustBeGiven) {
  EXPECT_NE(run({binary(), "convert", "--help"}).out.find("Usage: knapsack convert MODEL -o FILE [options]\n"),
            std::string::npos);
  EXPECT_NE(run({binary(), "template", "--help"}).out.find("Usage: knapsack template TEMPLATE --vars FILE [options]\n"),
            std::string::npos);
}

TEST(Errors, AHostileWordCannotDriveTheTerminalOrBreakTheLine) {
  const auto result = run({binary(), "\x1b[2J\nfake line\xff"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(one_error_line(result.err)) << result.err;
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.err.find('\xff'), std::string::npos);
}

TEST(Options, EveryNumberRefusesWhatIsNone) {
  const std::vector<std::string> bad{"",
                                     " 1",
                                     "1 ",
                                     "0x10",
                                     "1e999999",
                                     "nan",
                                     "inf",
                                     "-inf",
                                     "--",
                                     "-",
                                     "1,5",
                                     "９",
                                     "1.5.",
                                     "+",
                                     "99999999999999999999999999999999",
                                     "-99999999999999999999999999999999"};
  for (const auto& entry : all_commands()) {
    const Prepared names(entry);
    for (const auto& argument : names.arguments.all()) {
      if (argument.value != "N" && argument.value != "X") continue;
      for (const auto& value : bad) {
        Prepared fresh(entry);
        const std::vector<std::string> words{argument.names.back() + "=" + value};
        bool help = false;
        const auto parsed = parse(fresh.arguments, words, "knapsack", help);
        ASSERT_FALSE(parsed) << entry.name << " " << words[0];
        EXPECT_EQ(parsed.error().code, Code::usage);
        EXPECT_TRUE(parsed.error().message.starts_with(argument.names.back() + ": ")) << parsed.error().message;
      }
    }
  }
}

TEST(Options, AreReadAsPeopleWriteThem) {
  bool a = false, b = false, help = false;
  int n = 0;
  std::string model, text;
  std::vector<std::string> stops, rest;
  Arguments arguments;
  arguments.positional("MODEL", model, "m");
  arguments.positional("REST", rest, "r");
  arguments.flag("-a,--all", a, "a");
  arguments.flag("-b", b, "b");
  arguments.integer("-n,--number", n, -5, 5, "n");
  arguments.text("-t,--text", "T", text, "t");
  arguments.texts("--stop", "T", stops, "s");
  const std::vector<std::string> words{"m",     "-abn", "-3", "--stop", "--all", "--stop=", "--stop=[a,b]",
                                       "-tx=y", "--",   "-n", "--",     "世界"};
  const auto parsed = parse(arguments, words, "knapsack", help);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(a && b);
  EXPECT_EQ(n, -3);
  EXPECT_EQ(text, "x=y");
  EXPECT_EQ(stops, (std::vector<std::string>{"--all", "", "[a,b]"}));
  EXPECT_EQ(rest, (std::vector<std::string>{"-n", "--", "世界"}));
  EXPECT_TRUE(arguments.given("--all"));
}

// What a parser that guesses would take for something else: lists, options, numbers, names of commands.
TEST(Options, AValueIsTakenAsItStands) {
  const std::vector<std::string> values{"",       "[a,b]", "[]",   "[",  "a,b",     "-5",  "-1.5", "-",
                                        "--",     "--all", "-a",   "-n", "--stop=", "---", "-!x",  "--text=x",
                                        "a=",     "=",     "true", "{}", "%%",      "++",  "/x:y", "inspect",
                                        "--help", "\n",    " ",    "世", "-世"};
  for (const auto& value : values) {
    bool a = false, help = false;
    std::string text;
    std::vector<std::string> stops, rest;
    Arguments arguments;
    arguments.positional("REST", rest, "r");
    arguments.flag("-a,--all", a, "a");
    arguments.text("-t,--text", "T", text, "t");
    arguments.texts("--stop", "T", stops, "s");
    std::vector<std::string> words{"--stop", value, "--stop=" + value, "--text", value};
    std::vector<std::string> expected_stops{value, value};
    if (!value.empty()) words.push_back("-at" + value);  // "-at" alone takes the next word
    words.insert(words.end(), {"--", value, value});
    const auto parsed = parse(arguments, words, "knapsack", help);
    ASSERT_TRUE(parsed) << value << ": " << parsed.error().message;
    EXPECT_EQ(text, value);
    EXPECT_EQ(a, !value.empty());
    EXPECT_EQ(stops, expected_stops) << value;
    EXPECT_EQ(rest, (std::vector<std::string>{value, value}));
  }
}

TEST(Options, NothingIsGuessed) {
  for (const std::string word :
       {"-5",       "-1.5",  "---all",   "-!",         "- ",          "-a-number=3", "-a5",    "-a-",
        "--al",     "--ALL", "--numb=3", "--all=true", "--all=false", "--all={}",    "--all=", "-a=true",
        "--no-all", "-A",    "-世",      "--=",        "-=",          "--number=3=", "/all"}) {
    bool a = false, help = false;
    int n = 0;
    std::string only;
    Arguments arguments;
    arguments.positional("ONLY", only, "o");
    arguments.flag("-a,--all", a, "a");
    arguments.integer("-n,--number", n, -5, 5, "n");
    const auto parsed = parse(arguments, std::vector<std::string>{"x", word}, "knapsack", help);
    ASSERT_FALSE(parsed) << word;
    EXPECT_EQ(parsed.error().code, Code::usage) << word;
    EXPECT_NE(parsed.error().message.find("see `knapsack --help`"), std::string::npos) << parsed.error().message;
    EXPECT_TRUE(parse(arguments, std::vector<std::string>{"--", word}, "knapsack", help)) << word;
    EXPECT_EQ(only, word);
  }
  const auto environment = run({binary(), "version"}, "", {"JSON=1", "KNAPSACK_JSON=1", "HELP=1"});
  EXPECT_TRUE(environment.out.starts_with("knapsack ")) << environment.out;
}

TEST(Options, TextIsUtf8AndAPathAnyBytes) {
  bool help = false;
  std::string text, path;
  Arguments arguments;
  arguments.text("--text", "T", text, "t");
  arguments.text("--path", "P", path, "p").complete = Complete::file;
  const auto parsed =
      parse(arguments, std::vector<std::string>{"--path", "a\xff", "--text", "a\xff"}, "knapsack", help);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::usage);
  EXPECT_TRUE(parsed.error().message.starts_with("--text: expected text in UTF-8, found something else at byte 1"))
      << parsed.error().message;
  EXPECT_EQ(path, "a\xff");
}

TEST(Options, MissingOnesAreNamed) {
  bool help = false;
  std::string model, out;
  Arguments arguments;
  arguments.positional("MODEL", model, "the model");
  arguments.text("-o,--output", "FILE", out, "where to").required = true;
  const auto none = parse(arguments, {}, "knapsack", help);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().message.starts_with("MODEL is missing")) << none.error().message;
  const std::vector<std::string> words{"m", "-o"};
  const auto value = parse(arguments, words, "knapsack", help);
  ASSERT_FALSE(value);
  EXPECT_NE(value.error().message.find("--output needs a value"), std::string::npos) << value.error().message;
  const std::vector<std::string> surplus{"m", "-o", "f", "--", "-o"};
  const auto positional = parse(arguments, surplus, "knapsack", help);
  ASSERT_FALSE(positional);
  EXPECT_TRUE(positional.error().message.starts_with("unexpected argument \"-o\"")) << positional.error().message;
  help = true;
  EXPECT_TRUE(parse(arguments, {}, "knapsack", help));
}

TEST(Options, IdsComeSeparatedByAnything) {
  EXPECT_EQ(*to_ids("1,2 3\n4,,\t5 "), (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(to_ids("")->empty());
  for (const char* bad : {"1,-2", "1;2", "2147483648", "1.0", "x"}) EXPECT_FALSE(to_ids(bad)) << bad;
}

TEST(Streams, AFullDiskAndAClosedStdoutAreErrors) {
  for (const auto& entry : all_commands()) {
    const std::string name(entry.name);
    const auto full = shell("\"$KNAPSACK\" " + name + " --help > /dev/full");
    EXPECT_EQ(full.exit_code, 5) << name;
    EXPECT_TRUE(one_error_line(full.err)) << full.err;
    EXPECT_EQ(shell("\"$KNAPSACK\" " + name + " --help >&-").exit_code, 5) << name;
    EXPECT_EQ(shell("\"$KNAPSACK\" " + name + " --help <&- 2>&-").exit_code, 0) << name;
  }
}

TEST(Streams, AReaderThatHasEnoughIsNoError) {
  const auto result = shell("set -o pipefail; for i in $(seq 50); do \"$KNAPSACK\" help --markdown | head -1; done");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Streams, NothingIsColouredAwayFromATerminalAndLocalesDoNotMatter) {
  for (const char* locale : {"LC_ALL=C", "LC_ALL=POSIX", "LC_ALL=de_DE.UTF-8", "LC_ALL=nonsense"}) {
    const auto result = run({binary(), "日本語"}, "", {locale, "TERM=xterm-256color"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
    EXPECT_NE(result.err.find("日本語"), std::string::npos) << result.err;
  }
}

TEST(Version, SaysWhatWasBuilt) {
  const auto object = parse_json_object(run({binary(), "--json", "version"}).out, "stdout");
  ASSERT_TRUE(object);
  for (const char* key : {"version", "commit", "compiler", "isa", "formats", "architectures"})
    EXPECT_TRUE(object->contains(key)) << key;
  EXPECT_EQ(run({binary(), "--version"}).out, run({binary(), "version"}).out);
  EXPECT_EQ(run({binary(), "version"}).exit_code, 0);
}

TEST(Completions, AreTakenByTheirShells) {
  TempDir folder;
  for (const std::string shell_name : {"bash", "zsh", "fish"}) {
    const auto script = run({binary(), "completions", shell_name});
    ASSERT_EQ(script.exit_code, 0);
    const std::string path = folder.file(shell_name);
    testing::write_file(path, script.out);
    if (std::system(("command -v " + shell_name + " > /dev/null").c_str()) != 0) continue;
    const auto checked = run({shell_name, "-n", path});
    EXPECT_EQ(checked.exit_code, 0) << shell_name << ": " << checked.err;
  }
}

// What bash would offer for a line whose last word is being typed.
std::string complete(const std::string& words) {
  return shell("source <(\"$KNAPSACK\" completions bash); COMP_WORDS=(" + words +
               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _knapsack; echo \"${COMPREPLY[*]}\"")
      .out;
}

TEST(Completions, BashOffersCommandsOptionsAndChoices) {
  EXPECT_EQ(complete("knapsack vers"), "version\n");
  EXPECT_EQ(complete("knapsack completions z"), "zsh\n");
  EXPECT_EQ(complete("knapsack --threads 2 version --js"), "--json\n");
  EXPECT_EQ(complete("knapsack help comp"), "completions\n");
  EXPECT_EQ(complete("knapsack version --threads ''"), "\n");
  EXPECT_EQ(complete("knapsack run m --kv f1"), "f16\n");
  EXPECT_EQ(complete("knapsack run m --kv = f3"), "f32\n");
}

}  // namespace
}  // namespace knapsack
