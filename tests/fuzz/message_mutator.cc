#include "tests/fuzz/message_mutator.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/common.h>

#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

// libFuzzer's own: changes bytes in place, with what comparisons have shown.
extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size,
                                   size_t max_size);

namespace phitap {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr int kDeepestDrawn = 3;
constexpr size_t kLongestDrawn = 64;
constexpr uint64_t kMostBits = 34;

// What the field holds is a message; null where it is not.
const Descriptor* MessageType(const FieldDescriptor* field) {
  return field == nullptr ? nullptr : field->message_type();
}

bool IsMessage(const UnknownField& value, const FieldDescriptor* field) {
  return MessageType(field) != nullptr &&
         value.type() == UnknownField::TYPE_LENGTH_DELIMITED;
}

bool IsText(const FieldDescriptor* field) {
  return field != nullptr && field->type() == FieldDescriptor::TYPE_STRING;
}

// Adds one element of a packed field.
bool AddElement(const FieldDescriptor& field,
                google::protobuf::io::CodedInputStream& packed,
                UnknownFieldSet& fields) {
  uint64_t number = 0;
  if (field.type() == FieldDescriptor::TYPE_DOUBLE ||
      field.type() == FieldDescriptor::TYPE_FIXED64) {
    if (!packed.ReadLittleEndian64(&number)) return false;
    fields.AddFixed64(field.number(), number);
    return true;
  }
  if (!packed.ReadVarint64(&number)) return false;
  fields.AddVarint(field.number(), number);
  return true;
}

// Fills in the fields of an encoded message; what comes packed as a field each.
void ReadFields(const std::string& message, const Descriptor& type,
                UnknownFieldSet& fields) {
  UnknownFieldSet given;
  given.ParseFromString(message);
  for (int i = 0; i < given.field_count(); ++i) {
    const UnknownField& value = given.field(i);
    const FieldDescriptor* field = type.FindFieldByNumber(value.number());
    if (field == nullptr || !field->is_packable() ||
        value.type() != UnknownField::TYPE_LENGTH_DELIMITED) {
      fields.AddField(value);
      continue;
    }
    const std::string& bytes = value.length_delimited();
    google::protobuf::io::CodedInputStream packed(
        reinterpret_cast<const uint8_t*>(bytes.data()),
        static_cast<int>(bytes.size()));
    while (AddElement(*field, packed, fields)) {
    }
  }
}

std::string Encoded(const UnknownFieldSet& fields) {
  std::string message;
  fields.SerializeToString(&message);
  return message;
}

void Remove(int index, UnknownFieldSet& fields) {
  fields.DeleteSubrange(index, 1);
}

}  // namespace

MessageMutator::MessageMutator(const Descriptor& type,
                               const std::vector<std::string>& words,
                               unsigned seed)
    : type_(type), words_(words), random_(seed) {}

std::string MessageMutator::Mutate(const std::string& message,
                                   const std::string& other) {
  Collect(message, type_);
  Collect(other, type_);
  std::string mutated = message;
  Change(mutated, type_);
  return mutated;
}

void MessageMutator::Collect(const std::string& message,
                             const Descriptor& type) {
  messages_[&type].push_back(message);
  UnknownFieldSet fields;
  ReadFields(message, type, fields);
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& value = fields.field(i);
    const FieldDescriptor* field = type.FindFieldByNumber(value.number());
    if (IsMessage(value, field)) {
      Collect(value.length_delimited(), *MessageType(field));
    } else if (IsText(field) &&
               value.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      texts_.push_back(value.length_delimited());
    }
  }
}

void MessageMutator::Change(std::string& message, const Descriptor& type) {
  UnknownFieldSet fields;
  ReadFields(message, type, fields);
  std::vector<int> below;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& value = fields.field(i);
    if (IsMessage(value, type.FindFieldByNumber(value.number()))) {
      below.push_back(i);
    }
  }
  if (!below.empty() && Chance(85)) {
    UnknownField& value = *fields.mutable_field(below[Below(below.size())]);
    Change(*value.mutable_length_delimited(),
           *MessageType(type.FindFieldByNumber(value.number())));
  } else {
    ChangeOneField(fields, type);
  }
  message = Encoded(fields);
}

void MessageMutator::ChangeOneField(UnknownFieldSet& fields,
                                    const Descriptor& type) {
  const int count = fields.field_count();
  if (count == 0 || Chance(30)) return AddField(fields, type);
  const int index = static_cast<int>(Below(count));
  if (Chance(20)) return Remove(index, fields);
  if (Chance(10)) {
    UnknownFieldSet twice;
    twice.AddField(fields.field(index));
    fields.MergeFrom(twice);
    return;
  }
  UnknownField& value = *fields.mutable_field(index);
  ChangeValue(value, type.FindFieldByNumber(value.number()));
}

