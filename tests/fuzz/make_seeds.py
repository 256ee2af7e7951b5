#!/usr/bin/env python3
"""Makes the seeds of tests/fuzz/corpus that are not text, and so are not written by hand.

  make_seeds.py           writes them
  make_seeds.py --check   exits with 1 if a file is not as this script makes it

A seed's name says what is in it. Most fuzz targets draw numbers and texts from their bytes with
libFuzzer's FuzzedDataProvider; Draws writes the bytes from which these values are drawn. Other
bytes would do as well, but few of them lead far."""

import argparse
import json
import pathlib
import struct
import sys

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


class Draws:
    """The values that a FuzzedDataProvider is to give, in the order in which they are drawn. It
    takes texts from the front of its bytes, and numbers from their end."""

    def __init__(self):
        self.texts, self.numbers = bytearray(), bytearray()

    def number(self, value, low, high):
        """ConsumeIntegralInRange(low, high), PickValueInArray (an index from 0) and others."""
        if not low <= value <= high:
            raise ValueError(f"{value} is not in [{low}, {high}]")
        size = ((high - low).bit_length() + 7) // 8
        self.numbers += (value - low).to_bytes(size, "big")
        return self

    def flag(self, value):
        """ConsumeBool."""
        return self.number(int(value), 0, 1)

    def text(self, value, most):
        """ConsumeRandomLengthString(most): a backslash before another character ends the text."""
        if len(value) > most:
            raise ValueError(f"{len(value)} bytes are more than {most}")
        self.texts += value.replace(b"\\", b"\\\\")
        if len(value) < most:
            self.texts += b"\\ "
        return self

    def same(self, byte, times):
        """So many numbers of one byte each, whatever they decide."""
        self.numbers += bytes([byte] * times)
        return self

    def bytes(self):
        return bytes(self.texts) + bytes(reversed(self.numbers))


