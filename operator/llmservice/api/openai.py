"""`spec.service.openAI`: the OpenAI-compatible endpoint of every replica."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from pydantic import Field

from llmservice.api.duration import Duration, cel_if_duration
from llmservice.api.model import ObjectName
from llmservice.api.quantity import parse_quantity
from llmservice.api.schema import ApiModel, Rule
from llmservice.api.template import Quantity

_SIZE: Final = "quantity(string(self.maxRequestSize))"


class OpenAIEndpoint(ApiModel):
    """OpenAI's HTTP API in front of each replica, served by a container beside Triton on port 8003."""

    enabled: Annotated[bool, Field(description="Whether replicas have the endpoint.")] = True
    api_keys_secret: Annotated[
        ObjectName | None,
        Field(
            description="Secret whose values are the API keys that let clients in; a value's name tells the client in "
            "metrics. Changes arrive while it serves. Omitted: everybody is let in."
        ),
    ] = None
    tls_secret: Annotated[
        ObjectName | None,
        Field(
            description="Secret of type kubernetes.io/tls to serve by https. Renewals arrive while it serves. "
            "Omitted: http."
        ),
    ] = None
    request_timeout: Annotated[
        Duration,
        Field(description="How long one answer may take, waiting included; a request may ask for less, never more."),
    ] = timedelta(minutes=10)
    max_request_size: Annotated[Quantity, Field(description="Larger requests are refused.")] = "8Mi"

    rules = (
        Rule(
            code="own-openai-timeout",
            expression=cel_if_duration(
                "self.requestTimeout",
                "(duration(self.requestTimeout) >= duration('1s') && duration(self.requestTimeout) <= duration('24h'))",
            ),
            message='"%s is no time to answer in: write 1s to 24h, such as 10m".format([self.requestTimeout])',
            field_path=".requestTimeout",
        ),
        Rule(
            code="own-openai-size",
            expression=f"!isQuantity(string(self.maxRequestSize)) || ({_SIZE}.compareTo(quantity('1Ki')) >= 0 "
            f"&& {_SIZE}.compareTo(quantity('64Mi')) <= 0)",
            message='"%s is no size for requests: write 1Ki to 64Mi, such as 8Mi".format([self.maxRequestSize])',
            field_path=".maxRequestSize",
        ),
    )

    @property
    def max_request_bytes(self) -> int:
        """`max_request_size` in bytes."""
        return int(parse_quantity(self.max_request_size) or 0)
