// The one door for JSON from outside: what it refuses, and that its messages say where.
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace knapsack {
namespace {

std::string failure(std::string_view text) {
  const auto value = parse_json(text, "x.json");
  EXPECT_FALSE(value.has_value()) << text;
  if (value) return "";
  EXPECT_EQ(value.error().code, Code::bad_input);
  EXPECT_TRUE(value.error().message.starts_with("x.json: ")) << value.error().message;
  return value.error().message;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

json::object object(std::string_view text) {
  auto value = parse_json_object(text, "x.json");
  EXPECT_TRUE(value.has_value());
  return std::move(value).value();
}

TEST(Json, ReadsEveryKind) {
  const auto value = parse_json(R"( {"a":[1,-2,18446744073709551615,0.1,true,null,"é\n\u00e9"],"b":{}} )", "x.json");
  ASSERT_TRUE(value.has_value());
  const auto& a = value->at("a").as_array();
  EXPECT_EQ(a[0].as_int64(), 1);
  EXPECT_EQ(a[1].as_int64(), -2);
  EXPECT_EQ(a[2].as_uint64(), UINT64_MAX);
  EXPECT_EQ(a[3].as_double(), 0.1);
  EXPECT_TRUE(a[4].as_bool());
  EXPECT_TRUE(a[5].is_null());
  EXPECT_EQ(a[6].as_string(), "é\né");
  EXPECT_TRUE(value->at("b").as_object().empty());
  EXPECT_TRUE(parse_json("3", "x.json").has_value());
}

TEST(Json, RoundsDoublesCorrectly) {
  for (const char* text : {"1e-06", "1e-05", "0.000001", "2.2250738585072014e-308", "1.7976931348623157e308", "4.35",
                           "0.06666666666666667", "123456789012345678901234567890", "5e-324", "9007199254740993.0"}) {
    const auto value = parse_json(text, "x.json");
    ASSERT_TRUE(value.has_value()) << text;
    EXPECT_EQ(value->to_number<double>(), std::strtod(text, nullptr)) << text;
  }
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_TRUE(contains(failure(R"({"a":1,"b":2,"a":3})"), "duplicate key 'a'"));
  EXPECT_TRUE(contains(failure(R"({"x":{"k":1,"\u006b":2}})"), "duplicate key 'k'"));
  EXPECT_TRUE(parse_json(R"([{"a":1},{"a":2}])", "x.json").has_value());
}

TEST(Json, CapsDepth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64), "x.json").has_value());
  EXPECT_TRUE(contains(failure(nested(65)), "nested deeper than 64 levels at byte"));
  EXPECT_TRUE(contains(failure(std::string(5'000'000, '[')), "nested deeper"));
}

TEST(Json, NamesTheByte) {
  EXPECT_TRUE(contains(failure(R"({"a":tru})"), "at byte 5"));
  EXPECT_TRUE(contains(failure("\xef\xbb\xbf{\"a\":tru}"), "at byte 8, near 'tru}'"));
  EXPECT_TRUE(contains(failure("{} x"), "unexpected text after the value at byte 3"));
  EXPECT_TRUE(contains(failure("{\"a\": 1"), "ends too early at byte 7"));
  EXPECT_TRUE(contains(failure(""), "no value"));
  EXPECT_TRUE(contains(failure(" \n"), "no value"));
  EXPECT_TRUE(contains(failure("\xff\xfe{\0}\0"), "UTF-16"));
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"{'a':1}", "{\"a\":1,}", "[1,]", "// c\n1", "01", "+1", "\"a\nb\"", "\"\\ud800\"", "\"\\x\"",
                           "{\"a\" 1}", "[1 2]", "{1:2}", "nul", "\x01", "\"a"})
    failure(text);
  failure(std::string("\"a\xc3(\""));
  failure(std::string("\"\xed\xa0\x80\""));
  failure(std::string("\"\xc0\xaf\""));
  failure(std::string("1\0", 2));
}