# ---- Protobuf ------------------------------------------------------------------------------------


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """One field of a message: a whole number, or bytes (text and messages too)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


# ---- safetensors ---------------------------------------------------------------------------------


def safetensors(header, data=b"", length=None):
    """A file of relay/weights/safetensors_reader.h. `header`: text, or what becomes JSON."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    two = {"a.weight": tensor("F32", [2, 3], 0, 24), "b.bias": tensor("BF16", [4], 24, 32)}
    floats = struct.pack("<6f", *range(6))
    data = floats + bytes(8)
    one = {"a": tensor("F32", [6], 0, 24)}
    return {
        "no_tensors.safetensors": safetensors({}),
        "one_scalar.safetensors": safetensors({"s": tensor("F32", [], 0, 4)}, floats[:4]),
        "two_tensors.safetensors": safetensors(two, data),
        "metadata.safetensors": safetensors({"__metadata__": {"format": "pt"}, **one}, floats),
        "empty_tensor.safetensors": safetensors({"e": tensor("F32", [0, 3], 0, 0)}),
        "hole_between_tensors.safetensors": safetensors(
            {"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 3, 5)}, bytes(5)),
        "overlapping_tensors.safetensors": safetensors(
            {"a": tensor("F32", [2], 0, 8), "b": tensor("F32", [2], 4, 12)}, bytes(12)),
        "data_cut_off.safetensors": safetensors(two, data[:-1]),
        "shape_that_overflows.safetensors": safetensors(
            {"a": tensor("F32", [1 << 32, 1 << 32], 0, 0)}),
        "unknown_dtype.safetensors": safetensors({"a": tensor("F31", [6], 0, 24)}, floats),
        "one_name_twice.safetensors": safetensors(
            '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            '"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', bytes(2)),
        "header_longer_than_file.safetensors": safetensors(one, floats, length=1 << 40),
        "header_cut_off.safetensors": safetensors(one)[:20],
    }


# ---- Deltas --------------------------------------------------------------------------------------


def zstd(data):
    """A frame with one block that is stored as it is (RFC 8878)."""
    block = struct.pack("<I", len(data) << 3 | 1)[:3] + data
    return struct.pack("<IBB", 0xFD2FB528, 0x20, len(data)) + block


def block(frame):
    return struct.pack("<I", len(frame)) + frame


def delta_seeds():
    """The version has blocks of 16, 6 and 5 bytes."""
    same = block(b"")
    changed = [block(zstd(bytes(range(size)))) for size in (16, 6, 5)]
    return {"nothing_changed": same * 3, "all_changed": b"".join(changed),
            "one_block_changed": same + changed[1] + same, "block_too_short": changed[1] + same * 2,
            "block_too_long": same * 2 + changed[0], "cut_off": b"".join(changed)[:-1],
            "one_block_too_many": same * 4,
            "frame_longer_than_delta": struct.pack("<I", 0xFFFFFFFF) + zstd(bytes(16))}


# ---- YAML ----------------------------------------------------------------------------------------


def spec_yaml_seeds():
    """After a zero byte follows what `--set` says."""
    yaml = b"kind: rl\nmodel: {path: m}\nrollout: {n: 4}\n"
    return {"set_a_number": yaml + b"\0rollout.n=8",
            "set_a_list": yaml + b"\0data.train_files=[a.jsonl, b.jsonl]",
            "set_an_unknown_field": yaml + b"\0rollout.m=8"}


# ---- Operations on trees -------------------------------------------------------------------------

START, END, DRAFT, KEEP, TOKEN = 0, 1, 2, 4, 5
BEGIN, APPEND_MANY = 0, 3


def tokens_of(response, tokens):
    return [number for token in tokens for number in (TOKEN, response, token)]


def tree_cache_seeds():
    """The first byte chooses between one tree and a cache."""
    one = [1, 8, 3] + [START, 0]  # depth 12, four kinds of tokens; a response of weight 1
    two = one + tokens_of(0, [0, 1, 2, 0, 1, 2]) + [START, 0]
    sibling = two + tokens_of(1, [0, 1])
    evicting = [0, 251, 2]  # depth 255, a half-life of two updates
    for prompt in range(20):
        # Two numbers of each operation say how far the updates go on.
        evicting += [BEGIN, 1, 99, prompt, 1]
        evicting += [APPEND_MANY, 0, 0, 0, 254, 200, 200] * 5 + [END, 0, 0, 0]
    return {name: bytes(numbers) for name, numbers in {
        "one_response": one + tokens_of(0, [0, 1, 2, 0, 1, 2]),
        "response_that_repeats_itself": one + tokens_of(0, [0, 1] * 12) + [DRAFT, 0, 8],
        "draft_from_a_sibling": sibling + [DRAFT, 1, 8],
        "draft_after_the_end_of_a_sibling": sibling + [END, 0] + [DRAFT, 0, 15],
        "keep_the_newest": sibling + [KEEP, 0, 4] + [DRAFT, 1, 8],
        "cache_of_one_prompt": [0, 60, 1] + [BEGIN, 0, 0, 7, 0]
                               + [APPEND_MANY, 0, 0, 0, 200, 9, 9] * 4 + [DRAFT, 0, 0, 0, 32],
        "cache_that_evicts": evicting,
    }.items()}


# ---- The experience log --------------------------------------------------------------------------

APPEND, REOPEN, READ_ANYWHERE, DAMAGE, TEAR, STRAY, DROP = 0, 2, 3, 4, 5, 6, 7


def log_draws(foreign=None):
    """`foreign`: what the first file of the log holds already."""
    draws = Draws().flag(foreign is not None)
    return draws if foreign is None else draws.text(foreign, 200)


def appended(draws, *payloads):
    for payload in payloads:
        draws.number(APPEND, 0, 7).text(payload, 64)
    return draws


def experience_log_seeds():
    frame = b"BEX1" + struct.pack("<IQ", 3, 0) + b"abc"  # its checksum is wrong
    three = (b"first", b"", b"\\third\\")
    damaged = appended(log_draws(), *three).number(DAMAGE, 0, 7).number(0, 0, 2).number(17, 0, 20)
    torn = appended(log_draws(), *three).number(TEAR, 0, 7).number(3, 0, 40)
    dropped = appended(log_draws(), b"old").number(REOPEN, 0, 7)
    anywhere = appended(log_draws(), *three).number(READ_ANYWHERE, 0, 7).number(1, 0, 4)
    return {name: draws.bytes() for name, draws in {
        "three_records": appended(log_draws(), *three),
        "records_of_three_openings": appended(
            appended(appended(log_draws(), b"a").number(REOPEN, 0, 7), b"b").number(REOPEN, 0, 7),
            b"c"),
        "damaged_record": appended(damaged.number(0xFF, 1, 255), b"after"),
        "torn_file": appended(torn, b"after"),
        "old_files_dropped": appended(dropped, b"new").number(DROP, 0, 7).number(2, 0, 4)
                             .number(2, 0, 2),
        "stray_files": appended(log_draws().number(STRAY, 0, 7).number(0, 0, 6)
                                .number(STRAY, 0, 7).number(4, 0, 6), b"after"),
        "read_of_a_place_without_record": anywhere.number(1, 0, 400).number(5, 0, 255)
                                          .number(1, 0, 7),
        "empty_foreign_file": appended(log_draws(b""), b"after"),
        "foreign_frame_with_wrong_checksum": appended(log_draws(frame), b"after"),
        "foreign_frame_cut_off": appended(log_draws(frame[:10]), b"after"),
    }.items()}


# ---- The controller's parts (fuzzed_controller.h) ------------------------------------------------

# As the numbers of an event it lets 18 tasks go well, wherever in the event it is read.
ALL_WELL = 0x11
LEAVE, STEER, DISKS = 6, 7, 8
DRAIN, PAUSE, RESUME = 0, 4, 6
FULL_STORE, FULL_DISK, LOST_PAYLOADS, MENDED = 0, 1, 2, 3


def small_job(draws, sft=False, batch=2, steps=3, save_freq=1, n=2, shared=0, val=False):
    """What FuzzedSpec draws."""
    draws.flag(sft).number(batch, 1, 3).number(steps, 1, 4).number(save_freq, 0, 2)
    draws.number(2, 0, 2).number(0, -1, 1)
    if sft:
        return draws
    draws.number(n, 1, 2).number(shared, 0, 5).number(1, 1, 2)
    draws.number(1, 0, 3).number(1, 0, 3)  # no ranks that score together
    draws.flag(val)
    return draws.number(1, 0, 2).flag(True).flag(True) if val else draws


def event(draws, what):
    """Time goes on by a tenth of a second, and something happens."""
    return draws.number(1, 0, 7).number(what, 0, 15)


def steer(draws, what, worker=0):
    return event(draws, STEER).number(worker, 0, 5).number(what, 0, 7)


def disks(draws, what):
    return event(draws, DISKS).number(what, 0, 3)


def core_events_seeds():
    def one(**job):
        return small_job(Draws().number(1, 1, 2), **job)

    two = small_job(small_job(Draws().number(2, 1, 2)), sft=True)
    busy = one().same(ALL_WELL, 30)
    return {name: draws.bytes() for name, draws in {
        "rl_job_goes_well": one(steps=2).same(ALL_WELL, 150),
        "sft_job_goes_well": one(sft=True, steps=2).same(ALL_WELL, 90),
        "job_with_evaluation_goes_well": one(val=True).same(ALL_WELL, 240),
        "shared_pool_goes_well": one(shared=1).same(ALL_WELL, 240),
        "two_jobs_share_the_queue": two.same(ALL_WELL, 300),
        "worker_leaves": event(one().same(ALL_WELL, 30), LEAVE).number(1, 0, 5)
                         .same(ALL_WELL, 120),
        "worker_is_drained": steer(one().same(ALL_WELL, 30), DRAIN).same(ALL_WELL, 120),
        "pause_and_resume": steer(steer(busy, PAUSE).same(ALL_WELL, 30), RESUME)
                            .same(ALL_WELL, 120),
        "store_is_full_for_a_while": disks(disks(one().same(ALL_WELL, 30), FULL_STORE)
                                           .same(ALL_WELL, 15), MENDED).same(ALL_WELL, 120),
        "data_disk_is_full_for_a_while": disks(disks(one().same(ALL_WELL, 30), FULL_DISK)
                                               .same(ALL_WELL, 15), MENDED).same(ALL_WELL, 120),
        "payloads_are_lost": disks(one().same(ALL_WELL, 30), LOST_PAYLOADS).same(ALL_WELL, 120),
        "long_silence": one().same(ALL_WELL, 30).number(0, 0, 7).number(999, 0, 1000).flag(False)
                        .same(ALL_WELL, 120),
    }.items()}


JOB, STEP, STATE, EFFECTIVE_SPEC = 1, 11, 6, 4  # of JobRow, of Job
NEXT_SERIAL, SAVED_STEP = 6, 12  # of JobRow


def store_rows_seeds():
    def rows(job=b"", spec=b"", trajectory=None, events=30):
        """A job on its way, and what is then merged into its rows."""
        draws = Draws().text(job, 256).text(spec, 64).text(trajectory or b"", 128)
        small_job(draws, steps=2).number(events, 0, 60).same(ALL_WELL, 3 * events)
        draws.flag(trajectory is not None)
        if trajectory is not None:
            draws.number(0, 0, 12)
        return draws.same(ALL_WELL, 60).bytes()

    return {
        "rows_as_they_were": rows(),
        "job_just_submitted": rows(events=0),
        "job_that_failed": rows(job=field(JOB, field(STATE, 9))),
        "state_that_there_is_not": rows(job=field(JOB, field(STATE, 77))),
        "step_beyond_the_total": rows(job=field(JOB, field(STEP, 9))),
        "step_below_zero": rows(job=field(JOB, field(STEP, -1))),
        "serial_of_nothing": rows(job=field(NEXT_SERIAL, 1 << 40)),
        "checkpoint_of_the_future": rows(job=field(SAVED_STEP, 5)),
        "spec_without_effect": rows(spec=field(EFFECTIVE_SPEC, b"")),
        "trajectory_of_another_step": rows(trajectory=field(2, 7)),
        "trajectory_with_an_error": rows(trajectory=field(13, b"reward failed") + field(20, 1)),
        "row_cut_off": rows(job=field(JOB, b"name")[:-2]),
    }


# ---- Workers of the whole controller (worker_protocol_fuzz.cc) -----------------------------------

# As the numbers of a message it lets 16 tasks go well, wherever in the message it is read.
PROTOCOL_WELL = 0x0F
ATTACH, GO, HELLO, BEAT, BYTES, LOG, RESULT = 0, 1, 2, 3, 4, 5, 8


def worker_protocol_seeds():
    def job(sft=False):
        return Draws().number(0 if sft else 1, 0, 3)

    def says(draws, what, worker=1):
        """One of the three workers that are there."""
        return draws.number(worker, 0, 2).number(what, 0, 15)

    def started():
        return job().same(PROTOCOL_WELL, 24)

    heartbeat = field(2, field(1, 5))
    result = field(4, field(1, b"no token") + field(5, b"2"))
    return {name: draws.bytes() for name, draws in {
        "rl_job_goes_well": job().same(PROTOCOL_WELL, 150),
        "sft_job_goes_well": job(sft=True).same(PROTOCOL_WELL, 90),
        "nothing_but_heartbeats": says(says(says(job(), BEAT, 0), BEAT, 1), BEAT, 2),
        "second_hello": says(started(), HELLO).flag(True).same(PROTOCOL_WELL, 60),
        "rollout_leaves": says(started(), GO).same(PROTOCOL_WELL, 60),
        "worker_attaches_twice": says(started(), ATTACH).number(1, 0, 4).flag(True)
                                 .same(PROTOCOL_WELL, 60),
        "worker_of_another_project": says(started(), ATTACH).number(4, 0, 4).flag(True)
                                     .same(PROTOCOL_WELL, 60),
        "result_with_an_error": says(started(), RESULT).same(2, 4).same(PROTOCOL_WELL, 60),
        "log_line_of_an_unknown_job": says(job(), LOG).flag(False).flag(True),
        "bytes_of_a_heartbeat": says(job().text(heartbeat, 200), BYTES),
        "bytes_of_a_result_without_token": says(job().text(result, 200), BYTES),
        "bytes_that_are_no_message": says(job().text(b"\x0a\x7fhello", 200), BYTES),
    }.items()}


# ---- Checkpoints from outside (saved_job_fuzz.cc) ------------------------------------------------


def saved_job_seeds():
    def saved(mode_async=False, two=False, step=0, row=b"", files=b"", row_damage=None,
              files_damage=None, changes=None):
        """`…_damage`: where its JSON is damaged, how many bytes go, and what comes in their place."""
        draws = Draws().flag(mode_async).flag(two).number(step, 0, 3)
        draws.text(row, 256).text(files, 64)
        for damage, most in ((row_damage, 1 << 15), (files_damage, 255)):
            draws.number(int(damage is not None), 0, 4)
            if damage is not None:
                at, gone, text = damage
                draws.number(at, 0, most).number(gone, 0, 8).text(text, 16)
        draws.flag(changes is not None)
        if changes is not None:
            draws.text(changes, 32)
        return draws.bytes()

    missing = field(2, field(1, b"actor/gone") + field(2, 1))
    outside = field(2, field(1, b"../../train.jsonl") + field(2, 1))
    return {
        "good": saved(),
        "good_async": saved(mode_async=True, step=2),
        "good_with_two_samples": saved(two=True, step=3),
        "more_steps_asked_for": saved(step=1, changes=b""),
        "change_of_kind_asked_for": saved(changes=field(1, 2)),
        "step_below_zero": saved(row=field(JOB, field(STEP, -1))),
        "step_beyond_the_total": saved(row=field(JOB, field(STEP, 1 << 40))),
        "other_kind": saved(row=field(JOB, field(EFFECTIVE_SPEC, field(1, 2)))),
        "no_samples": saved(row=field(JOB, field(EFFECTIVE_SPEC, field(4, field(1, 0))))),
        "file_that_is_missing": saved(files=missing),
        "file_outside_the_folder": saved(files=outside),
        "row_that_is_no_json": saved(row_damage=(0, 1, b"")),
        "manifest_that_is_no_json": saved(files_damage=(3, 2, b"}")),
    }


# ---- Texts that are not UTF-8 --------------------------------------------------------------------


def data_set_seeds():
    return {"character_cut_off.jsonl": b'0{"prompt": "caf\xc3"}\n{"prompt": "a"}\n'}


def tokenizer_seeds():
    """The first byte chooses the tokenizer that reads the text."""
    return {"character_cut_off.txt": b"1caf\xc3", "bytes_of_no_character.txt": b"2 ab\xff\xfe a"}


# ---- Frames of relays ----------------------------------------------------------------------------

MESSAGE, PUT, KEEPALIVE = 1, 2, 3


def frame(kind, body=b"", region=0, offset=0, size=None, magic=b"BTR1"):
    """A frame of relay/transport/frame.h."""
    size = len(body) if size is None else size
    return magic + struct.pack("<IQQQQ", kind, size, region, offset, 7 if kind == PUT else 0) + body


def relay_frames_seeds():
    """The first byte is the size of the pieces, less one. Region 1 has 256 bytes, of which 16 are
    protected; region 2 has 256 bytes, until the first message comes."""
    at_once, byte_by_byte = b"\xff", b"\0"
    good = (frame(MESSAGE, b"hello") + frame(PUT, b"x" * 100, 1, 16) + frame(KEEPALIVE) +
            frame(PUT, b"y" * 140, 1, 116))
    return {
        "message_and_puts": at_once + good,
        "byte_by_byte": byte_by_byte + good,
        "put_of_a_whole_region": at_once + frame(PUT, b"z" * 256, 2),
        "put_into_protected_bytes": at_once + frame(PUT, b"p" * 16, 1) + frame(MESSAGE, b"m"),
        "put_into_bytes_protected_in_part": at_once + frame(PUT, b"p" * 20, 1),
        "put_behind_the_end": at_once + frame(PUT, b"p" * 20, 1, 240),
        "put_offset_that_overflows": at_once + frame(PUT, b"p" * 20, 1, (1 << 64) - 10),
        "put_into_a_withdrawn_region": at_once + frame(MESSAGE) + frame(PUT, b"p" * 20, 2),
        "put_into_an_unknown_region": at_once + frame(PUT, b"p" * 20, 3),
        "withdrawal_before_a_put_ends": b"\x03" + frame(MESSAGE, b"m") + frame(PUT, b"p" * 99, 2),
        "message_too_long": at_once + frame(MESSAGE, b"m", size=1 << 40),
        "message_cut_off": at_once + frame(MESSAGE, b"m" * 10, size=4000),
        "other_magic": at_once + frame(MESSAGE, b"m", magic=b"HTTP"),
        "unknown_type": at_once + frame(9, b"m"),
    }


def seeds():
    """{path below corpus/: bytes}"""
    made = {"core_events_fuzz": core_events_seeds(), "data_set_fuzz": data_set_seeds(),
            "delta_fuzz": delta_seeds(), "experience_log_fuzz": experience_log_seeds(),
            "relay_frames_fuzz": relay_frames_seeds(), "safetensors_fuzz": safetensors_seeds(),
            "saved_job_fuzz": saved_job_seeds(), "spec_yaml_fuzz": spec_yaml_seeds(),
            "store_rows_fuzz": store_rows_seeds(), "tokenizer_fuzz": tokenizer_seeds(),
            "tree_cache_fuzz": tree_cache_seeds(), "worker_protocol_fuzz": worker_protocol_seeds()}
    return {f"{target}/{name}": data for target, files in made.items()
            for name, data in files.items()}


def differing():
    """Paths of seeds that are not as this script makes them."""
    return sorted(path for path, data in seeds().items()
                  if not (CORPUS / path).is_file() or (CORPUS / path).read_bytes() != data)


def main():
    parser = argparse.ArgumentParser(description="Makes the seeds that are not written by hand")
    parser.add_argument("--check", action="store_true", help="write nothing, say what differs")
    if parser.parse_args().check:
        found = differing()
        print("\n".join(found))
        sys.exit(1 if found else 0)
    for path, data in seeds().items():
        (CORPUS / path).parent.mkdir(parents=True, exist_ok=True)
        (CORPUS / path).write_bytes(data)


if __name__ == "__main__":
    main()
