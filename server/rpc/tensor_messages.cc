#include "server/rpc/tensor_messages.h"

#include "absl/time/time.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

google::protobuf::Timestamp ToProto(absl::Time time) {
  const int64_t nanos = absl::ToUnixNanos(time);
  google::protobuf::Timestamp proto;
  proto.set_seconds(absl::ToUnixSeconds(time));
  proto.set_nanos(
      static_cast<int32_t>(nanos - proto.seconds() * 1'000'000'000));
  return proto;
}

}  // namespace

v1::StoredTensor DescribeStored(const NamedTensor& tensor) {
  v1::StoredTensor stored;
  stored.set_name(tensor.name);
  stored.set_dtype(WireType(tensor.value.dtype));
  stored.mutable_shape()->Add(tensor.value.shape.begin(),
                              tensor.value.shape.end());
  stored.set_size_bytes(static_cast<int64_t>(tensor.value.bytes.size()));
  *stored.mutable_create_time() = ToProto(tensor.create_time);
  stored.set_persistent(tensor.persistent);
  return stored;
}

v1::ListTensorsResponse DescribeAll(const OwnedTensors& tensors,
                                    absl::string_view prefix) {
  v1::ListTensorsResponse response;
  for (const NamedTensor& tensor : tensors.List(prefix)) {
    *response.add_tensors() = DescribeStored(tensor);
  }
  response.set_used_bytes(tensors.used_bytes());
  response.set_limit_bytes(tensors.max_bytes());
  return response;
}

}  // namespace phitap