void MessageMutator::AddField(UnknownFieldSet& fields, const Descriptor& type) {
  if (type.field_count() == 0) return;
  const FieldDescriptor& field =
      *type.field(static_cast<int>(Below(type.field_count())));
  if (field.message_type() != nullptr) {
    *fields.AddLengthDelimited(field.number()) =
        DrawMessage(*field.message_type());
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    *fields.AddLengthDelimited(field.number()) =
        IsText(&field) ? DrawText("") : DrawBytes("");
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    fields.AddFixed64(field.number(), std::bit_cast<uint64_t>(DrawDouble()));
  } else if (field.type() == FieldDescriptor::TYPE_FIXED64) {
    fields.AddFixed64(field.number(), DrawNumber(field, 0));
  } else {
    fields.AddVarint(field.number(), DrawNumber(field, 0));
  }
}

void MessageMutator::ChangeValue(UnknownField& value,
                                 const FieldDescriptor* field) {
  if (field == nullptr) return;
  switch (value.type()) {
    case UnknownField::TYPE_LENGTH_DELIMITED:
      value.set_length_delimited(
          IsMessage(value, field) ? DrawMessage(*MessageType(field))
          : IsText(field)         ? DrawText(value.length_delimited())
                                  : DrawBytes(value.length_delimited()));
      return;
    case UnknownField::TYPE_VARINT:
      value.set_varint(DrawNumber(*field, value.varint()));
      return;
    case UnknownField::TYPE_FIXED64:
      value.set_fixed64(field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE
                            ? std::bit_cast<uint64_t>(DrawDouble())
                            : DrawNumber(*field, value.fixed64()));
      return;
    default:
      return;
  }
}

std::string MessageMutator::DrawMessage(const Descriptor& type) {
  const std::vector<std::string>& known = messages_[&type];
  if (!known.empty() && Chance(60)) return known[Below(known.size())];
  if (depth_ == kDeepestDrawn) return "";
  ++depth_;
  UnknownFieldSet fields;
  for (uint64_t count = Below(3); count > 0; --count) AddField(fields, type);
  --depth_;
  return Encoded(fields);
}

std::string MessageMutator::DrawText(const std::string& now) {
  if (!words_.empty() && Chance(35)) return words_[Below(words_.size())];
  if (!texts_.empty() && Chance(50)) return texts_[Below(texts_.size())];
  std::string drawn = DrawBytes(now);
  // A message with other text is none.
  if (!google::protobuf::internal::IsStructurallyValidUTF8(drawn)) {
    for (char& letter : drawn) letter = static_cast<char>(letter & 0x7F);
  }
  return drawn;
}

std::string MessageMutator::DrawBytes(const std::string& now) {
  std::string drawn = now;
  drawn.resize(now.size() + kLongestDrawn);
  drawn.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(drawn.data()),
                                now.size(), drawn.size()));
  return drawn;
}

uint64_t MessageMutator::DrawNumber(const FieldDescriptor& field,
                                    uint64_t now) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return Below(2);
  if (field.enum_type() != nullptr && Chance(95)) {
    const EnumDescriptor& values = *field.enum_type();
    return values.value(static_cast<int>(Below(values.value_count())))
        ->number();
  }
  constexpr int64_t kCorners[] = {-1,
                                  std::numeric_limits<int32_t>::max(),
                                  std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min(),
                                  int64_t{1} << 40};
  switch (Below(8)) {
    case 0:
      return now + 1;
    case 1:
      return now - 1;
    case 2:
      return static_cast<uint64_t>(kCorners[Below(std::size(kCorners))]);
    case 3:
    case 5:
      return Below(uint64_t{1} << Below(kMostBits));
    case 4:
      // To what it was compared with, among others.
      LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(&now), sizeof now,
                       sizeof now);
      return now;
    default:
      return Below(16);
  }
}

double MessageMutator::DrawDouble() {
  using Limits = std::numeric_limits<double>;
  constexpr double kCorners[] = {0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 Limits::infinity(),
                                 Limits::quiet_NaN(),
                                 2.5,
                                 Limits::max(),
                                 10,
                                 3,
                                 -1e39,
                                 Limits::denorm_min()};
  return kCorners[Below(std::size(kCorners))];
}

}  // namespace phitap
