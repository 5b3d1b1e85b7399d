"""The types of values in the project file. Every group of keys is made of them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import CoreSchema, core_schema

from tidegauge.config import values
from tidegauge.config.problems import below, must
from tidegauge.model.secret import Secret


@dataclass(frozen=True)
class ValueParser:
    """How a value is checked, and how the reference page describes the values that are allowed."""

    check: Callable[[Any], Any]
    text: str

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        # PlainValidator would also build a schema of the type itself. It is needed only to write files, and
        # building it would slow down every start.
        return core_schema.no_info_plain_validator_function(self.check)


@dataclass(frozen=True)
class DocumentedDefault:
    """What the reference page says happens without the key, where the default value does not tell."""

    default: str


def as_it_is(value: Any) -> Any:
    """The value unchanged: it is checked later, where the text of the file is at hand."""
    return value


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise must("be a mapping of keys to values")
    return value


def listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise must("be a list, one `- ` for each entry")
    return value


def texts_by_name(value: Any) -> dict[str, str]:
    return each(value, values.text)


def each(value: Any, check: Any) -> dict[str, str]:
    checked = {}
    for key, item in mapping(value).items():
        with below(key):
            checked[key] = check(item)
    return checked


Text = Annotated[str, ValueParser(values.text, "text")]
MaybeText = Annotated[str | None, ValueParser(values.text, "text")]
Texts = Annotated[tuple[str, ...], ValueParser(values.texts, "text or list")]
SomeTexts = Annotated[tuple[str, ...], ValueParser(values.some_texts, "text or list")]
Tags = Annotated[tuple[str, ...], ValueParser(values.tags, "word or list")]
Hidden = Annotated[Secret | None, ValueParser(values.secret, "`${env:…}` or `${file:…}`")]
Duration = Annotated[timedelta, ValueParser(values.duration(), "duration")]
MaybeDuration = Annotated[timedelta | None, ValueParser(values.duration(), "duration")]
Lease = Annotated[timedelta, ValueParser(values.duration(timedelta(seconds=3)), "duration, at least 3s")]
Flag = Annotated[bool, ValueParser(values.flag, "`true`, `false`")]
MaybeFlag = Annotated[bool | None, ValueParser(values.flag, "`true`, `false`")]
Port = Annotated[int, ValueParser(values.whole(1, 65535), "1 to 65535")]
Host = Annotated[str, ValueParser(values.check_host, "host name or IP address")]
Endpoint = Annotated[str | None, ValueParser(values.check_endpoint, "`https://HOST[:PORT]`")]
Mapped = Annotated[dict[str, Any], ValueParser(mapping, "mapping")]
Listed = Annotated[list[Any], ValueParser(listed, "list")]


class Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    later: ClassVar[dict[str, str]] = {}
    """Keys that people may expect here, with a hint what to do instead; empty for keys not supported yet."""
