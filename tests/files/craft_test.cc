// What craft.h declares. Named _test so that it is compiled into test_files.
#include "files/craft.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace knapsack::testing {

CraftedGguf::CraftedGguf() {
  entry("general.architecture", 8, Bytes().string("llama"));
  entry("llama.block_count", 4, Bytes().u32(7));
  entry("tokenizer.ggml.tokens", 9, Bytes().u32(8).u64(2).string("<s>").string("b"));
  entry("tokenizer.ggml.scores", 9, Bytes().u32(6).u64(2).put(0.5F).put(-1.0F));
  tensors = {{"a", {4}, 0, 0, {}}, {"b", {4, 3}, 0, 32, {}}, {"c", {32, 2}, 8, 96, {}}};
  data = std::string(96 + 68, '\1');
}

CraftedGguf& CraftedGguf::entry(std::string key, std::uint32_t type, const Bytes& value) {
  entries.emplace_back(std::move(key), Bytes().u32(type).raw(value.text()).text());
  return *this;
}

std::string CraftedGguf::build() const {
  Bytes out;
  out.raw(magic).u32(version).u64(n_tensors.value_or(tensors.size())).u64(n_entries.value_or(entries.size()));
  for (const auto& [key, value] : entries) out.string(key).raw(value);
  for (const auto& tensor : tensors) {
    out.string(tensor.name).u32(tensor.n_dims.value_or(static_cast<std::uint32_t>(tensor.dims.size())));
    for (const auto dim : tensor.dims) out.u64(dim);
    out.u32(tensor.type).u64(tensor.offset);
  }
  std::string text = out.text();
  if (!data.empty()) text.resize((text.size() + alignment - 1) / alignment * alignment);
  return text + data;
}

std::string crafted_safetensors(const std::string& header, const std::string& data) {
  return Bytes().string(header).raw(data).text();
}

CraftedOnnx::CraftedOnnx() {
  tensor.number(1, 2).number(2, 1).bytes(8, "w").bytes(9, std::string(8, '\1'));
  node.bytes(1, "x").bytes(1, "w").bytes(2, "y").bytes(3, "add").bytes(4, "Add");
}

Proto CraftedOnnx::value(const std::string& name, const Proto& dims) {
  return Proto().bytes(1, name).message(2, Proto().message(1, Proto().number(1, 1).message(2, dims)));
}

std::string CraftedOnnx::build() const {
  const Proto dims = Proto().message(1, Proto().bytes(2, "n")).message(1, Proto().number(1, 2));
  Proto graph;
  graph.message(1, node).bytes(2, "g").message(5, tensor).message(11, value("x", dims)).message(12, value("y", dims));
  graph.raw(more_graph.text());
  const Proto opset = Proto().bytes(1, "").number(2, 17);
  return Proto().number(1, 8).message(7, graph).message(8, opset).raw(more_model.text()).text();
}

namespace {

Attempt in_child(const std::function<Result<void>()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const auto result = work();
    std::string line = "+";
    if (!result) line = std::string(1, static_cast<char>(result.error().code)) + result.error().message;
    const bool sent = write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size());
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  std::string line;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) line.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child ended with status " << status;
  Attempt attempt;
  attempt.extra_kib = usage.ru_maxrss;
  attempt.opened = line == "+";
  if (!line.empty() && !attempt.opened) {
    attempt.code = static_cast<Code>(line[0]);
    attempt.message = line.substr(1);
  }
  return attempt;
}

}  // namespace

Attempt attempt(const std::function<Result<void>()>& open) {
  static const long idle_kib = in_child([] { return Result<void>(); }).extra_kib;
  Attempt result = in_child(open);
  result.extra_kib -= idle_kib;
  return result;
}

void expect_refused(const Attempt& attempt, Code code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(attempt.opened) << "was opened";
  EXPECT_EQ(attempt.code, code) << attempt.message;
  for (const auto& part : parts)
    EXPECT_NE(attempt.message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << attempt.message;
  EXPECT_EQ(attempt.message.find('\n'), std::string::npos) << attempt.message;
  EXPECT_LT(attempt.message.size(), 1000U) << attempt.message;
  EXPECT_LT(attempt.extra_kib, 64 * 1024) << attempt.message;
}

}  // namespace knapsack::testing
