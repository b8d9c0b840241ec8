# SPDX-License-Identifier: Apache-2.0
"""Chats rendered and encoded as transformers' apply_chat_template does, with templates built here and the real ones."""

import json
import os
import pathlib

import jinja2
import pytest
import transformers

from tokenizer_fixtures import KINDS
from tokenizer_probe import ROOT, Probe, Refused

DATA = pathlib.Path(os.environ.get("PHITAP_TEST_DATA", ROOT.parent / "shared/data")) / "real"
REAL_TEMPLATES = json.loads((DATA / "chat_templates.json").read_text()) if DATA.is_dir() else {}

# llama.cpp's own, which takes tools that are not given for undefined; in transformers they are none.
ITERATES_NONE = {"phi-4-mini-llama.cpp-tools"}

FEATURES = {
    "for, if, elif, else, +, indexing": """\
{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif (message['role'] == 'user') %}{{'<|user|>' + '\\n' + message['content'] + '<|end|>'}}{% else %}{{ message.content }}{% endif %}{% endfor %}
""",
    "set, slices, and, is not none, in": """\
{% if messages and messages[0]['role'] == 'system' and messages[0]['content'] is not none %}
    {% set system = messages[0]['content'] %}{% set rest = messages[1:] %}
{% else %}{% set system = 'You are Phi.' %}{% set rest = messages %}{% endif %}
[{{ system }}] {{ rest|length }} {{ 'tools' in messages[0] }} {{ 'x' not in messages[0] }} {{ messages[::-1][0].content }}""",
    "loop": """\
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}\
{% if not loop.last %}, {% endif %}{{ loop.previtem.role if loop.previtem is defined else '-' }}{% else %}nothing{% endfor %}""",
    "blocks trimmed and stripped": """\
    {% for m in messages %}
        {% if true %}
  {{ m.role }}  
        {% endif %}
    {%- if m.role == 'user' -%}   
      user
    {%- endif +%}
    {%+ if true %}kept{% endif %}

    {# a comment #}
    {% endfor %}
end

""",
    "carriage returns": "{% for m in messages %}\r\n{{ m.content }}\r{% endfor %}\r\nend\r\n",
    "break and continue": """\
{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% if loop.index > 1 %}{% break %}{% endif %}{% endfor %}""",
    "scopes of set": """\
{% set seen = 0 %}{% set ns = namespace(seen=0) %}{% for m in messages %}{% set seen = seen + 1 %}{% set ns.seen = ns.seen + 1 %}{% endfor %}\
{{ seen }} {{ ns.seen }}{% if true %}{% set seen = 9 %}{% endif %}{{ seen }}{% set text %}a{{ 1 }}b{% endset %}{{ text }}""",
    "raise_exception": """\
{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate at ' ~ loop.index) }}{% endif %}\
{{ m.content }}{% endfor %}""",
    "special tokens": "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ sep_token }}|{{ sep_token is defined }}",
    "generation": """\
{% for m in messages %}{% set who = m.role %}{% if m.role == 'assistant' %}{% generation %}{% set who = 'me' %}
{{ who + m.content }}{%- endgeneration -%}   {% endif %}{{ who }}{% endfor %}""",
    "tojson": """\
{{ messages | tojson }}{{ {'b': 1, 'a': [1.5, 1e20, 1e-7, true, none, '<&>"\\'/é\\n']} | tojson }}{{ [[], {}] | tojson(indent=2) }}\
{{ {'b': [1, {'c': 'é😀'}], 'a': none} | tojson(indent=4, sort_keys=true, ensure_ascii=true) }}{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}""",
    "methods of text": """\
{% for m in messages %}{{ m.content.strip() }}|{{ m.content.upper() }}|{{ m.content.split(' ')[0] }}|{{ m.content.split('n')[-1].lstrip('\\n') }}|\
{{ m.content.startswith('H') }}|{{ m['content'].replace('l', 'L') }}|{{ m.role.title() }}|{{ m.get('tools', 'none') }}|{{ m.content.rstrip() }}|\
{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}""",
    "filters": """\
{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} \
{{ (messages | first).role }} {{ (messages | last).content | trim | upper }} {{ 'a-b' | replace('-', '+') }} {{ nothing | default('d') }} \
{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='content') | join('/') }} {{ [3, 1, 2] | sort }} {{ 'xyz' | list }}""",
    "tests": """\
{% for m in messages %}{{ m.content is string }}{{ m is mapping }}{{ m.content is iterable }}{{ messages is sequence }}{{ m.nope is defined }}\
{{ m.nope is undefined }}{{ none is none }}{{ 3 is odd }}{{ 1.0 is number }}{{ tools is none }}{{ tools is defined }}{{ documents is none }}{% endfor %}""",
    "values as text": "{{ true }} {{ none }} {{ 1.0 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 7 % 3 }} {{ [1, 'a', none, true] }} {{ {'k': 'v'} }} {{ 'a' * 3 }}",
    "macros": "{% macro turn(m, end='<|end|>') %}<|{{ m.role }}|>{{ m.content }}{{ end }}{% endmacro %}{% for m in messages %}{{ turn(m) }}{{ turn(m, end='') }}{% endfor %}",
    "texts": "{{ 'a\\tb\\u00e9\\x41\\\\' }}{{ \"it's\" }}{{ 'say \"x\"' }}{% raw %}{{ raw }}{% endraw %}{{ 'a' ~ 1 ~ 'b' }}",
    "conditions": "{{ 'a' if messages|length > 1 else 'b' }}{{ 'only' if false }}{{ (1 == 1.0) and not false or none }}{{ 'a' < 'b' }}{{ 1 in [1, 2] }}{{ 'ell' in 'Hello' }}",
    "the year": "{{ strftime_now('%Y') }}",
    "what is missing printed": "[{{ messages[0].nope }}{{ nope }}]",
    "what is missing added": "{{ 'a' + messages[0].nope }}",
    "what is missing of what is missing": "{{ messages[0].nope.nope }}",
    "what is missing as JSON": "{{ messages[0].nope | tojson }}",
    "text and number added": "{{ 'a' + 1 }}",
    "iterating what is missing": "{% for x in messages[0].nope %}x{% endfor %}ok",
    "an index past the end": "[{{ messages[99] }}]",
}

