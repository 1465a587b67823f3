"""Valid and invalid payloads and results."""

import json
import math
from collections import UserDict
from types import MappingProxyType
from typing import Any

import pytest

from tenure.core.payload import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_JSON_BYTES,
    decode,
    decode_or_text,
    decode_response,
    encode_payload,
    encode_result,
    unreadable_reason,
)
from tenure.errors import InvalidPayload
from tenure.testing.conformance.building import limit_of_digits


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_payload_is_compact_text_in_the_order_of_its_keys() -> None:
    assert encode_payload({"b": [1, 2.5, None, True], "a": "ä"}) == '{"b":[1,2.5,null,true],"a":"ä"}'


def test_tuples_become_lists() -> None:
    assert decode(encode_payload({"a": (1, 2)})) == {"a": [1, 2]}


@pytest.mark.parametrize("payload", [MappingProxyType({"a": 1}), UserDict({"a": 1})])
def test_any_mapping_is_a_payload(payload: Any) -> None:
    assert encode_payload(payload) == '{"a":1}'


@pytest.mark.parametrize("payload", [None, [], "text", 7, [("a", 1)], "x" * 10_000])
def test_what_is_not_a_mapping_is_no_payload(payload: Any) -> None:
    with pytest.raises(InvalidPayload, match=r"the payload must be a JSON object \(a dict\), not") as caught:
        encode_payload(payload)

    assert len(str(caught.value)) < 200


REFUSED = {
    "NaN": ({"a": math.nan}, "not JSON"),
    "infinity": ({"a": [math.inf]}, r"not JSON: .*see payload\['a'\]\[0\], which is inf"),
    "an object far behind many": ({"a": object(), "b": [0] * 20_000}, "Object of type object .* serializable$"),
    "a set": ({"a": {1}}, r"not JSON: Object of type set .*; see payload\['a'\], which is {1}"),
    "bytes": ({"a": [0, (b"x",)]}, r"Object of type bytes .*; see payload\['a'\]\[1\]\[0\], which is b'x'"),
    "a nested mapping that is no dict": ({"a": MappingProxyType({})}, "not JSON"),
    "an int as key": ({"a": {1: 2}}, "key 1; the keys of a JSON object must be strings"),
    "None as key": ({None: 2}, "key None"),
    "a key within a list": ({"a": [({True: 2},)]}, "key True"),
    "a tuple as key": ({(1, 2): 3}, "not JSON: keys must be"),
    "NUL in a value": ({"a": ["x\0"]}, "NUL"),
    "NUL in a key": ({"x\0": 1}, "NUL"),
    "a lone surrogate": ({"a": "\ud800"}, "lone surrogate"),
    "a lone surrogate in a key": ({"\udfff": 1}, "lone surrogate"),
    "too deep": ({"a": nested(MAX_DEPTH)}, "nested more than 100 deep"),
    "much too deep": ({"a": nested(100_000)}, "not JSON"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_store_could_not_keep_unchanged_is_refused(name: str) -> None:
    payload, reason = REFUSED[name]

    with pytest.raises(InvalidPayload, match=reason):
        encode_payload(payload)  # type: ignore[arg-type]


def test_a_value_that_holds_itself_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["self"] = payload

    with pytest.raises(InvalidPayload, match="Circular"):
        encode_payload(payload)


@pytest.mark.parametrize("limit", [MAX_DIGITS, 0])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_other_processes_cannot_read_is_refused(limit: int, sign: int) -> None:
    refusal = r"payload\['a'\]\[1\] is an integer of more than 4,300 digits"

    with limit_of_digits(limit), pytest.raises(InvalidPayload, match=refusal):
        encode_payload({"a": [0, sign * 10**MAX_DIGITS], "b": 1})


@pytest.mark.parametrize("value", [10**MAX_DIGITS - 1, "9" * 2 * MAX_DIGITS])
def test_the_longest_integer_and_a_longer_text_of_digits_are_kept(value: object) -> None:
    assert decode(encode_payload({"a": value})) == {"a": value}


def test_text_that_spells_out_an_escape_is_kept() -> None:
    assert decode(encode_payload({"a": "\\u0000"})) == {"a": "\\u0000"}


def test_as_deep_as_allowed_is_kept() -> None:
    assert decode(encode_payload({"a": nested(MAX_DEPTH - 1)})) == {"a": nested(MAX_DEPTH - 1)}


def test_a_payload_of_allowed_length_is_kept() -> None:
    assert len(encode_payload({"a": "x" * (MAX_JSON_BYTES - 8)})) == MAX_JSON_BYTES


def test_a_payload_is_measured_in_bytes_and_refused_with_its_size() -> None:
    with pytest.raises(InvalidPayload, match="262,146 bytes of JSON; the limit is 262,144"):
        encode_payload({"a": "ä" * (MAX_JSON_BYTES // 2 - 3)})


def test_text_that_another_hand_wrote_is_read_like_any_json() -> None:
    assert decode(' \t{"a": 1}\r\n') == {"a": 1}


@pytest.mark.parametrize("text", ["", " ", "{", "{} {}", "{}x", "\u00a0{}", "\ufeff{}"])
def test_text_that_is_not_json_is_not_read(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        decode(text)


@pytest.mark.parametrize("text", ["9" * 5_000, "[" * 200_000, "{"])
def test_text_that_python_cannot_decode_is_returned_unchanged(text: str) -> None:
    assert decode_or_text(text) == text


@pytest.mark.parametrize(("payload", "reason"), [("{", "Expecting property name"), ([], "it is not a JSON object")])
def test_the_reason_why_a_payload_is_not_a_dict_is_told(payload: object, reason: str) -> None:
    assert unreadable_reason(payload).startswith(reason)


def test_text_that_python_can_decode_is_decoded() -> None:
    assert decode_or_text('{"a": 1}') == {"a": 1}


UNREADABLE = ["9" * 5_000, f'{{"a": {"[" * 100_000}{"]" * 100_000}}}', '{"a": "\udcff", "b": 1e}', '{"}": [[nope]]}']


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_part_of_a_response_that_python_cannot_decode_is_text_and_costs_the_rest_nothing(text: str) -> None:
    response = f'[1, [["],[", {text} , {{"a": ["\\\\", "\\"[,"]}}], []]]'

    found = decode_response(response.encode(errors="surrogateescape"), 3)

    assert found == [1, [["],[", text, {"a": ["\\", '"[,']}], []]]


def test_a_list_that_python_cannot_decode_is_text_as_a_whole() -> None:
    text = f"[1, {'9' * 5_000}]"

    assert decode_response(f"[[2, {text}]]".encode(), 2) == [[2, text]]


def test_a_response_that_is_no_list_is_text() -> None:
    assert decode_response(b"none", 2) == "none"


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": 1}, False])
def test_any_json_value_is_a_result(result: Any) -> None:
    text = encode_result(result)

    assert text is not None
    assert decode(text) == result


def test_a_result_too_long_to_be_kept_has_no_text() -> None:
    assert encode_result("x" * MAX_JSON_BYTES) is None


def test_what_is_not_json_is_no_result() -> None:
    with pytest.raises(InvalidPayload, match="the result is not JSON"):
        encode_result(object())
