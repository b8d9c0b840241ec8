"""The words and phrases that the demo model's sentences are made of."""
# SPDX-License-Identifier: Apache-2.0

WOMEN = (
    "Mary Anna Emma Laura Sarah Alice Julia Maria Lucy Rose Clara Grace Helen "
    "Irene Jane Karen Linda Megan Nina Olivia Paula Rachel Susan Tina Vera "
    "Wendy Amy Beth Carol Diana Ella Fiona Gina Holly Ivy Joan Kate Lily Molly "
    "Nora"
).split()
MEN = (
    "John Tom Paul Peter Mark James David Simon Adam Brian Carl Daniel Eric "
    "Frank George Henry Ivan Jack Kevin Leo Martin Nathan Oscar Patrick Robert "
    "Steven Thomas Victor William Alan Ben Chris Dan Edward Fred Gary Hugo "
    "Ian Luke Max"
).split()
NAMES = WOMEN + MEN

PLACES = (
    "store park school office station market garden beach library museum "
    "kitchen river hotel bank farm"
).split()
THINGS = (
    "drink book ball ring letter pen cup box key lamp coin hat bag map cake "
    "watch toy basket"
).split()
COLOURS = "red blue green black white yellow brown pink grey purple".split()
NOUNS = (
    "dog cat bird tree car boy girl door chair table picture window horse "
    "teacher doctor ship"
).split()
ADJECTIVES = "old new small big clean ready cold warm".split()

COUNTRIES = {  # country: capital, language
    "France": ("Paris", "French"),
    "Italy": ("Rome", "Italian"),
    "Spain": ("Madrid", "Spanish"),
    "Germany": ("Berlin", "German"),
    "Japan": ("Tokyo", "Japanese"),
    "Greece": ("Athens", "Greek"),
    "Poland": ("Warsaw", "Polish"),
    "Portugal": ("Lisbon", "Portuguese"),
    "Russia": ("Moscow", "Russian"),
    "China": ("Beijing", "Chinese"),
    "Egypt": ("Cairo", "Arabic"),
    "Sweden": ("Stockholm", "Swedish"),
    "Norway": ("Oslo", "Norwegian"),
    "Denmark": ("Copenhagen", "Danish"),
    "Hungary": ("Budapest", "Hungarian"),
    "Austria": ("Vienna", "German"),
    "Cuba": ("Havana", "Spanish"),
    "Peru": ("Lima", "Spanish"),
    "Finland": ("Helsinki", "Finnish"),
    "Turkey": ("Ankara", "Turkish"),
}

SERIES = [
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    (
        "January February March April May June July August September October "
        "November December"
    ).split(),
    "one two three four five six seven eight nine ten eleven twelve".split(),
    [str(n) for n in range(1, 21)],
    list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
]

MEETINGS = [
    "When {a} and {b} went to the {place},",
    "When {a} and {b} got to the {place},",
    "After {a} and {b} left the {place},",
    "While {a} and {b} were at the {place},",
    "Yesterday {a} and {b} walked to the {place}.",
    "Today {a} met {b} at the {place}.",
    "{a} and {b} had lunch at the {place}, and",
    "Then {a} saw {b} near the {place}, so",
]
GIFTS = [
    "gave a {thing} to",
    "handed the {thing} to",
    "showed the {thing} to",
    "wanted to give the {thing} to",
    "sold a {thing} to",
    "passed the old {thing} to",
]
ASIDES = [
    "{name} had a {thing}",
    "{name} wanted the {thing}",
    "{name} lost a {thing}",
]
GIFT_ENDS = [".", ".", " and left.", " with a smile."]
REASONS = [
    "{name} went to the {place} because[ {pronoun}] wanted a {thing}.",
    "{name} lost the {thing}, so[ {pronoun}] went to the {place}.",
    "When {name} got to the {place},[ {pronoun}] had a {thing}.",
    "Today {name} is at the {place} and[ {pronoun}] has a {thing}.",
]
SYSTEM_PROMPT = "You are a helpful assistant."
