// rope: sine and cosine of eight frequencies at a time, then all heads with them.
#include <algorithm>

#include "kernels/x86/kernels_avx2.h"
#include "kernels/x86/math_avx2.h"

namespace knapsack::avx2 {
namespace {

struct Rotation {
  std::int64_t heads, stride, begin, half;
  bool interleaved;
  float scale;
};

// Eight pairs that start at x + i of each head; c and s: [8].
void rotate_eight(const Rotation& r, const float* x, float* y, std::int64_t i, __m256 c, __m256 s) {
  for (std::int64_t h = 0; h < r.heads; ++h) {
    const std::int64_t at = h * r.stride + r.begin;
    if (!r.interleaved) {
      const __m256 a = _mm256_loadu_ps(x + at + i);
      const __m256 b = _mm256_loadu_ps(x + at + r.half + i);
      _mm256_storeu_ps(y + at + i, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
      _mm256_storeu_ps(y + at + r.half + i, _mm256_add_ps(_mm256_mul_ps(b, c), _mm256_mul_ps(a, s)));
      continue;
    }
    // c and s doubled to each pair; the partner's product is subtracted from the first and added to the second.
    for (int part = 0; part < 2; ++part) {
      const __m256i twice =
          part == 0 ? _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3) : _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
      const float* from = x + at + 2 * i + 8 * part;
      const __m256 v = _mm256_loadu_ps(from);
      const __m256 partner = _mm256_permute_ps(v, 0xb1);
      _mm256_storeu_ps(y + (from - x), _mm256_addsub_ps(_mm256_mul_ps(v, _mm256_permutevar8x32_ps(c, twice)),
                                                        _mm256_mul_ps(partner, _mm256_permutevar8x32_ps(s, twice))));
    }
  }
}

void rotate_few(const Rotation& r, const float* x, float* y, std::int64_t i, std::int64_t count, const float* c,
                const float* s) {
  for (std::int64_t h = 0; h < r.heads; ++h)
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t first = h * r.stride + r.begin + (r.interleaved ? 2 * (i + k) : i + k);
      const std::int64_t second = r.interleaved ? first + 1 : first + r.half;
      const float a = x[first];
      const float b = x[second];
      y[first] = a * c[k] - b * s[k];
      y[second] = b * c[k] + a * s[k];
    }
}

}  // namespace

void rope(const OpCall& call) {
  const Rotation r{.heads = call.attrs->i(Attr::heads),
                   .stride = call.attrs->i(Attr::stride),
                   .begin = call.attrs->i(Attr::begin),
                   .half = call.attrs->i(Attr::rotary) / 2,
                   .interleaved = call.attrs->i(Attr::interleaved) != 0,
                   .scale = call.attrs->f(Attr::scale, 1)};
  const float* inv_freq = call.in[1].weight->f32();
  const std::int64_t cols = r.heads * r.stride;
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / cols);
  call.pool->parallel_for(call.in[0].rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* x = call.in[0].f32() + row * cols;
      float* y = call.out[0].f32() + row * cols;
      if (2 * r.half < r.stride) std::copy_n(x, cols, y);
      const __m256 position = _mm256_set1_ps(static_cast<float>(call.rows->positions[static_cast<std::size_t>(row)]));
      const __m256 factor = _mm256_set1_ps(r.scale);
      for (std::int64_t i = 0; i < r.half; i += 8) {
        const std::int64_t count = std::min<std::int64_t>(8, r.half - i);
        const __m256 freq =
            count == 8 ? _mm256_loadu_ps(inv_freq + i) : _mm256_maskload_ps(inv_freq + i, first_lanes(count));
        __m256 s;
        __m256 c;
        sin_cos8(_mm256_mul_ps(position, freq), s, c);
        s = _mm256_mul_ps(s, factor);
        c = _mm256_mul_ps(c, factor);
        if (count == 8) {
          rotate_eight(r, x, y, i, c, s);
          continue;
        }
        alignas(32) float cosine[8];
        alignas(32) float sine[8];
        _mm256_store_ps(cosine, c);
        _mm256_store_ps(sine, s);
        rotate_few(r, x, y, i, count, cosine, sine);
      }
    }
  });
}

}  // namespace knapsack::avx2
