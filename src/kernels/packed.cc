#include "kernels/packed.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/huge_memory.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

constexpr auto rows = static_cast<std::size_t>(packed_rows);
constexpr auto block = static_cast<std::size_t>(packed_block);

// The integers of one panel's block: codes[row][column], scales and mins [group][row].
struct Block {
  std::array<std::array<int, block>, rows> codes{};
  std::array<std::array<float, rows>, 2> scales{}, mins{};
};

// A float as f16; false where f16 is too coarse for it.
bool store_half(std::byte* p, float value) {
  const std::uint16_t half = float_to_half(value);
  std::memcpy(p, &half, sizeof(half));
  return std::fabs(half_to_float(half) - value) <= std::fabs(value) * 0x1p-11F;
}

// Columns 4v..4v+3 of a row's block, one byte each, which is how they lie in memory on the machines we run on.
std::uint32_t four_codes(const std::uint8_t* codes, std::size_t v) {
  std::uint32_t four = 0;
  std::memcpy(&four, codes + 4 * v, sizeof(four));
  return four;
}

// Row `r` of a panel's block.
void store_row(const PackedKind& kind, const std::uint8_t* codes, std::size_t r, std::byte* out) {
  const auto put = [&](std::size_t vector, std::uint32_t four) {
    std::memcpy(out + 32 * vector + 4 * r, &four, sizeof(four));
  };
  if (kind.bits == 8) {
    for (std::size_t v = 0; v < 8; ++v) put(v, four_codes(codes, v));
    return;
  }
  constexpr std::uint32_t nibbles = 0x0f0f0f0f;
  for (std::size_t v = 0; v < 4; ++v)
    put(v, (four_codes(codes, v) & nibbles) | (four_codes(codes, v + 4) & nibbles) << 4);
  if (kind.bits == 5) {
    std::uint32_t fifth = 0;
    for (std::size_t v = 0; v < 8; ++v) fifth |= (four_codes(codes, v) >> 4 & 0x01010101) << v;
    put(4, fifth);
  }
  if (kind.bits == 6)
    for (const std::size_t half : {0, 1}) {
      std::uint32_t upper = 0;
      for (std::size_t v = 0; v < 4; ++v) upper |= (four_codes(codes, 4 * half + v) >> 4 & 0x03030303) << 2 * v;
      put(4 + half, upper);
    }
}

void load(const PackedKind& kind, const std::byte* p, Block& b) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(p[i]); };
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < block; ++c) {
      const std::size_t v = c / 4;
      const std::size_t lane = 4 * r + c % 4;
      if (kind.bits == 8) {
        b.codes[r][c] = static_cast<int>(at(32 * v + lane) ^ 128U) - 128;  // a signed byte
        continue;
      }
      unsigned code = at(32 * (v % 4) + lane) >> (v / 4 * 4) & 15;
      if (kind.bits == 5) code |= (at(128 + lane) >> v & 1) << 4;
      if (kind.bits == 6) code |= (at(128 + 32 * (v / 4) + lane) >> (2 * (v % 4)) & 3) << 4;
      b.codes[r][c] = static_cast<int>(code);
    }
  const std::byte* q = p + kind.code_bytes();
  const auto halves = [&](std::array<float, rows>& out) {
    for (std::size_t r = 0; r < rows; ++r, q += 2) out[r] = half_to_float(load_unaligned<std::uint16_t>(q));
  };
  for (std::size_t g = 0; g < static_cast<std::size_t>(kind.groups); ++g) halves(b.scales[g]);
  for (std::size_t g = 0; kind.min && g < static_cast<std::size_t>(kind.groups); ++g) halves(b.mins[g]);
}

void scalar_round(const float* x, std::int64_t cols, const PackedKind& kind, const PackedInput& out) {
  const std::int64_t width = packed_block / kind.groups;
  for (std::int64_t b = 0; b < cols / packed_block; ++b) {
    const float* in = x + b * packed_block;
    std::int8_t* q = out.q + b * packed_block;
    float most = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < packed_block; ++i) {
      finite = finite && std::isfinite(in[i]);
      most = std::max(most, std::fabs(in[i]));
    }
    const float inverse = finite && most > 0 ? 127.0F / most : 0.0F;
    // 127 / m overflows for a subnormal m; such a block counts as zeros.
    const bool any = finite && std::isfinite(inverse) && inverse > 0;
    const float d = !finite ? std::numeric_limits<float>::quiet_NaN() : any ? most / 127.0F : 0.0F;
    out.d[b] = d;
    for (std::int64_t i = 0; i < packed_block; ++i)
      q[i] = any ? static_cast<std::int8_t>(std::nearbyint(in[i] * inverse)) : std::int8_t{0};
    for (int g = 0; g < kind.groups; ++g) {
      int sum = 0;
      for (std::int64_t i = g * width; i < (g + 1) * width; ++i) sum += q[i];
      out.side[b * kind.groups + g] = static_cast<float>(kind.side_factor() * sum) * d;
    }
  }
}

