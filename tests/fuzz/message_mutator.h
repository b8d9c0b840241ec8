// Changes messages as callers might write them; changed bytes alone would
// mostly be no message at all.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_MESSAGE_MUTATOR_H_
#define PHITAP_TESTS_FUZZ_MESSAGE_MUTATOR_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace phitap {

// Works on encoded messages: a field can also come twice, out of order or with
// a value that no generated class would write. Draws from `seed` alone.
class MessageMutator {
 public:
  // `words`: what texts are sometimes set to. Both outlive it.
  MessageMutator(const google::protobuf::Descriptor& type,
                 const std::vector<std::string>& words, unsigned seed);

  // Another message, which differs in one place: libFuzzer goes on from what it
  // gets. What is new there comes from elsewhere in `message`, from `other` (of
  // the same type), or is drawn.
  std::string Mutate(const std::string& message, const std::string& other);

 private:
  using Descriptor = google::protobuf::Descriptor;
  using FieldDescriptor = google::protobuf::FieldDescriptor;
  using Fields = google::protobuf::UnknownFieldSet;

  uint64_t Below(uint64_t count) { return random_() % count; }
  bool Chance(unsigned percent) { return Below(100) < percent; }

  // Remembers texts, and messages by type, to take them from later.
  void Collect(const std::string& message, const Descriptor& type);
  // Changes the message, or one below it.
  void Change(std::string& message, const Descriptor& type);
  void ChangeOneField(Fields& fields, const Descriptor& type);
  void AddField(Fields& fields, const Descriptor& type);
  void ChangeValue(google::protobuf::UnknownField& value,
                   const FieldDescriptor* field);
  std::string DrawMessage(const Descriptor& type);
  std::string DrawText(const std::string& now);
  std::string DrawBytes(const std::string& now);
  uint64_t DrawNumber(const FieldDescriptor& field, uint64_t now);
  double DrawDouble();

  const Descriptor& type_;
  const std::vector<std::string>& words_;
  std::vector<std::string> texts_;
  std::map<const Descriptor*, std::vector<std::string>> messages_;
  std::mt19937 random_;
  // Messages within messages that are being drawn.
  int depth_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_MESSAGE_MUTATOR_H_
