#!/usr/bin/env python3
"""`peri serve` behind locks: TLS, keys on every way in, models managed on a socket of their own, nothing told that should not be."""
import http.client
import json
import os
import pty
import random
import re
import socket
import ssl
import stat
import subprocess

import grpc
from tritonclient.grpc import service_pb2

from served import Served
from typed import PERI, main

KEY = {"Authorization": "Bearer the-right-key-1"}


class Secure(Served):
    def keys(self, text="the-right-key-1 tenant=ann\nslow-key-000002 tenant=bob rate=0.01 burst=2\n"):
        path = self.folder / "keys"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def certificate(self):
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=peri.test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        key.chmod(0o600)
        return certificate, key

    def test_keys(self):
        self.put("add")
        self.serve("--api-keys", self.keys(), ready=False)
        self.wait_for(lambda: self.ask("GET", "/v2/health/ready", headers=KEY)[0] == 200)
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        body = json.dumps(self.rows([[1, 2, 3, 4]]))
        for method, path in (("GET", "/v2"), ("GET", "/v2/models/add"), ("POST", "/v2/models/add/infer"), ("POST", "/v2/repository/index"),
                             ("GET", "/v2/models/stats"), ("GET", "/v2/health/ready"), ("POST", "/v2/repository/models/add/load")):
            status, said, headers = self.ask(method, path, body if method == "POST" else None)
            self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"), path)
            self.assertEqual(self.ask(method, path, None, {"Authorization": "Bearer the-right-key-2"})[0], 401)
        for method, path in (("GET", "/v1/models"), ("POST", "/v1/embeddings"), ("GET", "//%76%31/models")):
            status, said, headers = self.ask(method, path, "{}" if method == "POST" else None)
            error = json.loads(said)["error"]
            self.assertEqual((status, headers["WWW-Authenticate"], error["type"], error["code"]), (401, "Bearer", "invalid_request_error", "invalid_api_key"), path)
            self.assertIn("key", error["message"])
        self.assertEqual(self.ask("GET", "/metrics", port=self.metrics_port)[0], 401)
        self.assertEqual(self.ask("GET", "/metrics", port=self.metrics_port, headers=KEY)[0], 200)
        self.assertEqual(self.ask("POST", "/v2/models/add/infer", body, KEY)[0], 200)
        for path, wrong, refused in (("add/infer", "{", 400), ("none/infer", body, 404), ("add/infer", json.dumps(self.rows([[1, 2]])), 400), ("add/generate", "{}", 400)):
            for _ in range(3):
                self.assertEqual(self.ask("POST", f"/v2/models/{path}", wrong, {"Authorization": "Bearer slow-key-000002"})[0], refused, path)
        slow = [self.ask("POST", "/v2/models/add/infer", body, {"Authorization": "Bearer slow-key-000002"}) for _ in range(5)]
        self.assertEqual([s[0] for s in slow], [200, 200, 429, 429, 429])
        self.assertTrue(all(int(s[2]["Retry-After"]) >= 1 for s in slow if s[0] == 429))
        self.stop()
        self.assertNotIn("the-right-key", self.log.read_text())

    def test_who_loads_and_watches_over_tls(self):
        """What keeps bench and top out is told with the flag that lets them in: whom they trust, and their key."""
        self.put("add")
        certificate, key = self.certificate()
        (self.folder / "mine").write_text("the-right-key-1\n")
        (self.folder / "other").write_text("the-right-key-2\n")
        self.serve("--tls-certificate", certificate, "--tls-key", key, "--api-keys", self.keys(), ready=False)
        trust = ("--ssl-https-ca-certificates-file", certificate)
        load = ("-m", "add", "-p", "20", "-r", "3", "-s", "1000")
        for command in (("bench", "--endpoint", f"https://127.0.0.1:{self.port}", *load), ("bench", "--endpoint", f"grpcs://127.0.0.1:{self.grpc_port}", *load),
                        ("top", f"https://127.0.0.1:{self.metrics_port}", "--once")):
            with self.subTest(command=command[:3]):
                self.assertRegex(self.ends(1, *command), "certificate; trust who signed it with --ssl-https-ca-certificates-file FILE$")
                self.assertIn("the server asks for a key; give one that it knows: --key-file FILE", self.ends(1, *command, *trust))
                self.assertIn("the server does not know this key", self.ends(1, *command, *trust, "--key-file", "other"))
                self.wait_for(lambda: self.peri(*command, *trust, "--key-file", "mine").returncode == 0)
                self.ends(0, *command, "--ssl-https-verify-peer", "0", "--key-file", "mine")
        self.assertIn("certificates need TLS", self.ends(2, "top", f"http://127.0.0.1:{self.metrics_port}", "--once", *trust))
        self.stop()

    def by_curl(self, path, unix, *more):
        """(status, body) of a path on a Unix socket."""
        said = subprocess.run(["curl", "-sS", "--unix-socket", unix, "-w", "%{http_code}", *more, f"http://localhost{path}"], capture_output=True, check=True).stdout
        return int(said[-3:]), said[:-3]

    def test_keys_on_sockets_and_pages(self):
        """What one way in asks for the others ask for, too."""
        self.put("add")
        http, manage = self.folder / "http", self.folder / "manage"
        self.serve("--api-keys", self.keys(), "--http-socket", http, "--management-socket", manage, ready=False)
        self.wait_for(lambda: self.ask("GET", "/v2/health/ready", headers=KEY)[0] == 200)
        key, wrong = ("-H", f"Authorization: {KEY['Authorization']}"), ("-H", "Authorization: Bearer the-right-key-2")
        for method, path in (("GET", "/v2"), ("GET", "/v2/models/add/config"), ("POST", "/v2/models/add/infer"), ("GET", "/v2/models/stats"), ("GET", "/v1/models"),
                             ("POST", "/v1/embeddings"), ("GET", "/v2/trace/setting"), ("POST", "/v2/logging"), ("GET", "/v2/systemsharedmemory/status"), ("GET", "/")):
            for more in ((), wrong):
                self.assertEqual(self.by_curl(path, http, "-X", method, *more)[0], 401, path)
            self.assertNotEqual(self.by_curl(path, http, "-X", method, *key)[0], 401, path)
        for path in ("/v2/repository/index", "/v2/repository/models/add/load", "/v2/models/add/infer", "/v2/logging"):
            for more in ((), wrong):
                self.assertEqual(self.by_curl(path, manage, "-X", "POST", *more)[0], 401, path)
        self.assertEqual(self.by_curl("/v2/repository/index", manage, "-X", "POST", *key)[0], 200)
        self.assertEqual(self.by_curl("/v2/health/live", http)[0], 200)
        for path in ("/dashboard", "/dashboard/", "/dashboard?x"):
            status, said, _ = self.ask("GET", path, port=self.metrics_port)
            self.assertEqual((status, b'"add"' in said, b'id="key" type="password"' in said), (200, False, True), "the page alone, which asks for the key")
            self.assertEqual(self.ask("POST", path, "x", port=self.metrics_port)[0], 401)
        for path in ("/metrics", "/dashboard/data", "/dashboard/data?x=1", "/dashboard/x", "/", "/none"):
            for headers in ({}, {"Authorization": "Bearer the-right-key-2"}, {"Authorization": "Basic the-right-key-1"}, {"Authorization": "the-right-key-1"}):
                status, said, _ = self.ask("GET", path, port=self.metrics_port, headers=headers)
                self.assertEqual((status, b"add" in said), (401, False), (path, headers))
            self.assertNotEqual(self.ask("GET", path, port=self.metrics_port, headers=KEY)[0], 401)

    def test_a_key_is_asked_for_before_a_body(self):
        """Who has none is told so at once, and what he would send takes no room from others."""
        self.put("add")
        manage = self.folder / "manage"
        self.serve("--api-keys", self.keys(), "--management-socket", manage, "--max-body-bytes", 1_000_000, "--max-total-body-bytes", 1_000_000, ready=False)
        self.wait_for(lambda: self.ask("GET", "/v2/health/ready", headers=KEY)[0] == 200)

        def begun(*fields, port=self.port, key=b""):
            s = socket.socket(socket.AF_INET if port else socket.AF_UNIX)
            self.addCleanup(s.close)
            s.settimeout(60)
            s.connect(("127.0.0.1", port) if port else str(manage))
            s.sendall(b"\r\n".join([b"POST /v2/models/add/infer HTTP/1.1", b"Host: a", *fields, *([b"Authorization: Bearer " + key] if key else []), b"", b""]))
            return s
        for port in (self.port, self.metrics_port, None):
            for key in (b"", b"the-right-key-2"):
                for fields in ((b"Content-Length: 900000",), (b"Transfer-Encoding: chunked",), (b"Content-Length: 900000", b"Expect: 100-continue")):
                    said = begun(*fields, port=port, key=key).recv(10000)
                    self.assertTrue(said.startswith(b"HTTP/1.1 401 ") and b"WWW-Authenticate: Bearer" in said, said)
        held = begun(b"Content-Length: 900000", key=b"the-right-key-1")
        body = json.dumps(self.rows([[1, 2, 3, 4]] * 10000))
        self.wait_for(lambda: self.ask("POST", "/v2/models/add/infer", body, KEY)[0] == 503)
        held.close()
        self.wait_for(lambda: self.ask("POST", "/v2/models/add/infer", body, KEY)[0] == 200)

    def test_keys_on_every_call_of_grpc(self):
        """Over its port and its Unix socket, of streams and of health that is watched; liveness alone needs none."""
        self.put("add")
        self.serve("--api-keys", self.keys(), "--grpc-socket", self.folder / "g", "--open-management", ready=False)
        self.wait_for(lambda: self.ask("GET", "/v2/health/ready", headers=KEY)[0] == 200)
        service = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        infer = service_pb2.ModelInferRequest(model_name="add", raw_input_contents=[bytes(16)])
        infer.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        bodies = {"ModelInfer": infer, "ModelStreamInfer": infer, "ModelReady": service_pb2.ModelReadyRequest(name="add"), "ModelConfig": service_pb2.ModelConfigRequest(name="add"),
                  "ModelMetadata": service_pb2.ModelMetadataRequest(name="add")}
        calls = [(f"/{service.full_name}/{m.name}", bodies[m.name].SerializeToString() if m.name in bodies else b"") for m in service.methods if m.name != "ServerLive"]
        calls += [("/grpc.health.v1.Health/Check", b""), ("/grpc.health.v1.Health/Watch", b""), ("/grpc.health.v1.Health/Check", b"\x0a\x03add"), (f"/{service.full_name}/ModelInfer", b"\xff" * 100)]
        self.assertGreater(len(calls), 18)

        def code_of(channel, path, body, metadata):
            try:
                if "Stream" in path or "Watch" in path:
                    call = channel.stream_stream(path)(iter([body]), metadata=metadata, timeout=120)
                    said = next(call)
                    call.cancel()
                    return service_pb2.ModelStreamInferResponse.FromString(said).error_message if "Stream" in path else "OK"
                channel.unary_unary(path)(body, metadata=metadata, timeout=120)
                return "OK"
            except grpc.RpcError as e:
                return e.code().name
        for target in (f"127.0.0.1:{self.grpc_port}", f"unix:{self.folder}/g"):
            with grpc.insecure_channel(target) as channel:
                for path, body in calls:
                    for metadata in ((), (("authorization", "Bearer the-right-key-2"),), (("authorization", "the-right-key-1"),)):
                        self.assertEqual(code_of(channel, path, body, metadata), "UNAUTHENTICATED", path)
                    said = code_of(channel, path, body, (("authorization", KEY["Authorization"]),))
                    self.assertNotEqual(said, "UNAUTHENTICATED", path)
                    if path.split("/")[-1] in bodies and body[:1] != b"\xff":
                        self.assertIn(said, ("OK", ""), path)
                self.assertEqual(code_of(channel, f"/{service.full_name}/ServerLive", b"", ()), "OK")
        self.assertEqual(self.ask("GET", "/v2/models/add/stats", headers=KEY)[0], 200)
        self.stop()
        self.assertNotIn("the-right-key", self.log.read_text())

    def test_keys_that_others_read(self):
        self.put("add")
        path = self.keys()
        path.chmod(0o644)
        said = self.ends(1, "serve", "--model-repository", self.repository, "--http-port", "0", "--metrics-port", "-1", "--api-keys", path)
        self.assertIn("chmod 600", str(said))

    def test_management_has_its_own_socket(self):
        self.put("add")
        path = self.folder / "manage"
        self.serve("--model-control-mode", "explicit", "--management-socket", path)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        for where in ("/v2/repository/index", "/v2/repository/models/add/load", "/v2/repository/models/add/unload"):
            self.assertEqual(self.ask("POST", where)[0], 403, where)
        curl = ["curl", "-sS", "-X", "POST", "--unix-socket", path, "-w", "%{http_code}"]
        said = subprocess.run([*curl, "http://localhost/v2/repository/models/add/load"], capture_output=True, check=True, text=True).stdout
        self.assertEqual(said, "200")
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            for call in ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"):
                body = b"" if call == "RepositoryIndex" else b"\x12\x03add"
                with self.assertRaises(grpc.RpcError) as caught:
                    channel.unary_unary("/inference.GRPCInferenceService/" + call)(body, timeout=120)
                self.assertEqual((caught.exception.code().name, "management socket" in caught.exception.details()), ("PERMISSION_DENIED", True), call)
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        said = subprocess.run([*curl, "http://localhost/v2/repository/index"], capture_output=True, check=True, text=True).stdout
        self.assertIn('"READY"', said)
        self.stop()
        said = self.ends(2, "serve", "--model-repository", self.repository, "--http-address", "0.0.0.0", "--http-port", "0", "--model-control-mode", "explicit")
        self.assertIn("--management-socket", str(said))

    def test_tls(self):
        self.put("add")
        certificate, key = self.certificate()
        self.serve_tls("--tls-certificate", certificate, "--tls-key", key)
        context = ssl.create_default_context(cafile=certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=120, context=context)
        self.wait_for(lambda: self.over(connection, "GET", "/v2/health/ready")[0] == 200)
        for rows in (1, 3, 30000, 1):
            status, said = self.over(connection, "POST", "/v2/models/add/infer", json.dumps(self.rows([[1, 2, 3, 4]] * rows)))
            self.assertEqual((status, json.loads(said)["outputs"][0]["data"]), (200, [2, 3, 4, 5] * rows))
        curl = subprocess.run(["curl", "-sS", "--cacert", certificate, f"https://127.0.0.1:{self.port}/v2/models/add"], capture_output=True, check=True)
        self.assertEqual(json.loads(curl.stdout)["name"], "add")
        quick = ("-m", "add", "-p", "100", "-s", "900", "--ssl-https-ca-certificates-file", certificate)
        for url in (f"https://127.0.0.1:{self.port}", f"grpcs://127.0.0.1:{self.grpc_port}"):
            for rows in ("1", "20000"):
                r = self.peri("bench", "-u", url, *quick, "-b", rows, "--concurrency-range", "3", "--json", "-")
                point = json.loads(r.stdout)["points"][0]
                self.assertEqual((r.returncode, point["errors"], point["ok"] > 0), (0, {}, True), r.stderr)
            self.assertIn("certificate", self.ends(1, "bench", "-u", url, *quick[:-2]), "of nobody that the system trusts")
            self.assertEqual(self.peri("bench", "-u", url, *quick[:-2], "--ssl-https-verify-peer", "0").returncode, 0)
            self.assertIn("mismatch", self.ends(1, "bench", "-u", url.replace("127.0.0.1", "localhost"), *quick), "the certificate is of an address")
        self.assertNotEqual(self.peri("bench", "-u", f"http://127.0.0.1:{self.port}", *quick[:-2]).returncode, 0)
        self.assertIn("TLS", self.ends(2, "bench", "-u", f"http://127.0.0.1:{self.port}", *quick))
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, OSError)):
            with socket.create_connection(("127.0.0.1", self.port)) as s:
                old.wrap_socket(s)
        # What is no TLS, or stops to be, costs its connection alone.
        rng = random.Random(4)
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
                s.sendall(rng.randbytes(rng.randrange(1, 400)) if rng.random() < 0.5 else b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(rng.randrange(600)))
                s.shutdown(socket.SHUT_WR)
                try:
                    while s.recv(1000):
                        pass
                except ConnectionResetError:
                    pass
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            tls = context.wrap_socket(s, server_hostname="127.0.0.1")
            self.addCleanup(tls.close)
            tls.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertTrue(tls.recv(100).startswith(b"HTTP/1.1 200"))
            for byte in b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":
                tls.sendall(bytes([byte]))
            said = b""
            while piece := tls.recv(1000):
                said += piece
            self.assertIn(b"HTTP/1.1 200", said)
        self.assertEqual(self.over(connection, "GET", "/v2/health/live")[0], 200)
        connection.close()

    def signed(self, name, by=None):
        """A certificate and its key, of an authority (no `by`), or signed by one."""
        key, certificate, request = (self.folder / f"{name}{end}" for end in (".key", ".pem", ".csr"))
        new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}", "-keyout", key]
        if by is None:
            subprocess.run([*new, "-x509", "-days", "2", "-out", certificate], check=True, capture_output=True)
        else:
            subprocess.run([*new, "-out", request], check=True, capture_output=True)
            subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", by[0], "-CAkey", by[1], "-CAcreateserial", "-days", "2", "-out", certificate],
                           check=True, capture_output=True)
        key.chmod(0o600)
        return certificate, key

    def test_clients_have_certificates(self):
        self.put("add")
        own, ours, theirs = self.certificate(), self.signed("ours"), self.signed("theirs")
        right, wrong = self.signed("right", ours), self.signed("wrong", theirs)
        self.serve_tls("--tls-certificate", own[0], "--tls-key", own[1], "--tls-client-ca", ours[0], "--log-format", "default", metrics="0")

        def asked(who, port, latest=ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=own[0])
            context.maximum_version = latest
            if who:
                context.load_cert_chain(*who)
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
            self.addCleanup(connection.close)
            return self.over(connection, "GET", "/metrics" if port == self.metrics_port else "/v2/health/live")[0]

        def lines():
            return [line for line in self.log.read_text().splitlines() if "refused " in line]

        def told(*how, why):
            """A refusal is logged, unless another was less than a second before."""
            before = len(lines())
            with self.assertRaises((ssl.SSLError, OSError)):
                asked(*how)
            return [line for line in lines()[before:] if re.search(r"refused 127\.0\.0\.1:\d+: " + why, line)]
        for latest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for port in (self.port, self.metrics_port):
                self.assertEqual(asked(right, port, latest), 200)
                for who, why in ((None, "peer did not return a certificate"), (wrong, "unable to get local issuer certificate")):
                    self.wait_for(lambda how=(who, port, latest), why=why: told(*how, why=why))
        quick = ("-m", "add", "-p", "100", "-s", "900", "--concurrency-range", "2", "--ssl-https-ca-certificates-file", own[0])
        for url in (f"https://127.0.0.1:{self.port}", f"grpcs://127.0.0.1:{self.grpc_port}"):
            grpc_too = ("--ssl-grpc-certificate-chain-file", "--ssl-grpc-private-key-file") if "grpc" in url else ("--ssl-https-client-certificate-file", "--ssl-https-private-key-file")
            self.assertEqual(self.peri("bench", "-u", url, *quick, grpc_too[0], right[0], grpc_too[1], right[1]).returncode, 0)
            self.assertIn("--ssl-https-client-certificate-file", self.ends(1, "bench", "-u", url, *quick))
            self.assertIn("--ssl-https-client-certificate-file", self.ends(1, "bench", "-u", url, *quick, grpc_too[0], wrong[0], grpc_too[1], wrong[1]))
            self.assertIn("go together", self.ends(2, "bench", "-u", url, *quick, grpc_too[0], right[0]))
        top = ("top", f"https://127.0.0.1:{self.metrics_port}", "--once", "--ssl-https-ca-certificates-file", own[0])
        self.assertEqual(self.peri(*top, "--ssl-https-client-certificate-file", right[0], "--ssl-https-private-key-file", right[1]).returncode, 0)
        self.assertIn("certificate required", self.ends(1, *top))
        trusts = {"root_certificates": own[0].read_bytes()}

        def code(who):
            identity = {"certificate_chain": who[0].read_bytes(), "private_key": who[1].read_bytes()} if who else {}
            with grpc.secure_channel(f"127.0.0.1:{self.grpc_port}", grpc.ssl_channel_credentials(own[0].read_bytes(), **identity)) as channel:
                try:
                    channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=120)
                    return "OK"
                except grpc.RpcError as e:
                    return e.code().name
        self.assertEqual(code(right), "OK")
        for who, why in ((None, "peer did not return a certificate"), (wrong, "certificate verify failed")):
            self.wait_for(lambda who=who, why=why: self.assertEqual(code(who), "UNAVAILABLE") or "refused a client of gRPC: " + why in "".join(lines()))
        many = len(lines())
        for _ in range(50):
            with self.assertRaises((ssl.SSLError, OSError)):
                asked(None, self.port)
        self.assertLess(len(lines()) - many, 50, "a line for each would let anyone fill the disk")
        self.stop()
        self.assertIn("--tls-certificate", self.ends(2, "serve", "--model-repository", self.repository, "--tls-client-ca", ours[0]))
        (self.folder / "empty").write_text("")
        self.assertIn("no certificates of authorities", self.ends(1, "serve", "--model-repository", self.repository, "--tls-certificate", own[0], "--tls-key", own[1],
                                                                  "--tls-client-ca", self.folder / "empty"))

    def test_a_key_of_another_certificate(self):
        self.put("add")
        own, other = self.signed("own"), self.signed("other")
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "rsa.key", "2048"], check=True, capture_output=True)
        (self.folder / "rsa.key").chmod(0o600)
        for key in (other[1], self.folder / "rsa.key"):
            said = self.ends(1, "serve", "--model-repository", self.repository, "--tls-certificate", own[0], "--tls-key", key)
            self.assertIn(f"{key}: the private key is not that of the certificate: ", said)
            self.assertIn(f"expected the key of the first certificate in {own[0]}; give the two files of one pair", said)
        (self.folder / "no.key").write_text("no key")
        (self.folder / "no.key").chmod(0o600)
        said = self.ends(1, "serve", "--model-repository", self.repository, "--tls-certificate", own[0], "--tls-key", self.folder / "no.key")
        self.assertIn("the private key cannot be used: ", said)

    def test_a_key_that_is_encrypted(self):
        """Refused with what to do, on a terminal as without one: nobody is asked for a passphrase."""
        self.put("add")
        certificate, key = self.certificate()
        hidden = self.folder / "hidden key.pem"
        subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", hidden], check=True, capture_output=True)
        hidden.chmod(0o600)
        ours, theirs = pty.openpty()
        for terminal in (subprocess.DEVNULL, theirs):
            r = subprocess.run([PERI, "serve", "--model-repository", self.repository, "--tls-certificate", certificate, "--tls-key", hidden], stdin=terminal,
                               capture_output=True, timeout=60, start_new_session=True, env=self.environment)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn("hidden key.pem: the private key is encrypted", r.stderr.decode())
            self.assertIn(f"openssl pkey -in '{hidden}' -out PLAIN", r.stderr.decode())
            self.assertNotIn("pass phrase", r.stderr.decode())
        for end in (ours, theirs):
            os.close(end)

    def serve_tls(self, *flags, metrics="-1"):
        """serve() with another word before its address."""
        with open(self.folder / "serve.log", "w") as log:
            self.log = self.folder / "serve.log"
            self.server = subprocess.Popen([PERI, "serve", "--model-repository", self.repository, "--http-port", "0", "--metrics-port", metrics, "--grpc-port", "0", "--no-tune",
                                            *map(str, flags)], cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        said = self.wait_for(lambda: "listening on https://127.0.0.1:" in self.log.read_text() and self.log.read_text())
        self.port = int(said.split("https://127.0.0.1:")[1].split()[0].split(";")[0])
        self.grpc_port = int(said.split("gRPC at 127.0.0.1:")[1].split()[0].split(";")[0])
        if metrics != "-1":
            self.metrics_port = int(said.split("metrics at https://127.0.0.1:")[1].split("/")[0])

    def over(self, connection, method, path, body=None):
        connection.request(method, path, body)
        reply = connection.getresponse()
        return reply.status, reply.read()


if __name__ == "__main__":
    main()
