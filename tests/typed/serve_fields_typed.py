#!/usr/bin/env python3
"""Each field of each request to `peri serve`, over HTTP and gRPC, with values of every other kind: a refusal that names the field, or an answer where the value
means something, and never an error of the server's own."""
import copy
import http.client
import json
import struct

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from tritonclient.grpc import service_pb2

from serve_text_typed import tiny_text_model
from served import Served
from typed import main

HUGE = 1 << 63  # beyond what an int64 has
ODD = {"null": None, "bool": True, "number": 7, "negative": -7, "fraction": 1.5, "huge": HUGE, "text": "odd", "long": "o" * 70_000, "empty": "", "list": [], "lists": [[1], ["a"]],
       "object": {}, "objects": {"odd": {"odd": 1}}}
INFER = {"id": "one", "parameters": {"priority": 0, "timeout": 10_000_000, "binary_data_output": False, "mine": "x"},
         "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"mine": 1}, "data": [1.0, 2.0, 3.0, 4.0]}],
         "outputs": [{"name": "y", "parameters": {"binary_data": False, "classification": 2, "mine": 1}}]}
CONFIG = json.dumps({"name": "add", "max_batch_size": 4})
TRACE = {"trace_level": ["TIMESTAMPS"], "trace_rate": "5", "trace_count": "10"}
LOG = {"log_verbose_level": 1, "log_info": True, "log_warning": True, "log_error": True, "log_format": "default"}
# What a field may be beside what it is in the requests below: kinds of ODD that are answered. All others are refused.
ANY = "null bool number negative fraction huge text long empty"  # of a parameter of the model's own
TAKEN = {
    "infer": {"id": "null text long empty", "parameters": "null object", "parameters.priority": "null number", "parameters.timeout": "null number",
              "parameters.binary_data_output": "null bool", "parameters.mine": ANY, "inputs.0.parameters": "null object", "inputs.0.parameters.mine": ANY,
              **{f"inputs.0.data.{k}": "number negative fraction huge" for k in range(4)}, "outputs": "null list", "outputs.0.parameters": "null object",
              "outputs.0.parameters.binary_data": "null bool", "outputs.0.parameters.classification": "null number", "outputs.0.parameters.mine": ANY},
    "load": {"parameters": "null object", "parameters.config": "null"},
    "unload": {"parameters": "null object", "parameters.unload_dependents": "null bool"},
    "index": {"ready": "null bool"},
    "trace": {"trace_level": "null list", "trace_rate": "null", "trace_count": "null"},
    "log": {"log_verbose_level": "number huge", "log_info": "bool", "log_warning": "bool", "log_error": "bool"},
    "generate": {"text_input": "text long empty", "text_input.0": "text long empty", "id": "null text long empty", "parameters": "null object"},
    "embeddings": {"input": "text long empty", "input.0": "number text long empty", "encoding_format": "null", "dimensions": "null", "user": "null text long empty"},
}


