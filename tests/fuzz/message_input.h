// Inputs of the fuzzer that are messages: JSON, as a person writes them, or
// their bytes, as they become once they are changed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_MESSAGE_INPUT_H_
#define PHITAP_TESTS_FUZZ_MESSAGE_INPUT_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace phitap {

using Input = absl::Span<const uint8_t>;

// Immutable.
class MessageInput {
 public:
  // `type` outlives it. `words`: what texts in messages are sometimes set to.
  MessageInput(const google::protobuf::Message& type,
               std::vector<std::string> words)
      : type_(type), words_(std::move(words)) {}

  // The encoded message: of JSON (what begins with `{`) its message's, empty
  // where it is none; else the input as it is, whether or not that is one.
  std::string BytesOf(Input input) const;

  // For LLVMFuzzerCustomMutator and LLVMFuzzerCustomCrossOver: write another
  // input of at most so many bytes to `out` and return its size. See
  // MessageMutator.
  size_t Mutate(uint8_t* out, size_t size, size_t max_size,
                unsigned seed) const;
  size_t CrossOver(Input first, Input second, absl::Span<uint8_t> out,
                   unsigned seed) const;

 private:
  const google::protobuf::Message& type_;
  const std::vector<std::string> words_;
};

// Those of the target, which defines it; what libFuzzer calls to change them
// stands beside this class.
const MessageInput& Inputs();

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_MESSAGE_INPUT_H_