CHATS = {
    "one": [{"role": "user", "content": "Hello there\n"}],
    "system": [{"role": "system", "content": "Be brief. <|end|> é今😀"}, {"role": "user", "content": "  Hi  "}],
    "turns": [{"role": "user", "content": "Name one"}, {"role": "assistant", "content": "Mary"}, {"role": "user", "content": "Next"}],
    "two users": [{"role": "user", "content": "a"}, {"role": "user", "content": ""}],
    "tools": [{"role": "system", "content": "Tools:", "tools": '[{"name": "f"}]'}, {"role": "user", "content": "Use f"}],
    "no system text": [{"role": "system", "content": ""}, {"role": "user", "content": "x"}],
    "ends with assistant": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    "tool role": [{"role": "user", "content": "a"}, {"role": "tool", "content": '{"r": 1}'}],
}


class Pair:
    """The same folder through transformers and through the server's tokenizer."""

    def __init__(self, folder, template):
        (folder / "chat_template.jinja").write_bytes(template.encode())
        self.reference = transformers.AutoTokenizer.from_pretrained(folder)
        self.probe = Probe(folder)

    def expected(self, chat, add_generation_prompt, tokenize):
        """None where transformers refuses the chat."""
        try:
            result = self.reference.apply_chat_template(
                chat, tokenize=tokenize, add_generation_prompt=add_generation_prompt)
        except (jinja2.TemplateError, TypeError):
            return None
        return result["input_ids"] if tokenize else result

    def check(self, chat):
        for add_generation_prompt in (False, True):
            text = self.expected(chat, add_generation_prompt, tokenize=False)
            if text is None:
                with pytest.raises(Refused):
                    self.probe.render(chat, add_generation_prompt)
                continue
            assert self.probe.render(chat, add_generation_prompt) == text
            ids = self.expected(chat, add_generation_prompt, tokenize=True)
            assert self.probe.encode_chat(chat, add_generation_prompt) == ids


@pytest.fixture(scope="module", params=FEATURES)
def feature_pair(request, tmp_path_factory):
    folder = KINDS["sentencepiece"](tmp_path_factory.mktemp("feature") / "checkpoint")
    yield from closing(Pair(folder, FEATURES[request.param]))


@pytest.fixture(scope="module", params=KINDS)
def kind_pair(request, tmp_path_factory):
    folder = KINDS[request.param](tmp_path_factory.mktemp("kind") / "checkpoint")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    yield from closing(Pair(folder, config["chat_template"]))


@pytest.fixture(scope="module", params=[name for name in REAL_TEMPLATES if name not in ITERATES_NONE])
def real_pair(request, tmp_path_factory):
    yield from closing(real_pair_of(request.param, tmp_path_factory.mktemp("real") / "checkpoint"))


def closing(pair):
    yield pair
    pair.probe.close()


def real_pair_of(name, folder):
    """The template in its own tokenizer's folder; where there is none, in that of Phi-3.5."""
    folder.mkdir()
    own = DATA / "tokenizers" / name
    for path in (own if own.is_dir() else DATA / "tokenizers/phi-3.5-mini").iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "config.json").write_text(json.dumps({"model_type": "phi3"}))
    return Pair(folder, REAL_TEMPLATES[name])


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_renders_every_feature_as_transformers(feature_pair, chat):
    feature_pair.check(chat)


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_encodes_chats_of_each_kind_as_transformers(kind_pair, chat):
    kind_pair.check(chat)


def test_the_real_templates_are_there():
    if not REAL_TEMPLATES:
        pytest.skip(f"the real chat templates are not in {DATA}; set PHITAP_TEST_DATA to test them too")
    assert len(REAL_TEMPLATES) >= 10


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
def test_renders_real_templates_as_transformers(real_pair, chat):
    real_pair.check(chat)


def test_takes_none_for_an_empty_list_where_transformers_refuses(tmp_path):
    """The one known difference: minijinja iterates over none as over an empty list."""
    pair = Pair(KINDS["sentencepiece"](tmp_path / "checkpoint"), "{% for tool in tools %}{{ tool }}{% endfor %}ok")
    assert pair.expected(CHATS["one"], False, tokenize=False) is None
    assert pair.probe.render(CHATS["one"], False) == "ok"
    pair.probe.close()


@pytest.mark.parametrize("name", sorted(ITERATES_NONE & REAL_TEMPLATES.keys()))
def test_transformers_refuses_what_is_left_out_above(tmp_path, name):
    pair = real_pair_of(name, tmp_path / "checkpoint")
    assert all(pair.expected(chat, False, tokenize=False) is None for chat in CHATS.values())
    pair.probe.close()