class Fields(Served):
    def places(self, value, way=()):
        """The way to each value within a request."""
        if way:
            yield way
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield from self.places(value[key], (*way, key))

    def with_value(self, request, way, value):
        out = copy.deepcopy(request)
        holder = out
        for key in way[:-1]:
            holder = holder[key]
        holder[way[-1]] = value
        return out

    def refused(self, status, said, way, told):
        """A client's error, in JSON, that names the nearest field with a name."""
        self.assertTrue(400 <= status < 500 or status == 501, (told, status, said))
        error = json.loads(said)["error"]
        error = error["message"] if isinstance(error, dict) else error
        names = [key for key in way if isinstance(key, str)]
        wanted = {"name": ["'name'", "put 'o", "put ''"], "inputs": ["'inputs'", "'name'", "1 inputs"], "outputs": ["'outputs'", "'name'"], "data": ["'x'"], "parameters": ["'parameters'", "'odd'"],
                  "trace_level": ["trace_level", "trace level"], "input": ["'input'", "not a token"]}.get(names[-1], [names[-1]])
        self.assertTrue(any(n in error for n in wanted), (told, error))

    def asked(self, path, body):
        self.connection.request("POST", path, json.dumps(body))
        reply = self.connection.getresponse()
        return reply.status, reply.read()

    def test_fields_of_http(self):
        self.put("add")
        tiny_text_model(self.repository / "tiny")
        self.serve("--model-control-mode", "explicit", "--load-model", "*", "--open-management", "--canary-secs", 0, "--max-text-bytes", 1 << 17, "--stuck-kill-secs", 0,
                   "--otlp-endpoint", "http://127.0.0.1:9")
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        wrong = []
        for name, path, request in (("infer", "/v2/models/add/infer", INFER), ("load", "/v2/repository/models/add/load", {"parameters": {"config": CONFIG}}),
                                    ("unload", "/v2/repository/models/none/unload", {"parameters": {"unload_dependents": False}}),
                                    ("index", "/v2/repository/index", {"ready": True}), ("trace", "/v2/trace/setting", TRACE), ("log", "/v2/logging", LOG),
                                    ("generate", "/v2/models/tiny/generate", {"text_input": ["a cat"], "id": "one", "parameters": {}}),
                                    ("embeddings", "/v1/embeddings", {"model": "tiny", "input": ["a cat"], "encoding_format": "float", "dimensions": 16, "user": "me"})):
            good = self.asked(path, request)
            self.assertEqual(good[0], 200, (name, good))
            for way in self.places(request):
                for kind, value in ODD.items():
                    told = (name, ".".join(map(str, way)), kind)
                    status, said = self.asked(path, self.with_value(request, way, value))
                    taken = kind in TAKEN[name].get(told[1], "").split()
                    try:
                        if taken:
                            self.assertEqual(status, good[0], (told, said))
                        else:
                            self.refused(status, said, way, told)
                    except (AssertionError, ValueError, KeyError) as e:
                        wrong.append(str(e)[:300])
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.alive()

    def odd_messages(self, message):
        """(what, a copy) for each field of the message and of those in it, set or not, with odd values of its type, and without it."""
        fields = FieldDescriptor
        signed = [0, 1, -1, (1 << 31) - 1, -(1 << 31)]
        values = {fields.TYPE_STRING: ["", "odd", "o" * 70_000, "\0", "../odd"], fields.TYPE_BYTES: [b"", b"odd", b"\0" * 16, struct.pack("<I", 1 << 31)],
                  fields.TYPE_BOOL: [False, True], fields.TYPE_INT32: signed, fields.TYPE_INT64: [*signed, (1 << 63) - 1, -(1 << 63)], fields.TYPE_UINT32: [0, 1, (1 << 32) - 1],
                  fields.TYPE_UINT64: [0, 1, (1 << 64) - 1], fields.TYPE_FLOAT: [0.0, float("nan"), float("inf")], fields.TYPE_DOUBLE: [0.0, float("nan"), -float("inf")]}

        def changed(way, field, do):
            out = type(message)()
            out.CopyFrom(message)
            holder = out
            for step in way:
                holder = step(holder)
            do(holder, field.name)
            return out

        def walk(at, way, told):
            for field in at.DESCRIPTOR.fields:
                name, here = field.name, f"{told}.{field.name}"
                yield f"{here} cleared", changed(way, field, lambda m, n: m.ClearField(n))
                repeated = field.is_repeated
                if field.type != fields.TYPE_MESSAGE:
                    for value in values[field.type]:
                        if repeated:
                            yield f"{here} + {value!r:.40}", changed(way, field, lambda m, n, v=value: getattr(m, n).append(v))
                            yield f"{here} = [{value!r:.40}]", changed(way, field, lambda m, n, v=value: (m.ClearField(n), getattr(m, n).append(v)))
                        else:
                            yield f"{here} = {value!r:.40}", changed(way, field, lambda m, n, v=value: setattr(m, n, v))
                elif field.message_type.GetOptions().map_entry:
                    for key in getattr(at, name):
                        yield from walk(getattr(at, name)[key], [*way, lambda m, n=name, k=key: getattr(m, n)[k]], f"{here}[{key}]")
                elif repeated:
                    yield f"{here} + empty", changed(way, field, lambda m, n: getattr(m, n).add())
                    for k in range(len(getattr(at, name))):
                        yield f"{here} + {k} again", changed(way, field, lambda m, n, k=k: getattr(m, n).append(getattr(m, n)[k]))
                        yield from walk(getattr(at, name)[k], [*way, lambda m, n=name, k=k: getattr(m, n)[k]], f"{here}[{k}]")
                else:
                    yield f"{here} = empty", changed(way, field, lambda m, n: getattr(m, n).SetInParent())
                    yield from walk(getattr(at, name), [*way, lambda m, n=name: getattr(m, n)], here)

        yield from walk(message, [], message.DESCRIPTOR.name)

    def test_fields_of_grpc(self):
        self.put("add")
        self.serve("--model-control-mode", "explicit", "--load-model", "*", "--open-management", "--canary-secs", 0, "--stuck-kill-secs", 0, "--otlp-endpoint", "http://127.0.0.1:9")
        parameters = {"mine": {"string_param": "x"}, "priority": {"int64_param": 0}, "timeout": {"int64_param": 10_000_000}}
        given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"mine": {"bool_param": True}}}
        outputs = [{"name": "y", "parameters": {"classification": {"int64_param": 2}}}]
        typed = {"model_name": "add", "model_version": "1", "id": "one", "parameters": parameters, "inputs": [{**given, "contents": {"fp32_contents": [1, 2, 3, 4]}}], "outputs": outputs}
        requests = [
            ("ServerLive", {}), ("ServerReady", {}), ("ServerMetadata", {}), ("ModelReady", {"name": "add", "version": "1"}), ("ModelMetadata", {"name": "add", "version": "1"}),
            ("ModelConfig", {"name": "add", "version": "1"}), ("ModelStatistics", {"name": "add", "version": "1"}), ("ModelInfer", typed),
            ("ModelInfer", {**typed, "inputs": [given], "raw_input_contents": ["AACAPwAAgD8AAIA/AACAPw=="]}), ("RepositoryIndex", {"ready": True}),
            ("RepositoryModelLoad", {"model_name": "add", "parameters": {"config": {"string_param": CONFIG}}}),
            ("RepositoryModelUnload", {"model_name": "none", "parameters": {"unload_dependents": {"bool_param": False}}}),
            ("TraceSetting", {"settings": {"trace_level": {"value": ["TIMESTAMPS"]}, "trace_rate": {"value": ["5"]}}, "model_name": "add"}),
            ("LogSettings", {"settings": {"log_verbose_level": {"uint32_param": 0}, "log_info": {"bool_param": True}}})]
        wrong, seen = [], set()
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            def ask(method, message):
                call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}", type(message).SerializeToString,
                                           getattr(service_pb2, f"{method}Response").FromString)
                try:
                    return "OK", call(message, timeout=30)
                except grpc.RpcError as e:
                    return e.code().name, e.details()

            for method, fields in requests:
                good = json_format.ParseDict(fields, getattr(service_pb2, f"{method}Request")())
                self.assertEqual(ask(method, good)[0], "OK", (method, ask(method, good)))
                for told, message in self.odd_messages(good):
                    code, said = ask(method, message)
                    seen.add(code)
                    if code not in ("OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED") or (code != "OK" and not said):
                        wrong.append(f"{method} {told}: {code} {str(said)[:200]}")
                    if code == "OK" and method == "RepositoryModelUnload" and message.model_name == "add":
                        self.assertEqual(ask("RepositoryModelLoad", service_pb2.RepositoryModelLoadRequest(model_name="add"))[0], "OK")
                self.assertEqual(ask(method, good)[0], "OK", method)
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertLessEqual({"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"}, seen)
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.alive()


if __name__ == "__main__":
    main()
