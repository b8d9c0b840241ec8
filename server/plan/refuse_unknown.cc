#include "server/plan/refuse_unknown.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Join(absl::string_view path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}

absl::Status RefuseUnknownFields(const Message& message,
                                 absl::string_view path) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return InvalidField(
      {.field =
           path.empty() ? message.GetDescriptor()->name() : std::string(path),
       .problem = absl::StrCat("field number ", unknown.field(0).number(),
                               " is unknown to this server"),
       .valid = absl::StrCat("the fields of ",
                             std::string(message.GetDescriptor()->full_name()),
                             " in this server's version of the protocol")});
}

absl::Status RefuseUnknownEnumValue(const EnumDescriptor& type, int value,
                                    absl::string_view path) {
  if (type.FindValueByNumber(value) != nullptr) return absl::OkStatus();
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
  }
  return InvalidField(
      {.field = std::string(path),
       .problem = absl::StrCat("value ", value, " is unknown to this server"),
       .valid = absl::StrJoin(names, ", ")});
}

// Checks one element of a field: `index` of a repeated one, −1 otherwise.
absl::Status CheckElement(const Message& message, const FieldDescriptor& field,
                          int index, absl::string_view path) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return RefuseUnknown(
        index < 0 ? reflection.GetMessage(message, &field)
                  : reflection.GetRepeatedMessage(message, &field, index),
        path);
  }
  return RefuseUnknownEnumValue(
      *field.enum_type(),
      index < 0 ? reflection.GetEnumValue(message, &field)
                : reflection.GetRepeatedEnumValue(message, &field, index),
      path);
}

}  // namespace

absl::Status RefuseUnknown(const Message& message, absl::string_view path) {
  RETURN_IF_ERROR(RefuseUnknownFields(message, path));
  std::vector<const FieldDescriptor*> fields;
  const Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
        field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) {
      continue;
    }
    const std::string name = Join(path, field->name());
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(CheckElement(message, *field, -1, name));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      RETURN_IF_ERROR(
          CheckElement(message, *field, i, absl::StrCat(name, "[", i, "]")));
    }
  }
  return absl::OkStatus();
}

}  // namespace phitap
