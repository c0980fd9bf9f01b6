// Templates against Python's Jinja2: the fifteen real ones with transformers' own outputs, and snippets that
// tools/golden/jinja_cases.py made.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/json.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::data_path;
using testing::read_file;

json::value parsed(const std::filesystem::path& path) {
  auto value = parse_json(read_file(path), path.string());
  EXPECT_TRUE(value.has_value());
  return *value;
}

TEST(ChatTemplate, RealTemplatesAsTransformersRendersThem) {
  const auto folder = data_path("data/text/templates");
  const json::value all = parsed(folder / "cases.json");
  std::string clock(all.at("clock").as_string());
  clock[clock.find(' ')] = 'T';
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() == "cases.json") continue;
    const json::value file = parsed(entry.path());
    for (const auto& result : file.at("results").as_array()) {
      const json::object& c = all.at("cases").at(result.at("case").as_string()).as_object();
      json::object variables = all.at("special").as_object();
      variables["messages"] = c.at("messages");
      variables["add_generation_prompt"] = c.at("gen");
      variables["tools"] = c.contains("tools") ? c.at("tools") : json::value();
      variables["documents"] = nullptr;
      if (const auto* more = c.if_contains("kw")) {
        for (const auto& [key, value] : more->as_object()) variables[key] = value;
      }
      SCOPED_TRACE(entry.path().filename().string() + " " + std::string(result.at("case").as_string()));
      auto text = render_chat_template(std::string(file.at("template").as_string()), json::serialize(variables), clock,
                                       "template");
      if (const auto* output = result.as_object().if_contains("output")) {
        ASSERT_TRUE(text.has_value()) << text.error().message;
        EXPECT_EQ(*text, std::string(output->as_string()));
      } else {
        EXPECT_FALSE(text.has_value());
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 135);
}

// Those that jinja_differences.json lists differ, in the way it says; all others are equal.
TEST(ChatTemplate, SnippetsAsPythonRendersThem) {
  const json::value all = parsed(data_path("data/text/jinja_cases.json"));
  const json::value listed = parsed(data_path("data/text/jinja_differences.json"));
  const auto shown = [](const json::value* text) {
    return text != nullptr && text->is_string() ? std::string(text->as_string()) : std::string("an error");
  };
  std::map<std::string, const json::object*> differences;
  for (const auto& d : listed.at("differences").as_array()) {
    differences[std::string(d.at("source").as_string())] = &d.as_object();
  }
  ASSERT_EQ(differences.size(), listed.at("differences").as_array().size());
  EXPECT_LT(differences.size() * 100, all.at("cases").as_array().size() * 3);
  const std::string variables = json::serialize(all.at("variables"));
  const std::string clock(all.at("clock").as_string());
  for (const auto& c : all.at("cases").as_array()) {
    const std::string source(c.at("source").as_string());
    auto text = render_chat_template(source, variables, clock, "snippet");
    const std::string got = text.has_value() ? *text : "an error";
    const std::string python = shown(c.as_object().if_contains("output"));
    SCOPED_TRACE(source + (text.has_value() ? "" : ": " + text.error().message));
    const auto difference = differences.find(source);
    if (difference == differences.end()) {
      EXPECT_EQ(got, python);
      continue;
    }
    EXPECT_EQ(got, shown(&difference->second->at("ours")));
    EXPECT_EQ(python, shown(&difference->second->at("python")));
    EXPECT_NE(got, python) << "equal now: take it from jinja_differences.json";
    differences.erase(difference);
  }
  for (const auto& [source, d] : differences) ADD_FAILURE() << "no such case: " << source;
}

TEST(ChatTemplate, BombsAreErrors) {
  const std::string doubled =
      "{% set ns = namespace(s=[]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}";
  for (const std::string& source :
       {std::string("{% for i in range(10**12) %}x{% endfor %}"),
        std::string("{{ 'x' * 10**12 }}"),
        std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        std::string("{{ [1] * 10**9 }}"),
        std::string("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
        doubled + "{{ ns.s }}",
        doubled + "{{ ns.s | string | length }}",
        doubled + "{{ ns.s | tojson }}",
        std::string("{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}"),
        "{{ " + std::string(100'000, '(') + " }}",
        "{{ " + std::string(100'000, '-') + "1 }}",
        std::string("{{ '%999999999d' % 1 }}"),
        std::string("{{ '{:999999999}'.format(1) }}"),
        std::string("{{ 2 ** 9999 }}"),
        std::string("{{ 'x'.center(10**9) }}"),
        std::string("{{ ([[1] * 10**6] * 10**6) ~ '' }}"),
        std::string("{{ (['x' * 10**6] * 10**5) | upper }}"),
        std::string("{{ ('x' * 10**6).replace('', 'y' * 10**6) }}"),
        std::string("{% set ns = namespace(s=()) %}{% for i in range(99) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}"
                    "{{ {ns.s: 1} }}"),
        std::string("{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.x = b %}{{ a ~ b }}"),
        std::string(
            "{% set ns = namespace() %}{% for i in range(9999) %}{% set ns.s = namespace(s=ns.s) %}{% endfor %}"),
        std::string("{% for i in range(10**5) %}{{ 'x' * 10**5 }}{% endfor %}"),
        std::string("{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}")}) {
    auto text = render_chat_template(source, "{}", std::nullopt, "bomb");
    ASSERT_FALSE(text.has_value()) << source.substr(0, 100);
    EXPECT_EQ(text.error().code, Code::bad_input);
  }
}

}  // namespace
}  // namespace knapsack
