"""Chat templates: where they come from, and what they may do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmserving.chat import ChatTemplate

pytestmark = pytest.mark.unit

HELLO = ({"role": "user", "content": "Hello"},)


def write(folder: Path, **config: object) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_special_tokens_may_be_strings_or_objects(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        bos_token="<s>",
        eos_token={"content": "</s>", "special": True},
        chat_template="{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}",
    )
    assert ChatTemplate.load(folder).render(HELLO) == "<s>Hello</s>"


def test_a_file_of_its_own_goes_before_the_config_and_an_override_before_both(tmp_path: Path) -> None:
    folder = write(tmp_path, chat_template="config")
    (folder / "chat_template.jinja").write_text("file")
    assert ChatTemplate.load(folder).render(HELLO) == "file"
    assert ChatTemplate.load(folder, "override").render(HELLO) == "override"


def test_of_several_templates_the_default_one(tmp_path: Path) -> None:
    templates = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    assert ChatTemplate.load(write(tmp_path, chat_template=templates)).render(HELLO) == "plain"


def test_without_a_template_messages_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"spec\.model\.tokenizer\.chatTemplate"):
        ChatTemplate.load(write(tmp_path)).render(HELLO)


def test_a_template_says_itself_what_it_refuses() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}", {})
    with pytest.raises(ValueError, match="roles must alternate"):
        template.render(HELLO)


def test_a_template_reaches_nothing_of_the_process() -> None:
    with pytest.raises(ValueError, match="refuses"):
        ChatTemplate("{{ messages.__class__.__mro__[1].__subclasses__() }}", {}).render(HELLO)
