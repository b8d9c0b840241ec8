// Uploads of named tensors, message by message.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/tensor_hash.h"
#include "server/rpc/tensor_upload.h"
#include "server/rpc/tensor_wire.h"
#include "tests/fuzz/message_input.h"
#include "tests/fuzz/refusal.h"
#include "tests/fuzz/upload.pb.h"
#include "tests/support/manual_clock.h"

namespace phitap {

const MessageInput& Inputs() {
  static const auto& inputs = *new MessageInput(
      fuzz::Uploads::default_instance(), {"a", "b", "sae/W", ".", "/", "ä"});
  return inputs;
}

namespace {

constexpr int64_t kMostUploading = 3 << 20;
constexpr int64_t kMostKept = 4 << 20;
constexpr int64_t kMostOfCaller = (5 << 20) / 2;
constexpr char kOwner[] = "somebody";

absl::Span<const std::byte> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()),
                             text.size());
}

// What the store must hold, worked out beside it.
class Uploading {
 public:
  void Send(const fuzz::Upload& sent) {
    const int64_t used_bytes = tensors_->used_bytes();
    const std::string before = Shown();
    const absl::Status status = SendAll(sent);
    Expect(budget_->reserved_bytes() == 0,
           "nothing stays reserved once an upload has ended");
    if (status.ok()) return;
    // What does not fit beside others' uploads has no field that is to blame.
    if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) {
      ExpectRefusal(status);
    } else {
      ExpectFieldRefusal(status);
    }
    Expect(tensors_->used_bytes() == used_bytes && Shown() == before,
           "a refused upload leaves what was kept");
  }

 private:
  OwnedTensors owned() {
    return tensors_->Of({.name = kOwner, .max_bytes = kMostOfCaller});
  }

  absl::Status SendAll(const fuzz::Upload& sent) {
    TensorUpload upload({.tensors = owned(), .budget = budget_});
    v1::PutTensorHeader header;
    std::string bytes;
    for (const fuzz::Sent& one : sent.sent()) {
      const v1::PutTensorRequest message = MessageOf(one, bytes);
      const absl::Status taken = upload.Take(message);
      if (!taken.ok()) return taken;
      if (message.has_header()) header = message.header();
      bytes += message.chunk().data();
      Expect(budget_->reserved_bytes() >= static_cast<int64_t>(bytes.size()),
             "what has come is reserved");
    }
    const auto response = upload.Finish();
    if (response.ok()) ExpectKept(header, bytes, response->tensor());
    return response.status();
  }

  // As the client would have sent it.
  static v1::PutTensorRequest MessageOf(const fuzz::Sent& sent,
                                        const std::string& before) {
    v1::PutTensorRequest message = sent.message();
    if (!message.has_chunk()) return message;
    std::string& data = *message.mutable_chunk()->mutable_data();
    const auto wanted = static_cast<size_t>(
        std::clamp<int64_t>(sent.data_bytes(), 0, kMaxChunkBytes + 1));
    while (!data.empty() && data.size() < wanted) {
      data.append(data, 0, wanted - data.size());
    }
    if (sent.right_hash()) {
      message.mutable_chunk()->set_xxh3(HashTensor(Bytes(before + data)));
    }
    return message;
  }

  void ExpectKept(const v1::PutTensorHeader& header, const std::string& bytes,
                  const v1::StoredTensor& told) {
    const absl::StatusOr<NamedTensor> kept = owned().Get(header.name(), "");
    Expect(kept.ok(), "what was accepted is kept");
    const HostTensor& value = kept->value;
    Expect(value.bytes == Bytes(bytes),
           "with exactly the bytes that were sent");
    Expect(value.shape == std::vector<int64_t>(header.shape().begin(),
                                               header.shape().end()),
           "in its shape");
    Expect(ElementCount(value.shape) * SizeInBytes(value.dtype) ==
               static_cast<int64_t>(bytes.size()),
           "which has as many");
    Expect(told.name() == header.name() && told.dtype() == header.dtype() &&
               told.size_bytes() == static_cast<int64_t>(bytes.size()),
           "and is told so");
    Expect(owned().used_bytes() <= kMostOfCaller,
           "a caller has no more than it may");
    Expect(tensors_->used_bytes() == owned().used_bytes(),
           "and nobody else has anything");
  }

  // All that is kept, by name.
  std::string Shown() {
    std::string shown;
    for (const NamedTensor& tensor : owned().List("")) {
      absl::StrAppend(&shown, tensor.name, " ", HashTensor(tensor.value.bytes),
                      " ");
    }
    return shown;
  }

  ManualClock clock_;
  std::unique_ptr<NamedTensors> tensors_ =
      *NamedTensors::Open({.max_bytes = kMostKept, .clock = &clock_});
  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(
      ByteBudgetOptions{.limit_bytes = kMostUploading, .purpose = "uploads"});
};

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  static const google::protobuf::LogSilencer silencer;  // tells of bad UTF-8
  phitap::fuzz::Uploads uploads;
  if (!uploads.ParseFromString(
          phitap::Inputs().BytesOf(phitap::Input(input, size)))) {
    return 0;
  }
  phitap::Uploading uploading;
  for (const auto& upload : uploads.uploads()) uploading.Send(upload);
  return 0;
}