TEST(Json, TakesInfinityButNotNaN) {
  const auto value = parse_json(R"(["Infinity \" Infinity", Infinity, -Infinity])", "x.json");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->as_array()[0].as_string(), "Infinity \" Infinity");
  EXPECT_EQ(value->as_array()[1].as_double(), HUGE_VAL);
  EXPECT_EQ(value->as_array()[2].as_double(), -HUGE_VAL);
  EXPECT_TRUE(contains(failure(R"({"a": NaN})"), "NaN"));
  EXPECT_TRUE(contains(failure("[Infinity, x]"), "at byte 11"));
}

TEST(Json, SkipsByteOrderMark) { EXPECT_TRUE(parse_json("\xef\xbb\xbf{}", "x.json").has_value()); }

TEST(Json, TypedFields) {
  const auto o = object(R"({"i":5,"f":2.5,"w":7.0,"s":"t","b":true,"n":null,"big":18446744073709551615,
                            "huge":1e300,"inf":Infinity,"o":{},"a":[]})");
  EXPECT_EQ(*json_int(o, "i", "x", 0, 10), 5);
  EXPECT_EQ(*json_int(o, "w", "x", 0, 10), 7);
  EXPECT_FALSE(json_int(o, "i", "x", 6, 10).has_value());
  EXPECT_FALSE(json_int(o, "i", "x", 0, 4).has_value());
  for (const char* key : {"f", "s", "b", "n", "big", "huge", "inf", "o", "a", "absent"})
    EXPECT_FALSE(json_int(o, key, "x", -10, 10).has_value()) << key;
  EXPECT_EQ(*json_number(o, "f", "x", 0, 10), 2.5);
  EXPECT_EQ(*json_number(o, "i", "x", 0, 10), 5);
  for (const char* key : {"s", "b", "n", "inf", "huge", "absent"})
    EXPECT_FALSE(json_number(o, key, "x", 0, 1e30).has_value()) << key;
  EXPECT_TRUE(*json_bool(o, "b", "x"));
  EXPECT_FALSE(json_bool(o, "i", "x").has_value());
  EXPECT_EQ(*json_string(o, "s", "x"), "t");
  EXPECT_FALSE(json_string(o, "i", "x").has_value());
  EXPECT_TRUE(json_object(o, "o", "x").has_value());
  EXPECT_FALSE(json_object(o, "a", "x").has_value());
  EXPECT_TRUE(json_array(o, "a", "x").has_value());
  EXPECT_FALSE(json_array(o, "absent", "x").has_value());
  EXPECT_EQ(json_int(o, "f", "x", 1, 9).error().message, "x: 'f' must be an integer from 1 to 9, found 2.5");
  EXPECT_EQ(json_int(o, "absent", "x").error().message, "x: 'absent' is missing (expected an integer)");
  EXPECT_EQ(json_int(o, "s", "x").error().message, "x: 's' must be an integer, found the string 't'");
}

TEST(Json, OptionalFields) {
  const auto o = object(R"({"i":5,"n":null,"s":"t"})");
  EXPECT_EQ(json_int_if(o, "i", "x").value(), 5);
  EXPECT_EQ(json_int_if(o, "n", "x").value(), std::nullopt);
  EXPECT_EQ(json_int_if(o, "absent", "x").value(), std::nullopt);
  EXPECT_FALSE(json_int_if(o, "s", "x").has_value());
  EXPECT_EQ(json_number_if(o, "absent", "x", 0, 1).value(), std::nullopt);
  EXPECT_EQ(json_bool_if(o, "n", "x").value(), std::nullopt);
  EXPECT_EQ(json_string_if(o, "s", "x").value(), "t");
  EXPECT_EQ(*json_object_if(o, "n", "x"), nullptr);
  EXPECT_FALSE(json_array_if(o, "s", "x").has_value());
}

}  // namespace
}  // namespace knapsack
