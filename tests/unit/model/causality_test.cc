// A value's bits depend only on what can causally reach it.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/unit/model/forward_fixture.h"
#include "tests/unit/model/kind_settings.h"

namespace phitap {
namespace {

// Longest prompt; past the tiny kinds' windows, longrope boundaries and tiles.
constexpr int64_t kMostTokens = 300;
// Below the tiny kinds' longrope boundary.
constexpr int64_t kShortTokens = 10;

class Causality
    : public testing::TestWithParam<std::tuple<TinyKind, ComputeSetting>> {
 protected:
  Causality()
      : setting_(std::get<ComputeSetting>(GetParam())),
        model_(TinyModel(std::get<TinyKind>(GetParam()), setting_.dtype)),
        random_(static_cast<unsigned>(setting_.thread_count)) {
    at::set_num_threads(setting_.thread_count);
    model_->MeasureRowRule();
  }

  int64_t Draw(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random_() % (to - from + 1));
  }

  bool TakesLongFactors(const Prompt& prompt) const {
    const auto& longrope = model_->spec().longrope;
    return longrope && *std::max_element(prompt.position_ids.begin(),
                                         prompt.position_ids.end()) +
                               1 >
                           longrope->original_max_positions;
  }

  // What the prompt shows in its first `token_count` positions.
  static at::Tensor Part(const RecordingHooks::Key& key, const Recorded& whole,
                         int64_t token_count) {
    if (!IsPattern(key.hook)) return whole.value.narrow(0, 0, token_count);
    return whole.value.narrow(1, 0, token_count).narrow(2, 0, token_count);
  }

  // Every value of `prefix` is that of `whole` up to its end.
  void ExpectPrefix(const Records& prefix, const Records& whole,
                    int64_t token_count) {
    for (const auto& [key, record] : prefix) {
      if (key.hook == Hook::kNextTokenProbs || key.hook == Hook::kInputSize) {
        continue;  // of the whole prompt, not of a position
      }
      EXPECT_TRUE(SameBits(record.value, Part(key, whole.at(key), token_count)))
          << NameOf(key) << ", " << token_count << " tokens";
    }
  }

  const ComputeSetting setting_;
  const std::unique_ptr<Phi3> model_;
  std::mt19937 random_;
};

TEST_P(Causality, NeighboursChangeNoBit) {
  for (const auto attention :
       {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
    std::vector<Prompt> prompts;
    for (int i = 0; i < 5; ++i) {
      // Every other one on the short side of the longrope boundary.
      const int64_t most = i % 2 == 0 ? kShortTokens : kMostTokens;
      prompts.push_back(RandomPrompt(*model_, Draw(1, most), random_));
      prompts.back().layer_count =
          static_cast<int>(Draw(1, model_->spec().num_layers));
    }
    const Records together =
        ForwardAll(*model_, prompts, {.attention = attention});
    for (int i = 0; i < static_cast<int>(prompts.size()); ++i) {
      for (const auto& [key, record] :
           ForwardAll(*model_, {prompts[i]}, {.attention = attention})) {
        RecordingHooks::Key in_wave = key;
        in_wave.row = i;
        ASSERT_TRUE(together.contains(in_wave)) << NameOf(in_wave);
        EXPECT_TRUE(SameBits(record.value, together.at(in_wave).value))
            << NameOf(in_wave);
      }
    }
  }
}

TEST_P(Causality, WhatComesAfterChangesNoBit) {
  // Every prefix of a prompt of two tiles, past windows and boundaries.
  const int64_t step = setting_.thread_count <= 2 ? 1 : 7;
  for (const auto attention :
       {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
    const Prompt prompt = RandomPrompt(*model_, 40, random_);
    const Records whole =
        ForwardAll(*model_, {prompt}, {.attention = attention});
    for (int64_t count = 1; count < prompt.token_count(); count += step) {
      const Prompt prefix = PrefixOf(*model_, prompt, count);
      if (TakesLongFactors(prefix) != TakesLongFactors(prompt)) continue;
      ExpectPrefix(ForwardAll(*model_, {prefix}, {.attention = attention}),
                   whole, count);
    }
  }
}

TEST_P(Causality, AskingForLessChangesNoBit) {
  const Prompt whole = RandomPrompt(*model_, 77, random_);
  const Records all = ForwardAll(*model_, {whole});
  for (int i = 0; i < 8; ++i) {
    Prompt less = whole;
    less.layer_count = static_cast<int>(Draw(0, model_->spec().num_layers));
    const auto keep = [&](const std::vector<int64_t>& from, int64_t one_in) {
      std::vector<int64_t> kept;
      for (const int64_t position : from) {
        if (Draw(1, one_in) == 1) kept.push_back(position);
      }
      return kept;
    };
    if (less.layer_count > 0) less.tail = keep(whole.tail, Draw(1, 20));
    less.norm = less.head = {};
    if (less.layer_count == model_->spec().num_layers) {
      less.norm = keep(less.tail, 2);
      less.head = keep(less.norm, 2);
    }
    for (const auto& [key, record] : ForwardAll(*model_, {less})) {
      const Recorded& full = all.at(key);
      const int dimension = IsPattern(key.hook) ? 1 : 0;
      if (key.hook == Hook::kNextTokenProbs) {
        EXPECT_TRUE(SameBits(record.value, full.value)) << NameOf(key);
        continue;
      }
      const at::Tensor at = at::tensor(at::ArrayRef<int64_t>(record.positions));
      EXPECT_TRUE(
          SameBits(record.value, full.value.index_select(dimension, at)))
          << NameOf(key);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Causality,
                         testing::ValuesIn(KindsWith(ComputeSettings(
                             {DType::kF32, DType::kBF16, DType::kF16},
                             {1, 2, 12, 48}))),
                         [](const auto& info) {
                           return Name(std::get<TinyKind>(info.param)) + "_" +
                                  NameOf(std::get<ComputeSetting>(info.param));
                         });

}  // namespace
}  // namespace phitap
