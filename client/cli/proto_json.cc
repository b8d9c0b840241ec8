#include "client/cli/proto_json.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/duration.pb.h"

namespace phitap::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr double kNanosPerSecond = 1e9;

// `DataType` → `DATA_TYPE_`, the prefix of its values.
std::string PrefixOf(const EnumDescriptor& type) {
  std::string prefix;
  for (const char letter : type.name()) {
    if (absl::ascii_isupper(letter) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(letter);
  }
  return prefix + "_";
}

Json EnumJson(const EnumDescriptor& type, int number) {
  const EnumValueDescriptor* value = type.FindValueByNumber(number);
  if (value == nullptr) return number;
  const std::string name = value->name();
  return absl::AsciiStrToLower(absl::StripPrefix(name, PrefixOf(type)));
}

// One field, or one element of a repeated field.
class FieldReader {
 public:
  FieldReader(const Message& message, const FieldDescriptor& field)
      : message_(message),
        field_(field),
        reflection_(*message.GetReflection()) {}

  Json Single() const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection_.GetInt32(message_, &field_);
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection_.GetInt64(message_, &field_);
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection_.GetUInt32(message_, &field_);
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection_.GetUInt64(message_, &field_);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection_.GetDouble(message_, &field_);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection_.GetFloat(message_, &field_);
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection_.GetBool(message_, &field_);
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumJson(*field_.enum_type(),
                        reflection_.GetEnumValue(message_, &field_));
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection_.GetString(message_, &field_);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ToJson(reflection_.GetMessage(message_, &field_));
    }
    return nullptr;
  }

  Json Element(int i) const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection_.GetRepeatedInt32(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection_.GetRepeatedInt64(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection_.GetRepeatedUInt32(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection_.GetRepeatedUInt64(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection_.GetRepeatedDouble(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection_.GetRepeatedFloat(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection_.GetRepeatedBool(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumJson(*field_.enum_type(),
                        reflection_.GetRepeatedEnumValue(message_, &field_, i));
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection_.GetRepeatedString(message_, &field_, i);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return ToJson(reflection_.GetRepeatedMessage(message_, &field_, i));
    }
    return nullptr;
  }

  Json All() const {
    Json list = Json::array();
    for (int i = 0; i < reflection_.FieldSize(message_, &field_); ++i) {
      list.push_back(Element(i));
    }
    return list;
  }

  bool IsSet() const {
    return !field_.has_presence() || reflection_.HasField(message_, &field_);
  }

 private:
  const Message& message_;
  const FieldDescriptor& field_;
  const Reflection& reflection_;
};

}  // namespace

Json ToJson(const Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  if (type.full_name() ==
      google::protobuf::Duration::descriptor()->full_name()) {
    const auto& duration =
        static_cast<const google::protobuf::Duration&>(message);
    return static_cast<double>(duration.seconds()) +
           duration.nanos() / kNanosPerSecond;
  }
  Json object = Json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const FieldReader reader(message, field);
    if (field.is_repeated()) {
      object[field.name()] = reader.All();
    } else if (reader.IsSet()) {
      object[field.name()] = reader.Single();
    }
  }
  return object;
}

}  // namespace phitap::cli