void scalar_panels(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  const PackedKind& kind = job.w->kind;
  const std::int64_t blocks = job.w->cols / packed_block;
  const int groups = kind.groups;
  const auto width = block / static_cast<std::size_t>(groups);
  for (std::int64_t panel = begin; panel < end; ++panel) {
    const std::int64_t count = std::min(packed_rows, job.w->rows - panel * packed_rows);
    for (std::int64_t t = 0; t < job.tokens; ++t) {
      float* y = job.y + t * job.y_stride + panel * packed_rows;
      std::fill_n(y, count, 0.0F);
    }
    const std::byte* p = job.w->data.get() + panel * job.w->panel_bytes();
    for (std::int64_t i = 0; i < blocks; ++i, p += kind.block_bytes()) {
      Block b;
      load(kind, p, b);
      for (std::int64_t t = 0; t < job.tokens; ++t) {
        const std::int8_t* q = job.x.q + t * job.w->cols + i * packed_block;
        const float d = job.x.d[t * blocks + i];
        for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
          float& y = job.y[t * job.y_stride + panel * packed_rows + static_cast<std::int64_t>(r)];
          for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
            int sum = 0;
            for (std::size_t c = g * width; c < (g + 1) * width; ++c) sum += q[c] * b.codes[r][c];
            const float side = job.x.side[(t * blocks + i) * groups + static_cast<std::int64_t>(g)];
            if (kind.min) {
              y = std::fma(static_cast<float>(sum) * d, b.scales[g][r], y);
              y = std::fma(side, b.mins[g][r], y);
            } else {
              y = std::fma(std::fma(static_cast<float>(sum), d, side), b.scales[g][r], y);
            }
          }
        }
      }
    }
    for (std::int64_t t = 0; t < job.tokens; ++t)
      for (std::int64_t r = panel * packed_rows; r < panel * packed_rows + count; ++r) {
        const std::int64_t at = t * job.y_stride + r;
        if (job.bias != nullptr) job.y[at] += job.bias[r];
        if (job.residual != nullptr) job.y[at] += job.residual[at];
      }
  }
}

}  // namespace

std::optional<PackedKind> packed_kind(DType dtype) {
  const FormatInfo& f = format(dtype);
  if (f.levels == nullptr) return std::nullopt;
  return PackedKind{.bits = f.level_bits,
                    .groups = f.levels_group == packed_block ? 1 : 2,
                    .min = f.levels_zero < 0,
                    .zero = std::max(0, f.levels_zero)};
}

std::int64_t packed_bytes(const Weight& weight) {
  const std::optional<PackedKind> kind = packed_kind(weight.dtype);
  const auto dimensions = weight.shape.size();
  if (!kind || dimensions < 2 || weight.cols() % packed_block != 0) return 0;
  PackedMatrix one;
  one.kind = *kind;
  one.rows = weight.shape[dimensions - 2];
  one.cols = weight.cols();
  return one.bytes() * (dimensions == 3 ? weight.shape[0] : 1);
}

bool store_panel(const PackedKind& kind, const Levels& from, std::int64_t cols, std::byte* panel) {
  const auto columns = static_cast<std::size_t>(cols);
  const std::size_t groups = columns / static_cast<std::size_t>(level_group);
  bool fits = true;
  for (std::size_t i = 0; i < columns / block; ++i, panel += kind.block_bytes())
    for (std::size_t r = 0; r < rows; ++r) {
      store_row(kind, from.codes + r * columns + i * block, r, panel);
      for (std::size_t g = 0; g < static_cast<std::size_t>(kind.groups); ++g) {
        const std::size_t at = r * groups + 2 * i + g;
        std::byte* half = panel + kind.code_bytes() + 2 * (rows * g + r);
        fits = store_half(half, from.scales[at]) && fits;
        if (kind.min) fits = store_half(half + 2 * rows * static_cast<std::size_t>(kind.groups), from.mins[at]) && fits;
      }
    }
  return fits;
}

