#include "tests/fuzz/message_input.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <memory>

#include "tests/fuzz/message_mutator.h"

// libFuzzer's own: changes bytes in place, with what comparisons have shown.
extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size,
                                   size_t max_size);

namespace phitap {
namespace {

// Inputs that are changed as bytes, not as messages: one in so many.
constexpr unsigned kPlainOneIn = 16;

// The size, or 0 where it does not fit.
size_t Write(const std::string& bytes, absl::Span<uint8_t> out) {
  if (bytes.size() > out.size()) return 0;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return bytes.size();
}

}  // namespace

std::string MessageInput::BytesOf(Input input) const {
  std::string bytes(reinterpret_cast<const char*>(input.data()), input.size());
  if (bytes.empty() || bytes.front() != '{') return bytes;
  const std::unique_ptr<google::protobuf::Message> message(type_.New());
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(bytes, message.get());
  return parsed.ok() ? message->SerializeAsString() : "";
}

size_t MessageInput::Mutate(uint8_t* out, size_t size, size_t max_size,
                            unsigned seed) const {
  const absl::Span<uint8_t> space(out, max_size);
  const std::string message = BytesOf(Input(out, size));
  if (seed % kPlainOneIn != 0) {
    const std::string mutated =
        MessageMutator(*type_.GetDescriptor(), words_, seed)
            .Mutate(message, "");
    const size_t written = Write(mutated, space);
    if (written > 0) return written;
  }
  return LLVMFuzzerMutate(out, Write(message, space), max_size);
}

size_t MessageInput::CrossOver(Input first, Input second,
                               absl::Span<uint8_t> out, unsigned seed) const {
  const std::string mutated =
      MessageMutator(*type_.GetDescriptor(), words_, seed)
          .Mutate(BytesOf(first), BytesOf(second));
  const size_t written = Write(mutated, out);
  return written > 0 ? written : Write(BytesOf(first), out);
}

}  // namespace phitap

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* input, size_t size,
                                          size_t max_size, unsigned seed) {
  return phitap::Inputs().Mutate(input, size, max_size, seed);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first,
                                            size_t first_size,
                                            const uint8_t* second,
                                            size_t second_size, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  return phitap::Inputs().CrossOver({first, first_size}, {second, second_size},
                                    {out, max_size}, seed);
}
