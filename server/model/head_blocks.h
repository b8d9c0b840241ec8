// The parts of head_kernel.cc: a block of keys against a few queries. Include
// it nowhere else; what follows is compiled for AVX512-BF16.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_HEAD_BLOCKS_H_
#define PHITAP_SERVER_MODEL_HEAD_BLOCKS_H_

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

// Not by flags of the file: functions of other headers would be compiled for
// this CPU, too, and could be linked in place of the portable ones.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace phitap::head_blocks {

inline constexpr int64_t kLanes = 16;  // float32, or pairs of bfloat16
inline constexpr int64_t kBlockKeys = 512;

// Of what is left from `done` of `width` elements, as many as a vector holds.
template <typename Mask, int kElements>
inline Mask TailMask(int64_t done, int64_t width) {
  const int64_t left = width - done;
  return left >= kElements ? ~Mask{0}
                           : static_cast<Mask>((uint64_t{1} << left) - 1);
}

inline __m512 DotPairs(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a),
                          reinterpret_cast<__m512bh>(b));
}

inline __m256i ToBfloat16(__m512 x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
}

// A matrix of 16 × 16 pairs, a line a vector.
inline void Transpose(__m512i (&line)[kLanes]) {
  __m512i t[kLanes];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(line[i], line[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(line[i], line[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    line[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    line[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    line[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    line[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(line[i], line[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(line[i], line[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(line[i + 8], line[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(line[i + 8], line[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    line[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    line[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    line[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    line[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// keys [count, width] → [count / 16, pairs, 16]: pairs along a line, so that a
// vector holds the same pair of sixteen keys.
inline void PackKeys(const uint16_t* keys, int64_t stride, int64_t count,
                     int64_t width, uint32_t* out) {
  const int64_t pairs = (width + 1) / 2;
  for (int64_t key = 0; key < count; key += kLanes) {
    for (int64_t pair = 0; pair < pairs; pair += kLanes) {
      const auto mask = TailMask<__mmask32, 32>(2 * pair, width);
      __m512i line[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        line[i] = _mm512_maskz_loadu_epi16(
            mask, keys + (key + i) * stride + 2 * pair);
      }
      Transpose(line);
      const int64_t end = std::min(kLanes, pairs - pair);
      for (int64_t i = 0; i < end; ++i, out += kLanes) {
        _mm512_store_si512(out, line[i]);
      }
    }
  }
}

// values [count, width] → [count / 2, padded width]: pairs across two lines.
inline void PackValues(const uint16_t* values, int64_t stride, int64_t count,
                       int64_t width, uint32_t* out) {
  for (int64_t key = 0; key < count; key += 2) {
    const uint16_t* const even = values + key * stride;
    for (int64_t at = 0; at < width; at += kLanes, out += kLanes) {
      const auto mask = TailMask<__mmask16, 16>(at, width);
      const __m512i low =
          _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, even + at));
      const __m512i high = _mm512_cvtepu16_epi32(
          _mm256_maskz_loadu_epi16(mask, even + stride + at));
      _mm512_store_si512(out,
                         _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// N queries [N, pairs] against 32 packed keys; scores, kBlockKeys apart.
template <int N>
inline void Scores(const uint32_t* queries, const uint32_t* keys, int64_t pairs,
                   float scale, float* scores) {
  __m512 sums[N][2];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  for (int64_t pair = 0; pair < pairs; ++pair, keys += kLanes) {
    const __m512i first = _mm512_load_si512(keys);
    const __m512i second = _mm512_load_si512(keys + pairs * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      const __m512i query = _mm512_set1_epi32(queries[i * pairs + pair]);
      sums[i][0] = DotPairs(sums[i][0], query, first);
      sums[i][1] = DotPairs(sums[i][1], query, second);
    }
  }
  const __m512 by = _mm512_set1_ps(scale);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i, scores += kBlockKeys) {
    _mm512_store_ps(scores, _mm512_mul_ps(sums[i][0], by));
    _mm512_store_ps(scores + kLanes, _mm512_mul_ps(sums[i][1], by));
  }
}

// Adds to V vectors of N queries' sums [N, padded width] their weights'
// [N, kBlockKeys] products with `count` packed values.
template <int N, int V>
inline void MixVectors(const uint16_t* weights, const uint32_t* values,
                       int64_t padded_width, int64_t count, float* sums) {
  __m512 sum[N][V];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      sum[i][v] = _mm512_load_ps(sums + i * padded_width + v * kLanes);
    }
  }
  for (int64_t key = 0; key < count; key += 2, values += padded_width) {
    __m512i value[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      value[v] = _mm512_load_si512(values + v * kLanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      uint32_t pair;
      std::memcpy(&pair, weights + i * kBlockKeys + key, sizeof(pair));
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(pair));
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        sum[i][v] = DotPairs(sum[i][v], weight, value[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      _mm512_store_ps(sums + i * padded_width + v * kLanes, sum[i][v]);
    }
  }
}

template <int N>
inline void Mix(const uint16_t* weights, const uint32_t* values,
                int64_t padded_width, int64_t count, float* sums) {
  int64_t at = 0;
  for (; at + 6 * kLanes <= padded_width; at += 6 * kLanes) {
    MixVectors<N, 6>(weights, values + at, padded_width, count, sums + at);
  }
  for (; at + 2 * kLanes <= padded_width; at += 2 * kLanes) {
    MixVectors<N, 2>(weights, values + at, padded_width, count, sums + at);
  }
  for (; at < padded_width; at += kLanes) {
    MixVectors<N, 1>(weights, values + at, padded_width, count, sums + at);
  }
}

// eˣ for x ≤ 0 or NaN: Cephes' polynomial, within 2 units in the last place.
inline __m512 Exp(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);  // NaN stays: it is second
  const __m512 n = _mm512_roundscale_ps(
      _mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)),
      _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r,
                      _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
  return _mm512_scalef_ps(p, n);
}

// The largest of `scores` that are visible, NaN if one is; the others become
// −∞.
inline float HideScores(const bool* invisible, int64_t count, float* scores) {
  const __m512 minus_infinity =
      _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 largest = minus_infinity;
  __mmask16 nan = 0;
  for (int64_t key = 0; key < count; key += kLanes) {
    __m128i hidden;
    std::memcpy(&hidden, invisible + key, sizeof(hidden));
    const __m512 score =
        _mm512_mask_mov_ps(_mm512_load_ps(scores + key),
                           _mm_test_epi8_mask(hidden, hidden), minus_infinity);
    _mm512_store_ps(scores + key, score);
    largest = _mm512_max_ps(largest, score);
    nan |= _mm512_cmp_ps_mask(score, score, _CMP_UNORD_Q);
  }
  return nan != 0 ? std::numeric_limits<float>::quiet_NaN()
                  : _mm512_reduce_max_ps(largest);
}

// weights = e^(scores − max); their sum before they are rounded.
inline float WeighScores(const float* scores, int64_t count, float max,
                         uint16_t* weights) {
  const __m512 subtrahend = _mm512_set1_ps(max);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t key = 0; key < count; key += kLanes) {
    const __m512 weight =
        Exp(_mm512_sub_ps(_mm512_load_ps(scores + key), subtrahend));
    sum = _mm512_add_ps(sum, weight);
    const __m256i rounded = ToBfloat16(weight);
    std::memcpy(weights + key, &rounded, sizeof(rounded));
  }
  return _mm512_reduce_add_ps(sum);
}

// sums [padded width] · by
inline void Scale(float by, int64_t padded_width, float* sums) {
  const __m512 factor = _mm512_set1_ps(by);
  for (int64_t at = 0; at < padded_width; at += kLanes) {
    _mm512_store_ps(sums + at,
                    _mm512_mul_ps(_mm512_load_ps(sums + at), factor));
  }
}

// out [width] = sums · by, rounded
inline void StoreScaled(const float* sums, float by, int64_t width,
                        uint16_t* out) {
  const __m512 factor = _mm512_set1_ps(by);
  for (int64_t at = 0; at < width; at += kLanes) {
    _mm256_mask_storeu_epi16(
        out + at, TailMask<__mmask16, 16>(at, width),
        ToBfloat16(_mm512_mul_ps(_mm512_load_ps(sums + at), factor)));
  }
}

}  // namespace phitap::head_blocks

#pragma GCC pop_options

#endif  // PHITAP_SERVER_MODEL_HEAD_BLOCKS_H_