std::unique_ptr<PackedMatrix> pack(const PackedTable& table, DType dtype, const std::byte* w, std::int64_t row_count,
                                   std::int64_t cols, ThreadPool& pool, std::shared_ptr<std::byte[]> place,
                                   const std::function<void(std::span<const std::byte>)>& read) {
  const std::optional<PackedKind> kind = packed_kind(dtype);
  if (!kind || cols % packed_block != 0 || row_count == 0) return nullptr;
  auto out = std::make_unique<PackedMatrix>();
  out->kind = *kind;
  out->rows = row_count;
  out->cols = cols;
  out->data = place != nullptr ? std::move(place) : huge_memory(static_cast<std::size_t>(out->bytes()));
  const FormatInfo& f = format(dtype);
  const auto columns = static_cast<std::size_t>(cols);
  const std::size_t groups = columns / static_cast<std::size_t>(level_group);
  // One panel's levels, for each thread.
  std::vector<std::uint8_t> codes(rows * columns * static_cast<std::size_t>(pool.size()));
  std::vector<float> factors(2 * rows * groups * static_cast<std::size_t>(pool.size()));
  std::atomic<bool> fits = true;
  const auto store = [&](std::int64_t begin, std::int64_t end, int thread) {
    std::uint8_t* code = codes.data() + static_cast<std::size_t>(thread) * rows * columns;
    float* scale = factors.data() + static_cast<std::size_t>(thread) * 2 * rows * groups;
    float* min = scale + rows * groups;
    const Levels levels{.codes = code, .scales = scale, .mins = min};
    bool all_fit = true;
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const auto count = static_cast<std::size_t>(std::min(packed_rows, row_count - panel * packed_rows));
      f.levels(w + panel * packed_rows * row_bytes(dtype, cols), levels,
               static_cast<std::int64_t>(count) * cols / f.block);
      // Rows beyond the last are zeros.
      std::fill_n(code + count * columns, (rows - count) * columns, std::uint8_t{0});
      std::fill_n(scale + count * groups, (rows - count) * groups, 0.0F);
      std::fill_n(min + count * groups, (rows - count) * groups, 0.0F);
      all_fit = table.store(*kind, levels, cols, out->data.get() + panel * out->panel_bytes()) && all_fit;
    }
    if (!all_fit) fits = false;
  };
  constexpr std::int64_t step_bytes = std::int64_t{8} << 20;
  const std::int64_t row_size = row_bytes(dtype, cols);
  const std::int64_t step = std::max<std::int64_t>(1, step_bytes / (packed_rows * row_size));
  for (std::int64_t first = 0; first < out->panels(); first += step) {
    const std::int64_t count = std::min(step, out->panels() - first);
    pool.parallel_for(
        count, 1, [&](std::int64_t begin, std::int64_t end, int thread) { store(first + begin, first + end, thread); });
    if (!fits) return nullptr;
    const std::int64_t row = first * packed_rows;
    const std::int64_t row_end = std::min(row_count, row + count * packed_rows);
    if (read) read({w + row * row_size, static_cast<std::size_t>((row_end - row) * row_size)});
  }
  return out;
}

const PackedTable& scalar_packed() {
  static constexpr PackedTable table{.store = store_panel, .round = scalar_round, .panels = scalar_panels};
  return table;
}

std::span<const std::byte> packed_share(std::span<const PackedMatrix* const> weights, int thread, int threads,
                                        std::int64_t most) {
  std::int64_t total = 0;
  for (const PackedMatrix* w : weights) total += w->panels();
  std::int64_t panel = total * thread / threads;
  for (const PackedMatrix* w : weights) {
    if (panel < w->panels()) {
      const std::int64_t at = panel * w->panel_bytes();
      return {w->data.get() + at, static_cast<std::size_t>(std::min(most, w->bytes() - at))};
    }
    panel -= w->panels();
  }
  return {};
}

void packed_matmul(const PackedTable& table, std::span<const PackedJob> jobs, ThreadPool& pool) {
  std::int64_t total = 0;
  std::int64_t products = 0;
  for (const PackedJob& job : jobs) {
    total += job.w->panels();
    products += job.tokens * job.w->rows * job.w->cols;
  }
  if (products == 0) return;
  // As in matmul(): pieces worth handing out, and so many a thread at most as are chosen.
  constexpr std::int64_t piece_products = 131072;
  const std::int64_t worth = std::max<std::int64_t>(1, piece_products * total / products);
  const PackedChoice& choice = jobs.front().w->choice;
  const std::int64_t pieces = jobs.front().tokens == 1 ? choice.pieces_one : choice.pieces_many;
  const std::int64_t together = jobs.front().tokens == 1 ? 1 : table.at_once;
  const std::int64_t grain = (std::max(worth, total / (pieces * pool.size())) + together - 1) / together * together;
  pool.parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t base = 0;
    for (const PackedJob& job : jobs) {
      const std::int64_t count = job.w->panels();
      const std::int64_t first = std::max(begin - base, std::int64_t{0});
      const std::int64_t last = std::min(end - base, count);
      if (first < last) table.panels(job, first, last);
      base += count;
      if (base >= end) break;
    }
  });
}

}  // namespace knapsack
