"""`spec.engine.vllm`: what only the vllm backend knows."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from llmservice.api.schema import ApiModel, Rule

ADAPTER_NAME: Final = "^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
_TOO_HIGH: Final = "self.adapters.filter(a, has(a.rank) && a.rank > self.maxAdapterRank)[0]"


class Adapter(ApiModel):
    """A LoRA adapter that requests may name."""

    name: Annotated[str, Field(min_length=1, max_length=63, description="What requests call it.")]
    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            description="Its folder: inside the model's source, or absolute on a volume of spec.template.",
        ),
    ]
    rank: Annotated[int | None, Field(ge=1, le=4096, description="r of its adapter_config.json.")] = None

    rules = (
        Rule(
            code="own-adapter-name",
            expression=f"self.name.matches('{ADAPTER_NAME}')",
            message='"%s cannot name an adapter: use letters, digits and _ . -".format([self.name])',
            field_path=".name",
        ),
        Rule(
            code="own-adapter-path",
            expression="!self.path.contains('..')",
            message='"%s leaves its folder: write it without ..".format([self.path])',
            field_path=".path",
        ),
    )


class SpeculativeMethod(StrEnum):
    """Who proposes the tokens that the model then verifies."""

    NGRAM = "Ngram"
    DRAFT = "Draft"
    EAGLE = "Eagle"
    EAGLE3 = "Eagle3"


class Speculative(ApiModel):
    """Speculative decoding: several tokens are proposed and verified in one step."""

    method: Annotated[
        SpeculativeMethod,
        Field(description="Ngram: from the prompt itself. Draft, Eagle, Eagle3: by a model of its own."),
    ]
    tokens: Annotated[int, Field(ge=1, le=32, description="Tokens proposed at once.")] = 4
    model: Annotated[
        str | None,
        Field(max_length=512, description="Folder of the proposing model; as an adapter's path."),
    ] = None
    repo: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            description="Of Draft: the hub's repository that has the proposing model's shape, for the capacity plan "
            "alone; its files come from `model`. Omitted: its memory is not planned.",
        ),
    ] = None
    lookup: Annotated[int, Field(ge=1, le=32, description="Of Ngram: longest run of tokens that is looked up.")] = 4

    rules = (
        Rule(
            code="own-speculative-model",
            expression="(self.method == 'Ngram') != has(self.model)",
            message="self.method == 'Ngram' "
            '? "Ngram proposes from the prompt and has no model: remove speculative.model" '
            ': "%s proposes by a model of its own: write speculative.model, its folder".format([self.method])',
            field_path=".model",
        ),
        Rule(
            code="own-speculative-repo",
            expression="!has(self.repo) || self.method == 'Draft'",
            message='"%s proposes by no model of its own shape: remove speculative.repo".format([self.method])',
            field_path=".repo",
        ),
    )


class VllmOptions(ApiModel):
    """What only the vllm backend knows, whichever driver."""

    adapters: Annotated[list[Adapter], Field(max_length=64, description="LoRA adapters beside the model.")] = []
    max_adapter_rank: Annotated[
        int, Field(ge=1, le=4096, description="The highest rank there is room for; more costs memory and time.")
    ] = 16
    max_active_adapters: Annotated[
        int, Field(ge=1, le=64, description="Adapters in one step; requests of others wait for it.")
    ] = 1
    speculative: Speculative | None = None

    rules = (
        Rule(
            code="own-adapter-rank",
            expression="!has(self.adapters) || self.adapters.all(a, !has(a.rank) || a.rank <= self.maxAdapterRank)",
            message=f'"adapter %s has rank %d, and there is room up to %d: raise maxAdapterRank"'
            f".format([{_TOO_HIGH}.name, {_TOO_HIGH}.rank, self.maxAdapterRank])",
            field_path=".adapters",
        ),
        Rule(
            code="own-adapter-once",
            expression="!has(self.adapters) || self.adapters.all(a, self.adapters.exists_one(b, b.name == a.name))",
            message='"each adapter has a name of its own: rename one of those that share it"',
            field_path=".adapters",
        ),
    )
