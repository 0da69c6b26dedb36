"""The part of reliability.py that calls by gRPC."""
import random
import threading
import time


def grpc_traffic(server, counts, stop):
    """Calls of gRPC, a third of which are cancelled at a random moment; null where there is no client or no server of it."""
    try:
        import numpy
        import tritonclient.grpc as triton
    except ImportError:
        return None
    if server.grpc_port is None:
        return None

    def run():
        rng = random.Random(10)
        with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            while not stop.is_set():
                rows = numpy.array([[rng.randrange(1000) for _ in range(4)] for _ in range(rng.randrange(1, 5))], numpy.float32)
                given = triton.InferInput("x", rows.shape, "FP32")
                given.set_data_from_numpy(rows)
                got, there = [], threading.Event()

                def answered(result, error, to=got, told=there):  # a cancelled call's comes late: it is not the next one's
                    to.append((result, error))
                    told.set()
                call = client.async_infer("fixed", [given], answered)
                if rng.random() < 0.33:
                    time.sleep(rng.random() * 0.001)
                    call.cancel()
                    counts.add("gRPC, cancelled")
                elif not there.wait(60):
                    counts.add("no answer", "gRPC: none within a minute")
                elif got[0][1] is not None:
                    counts.add("unexpected", f"gRPC: {got[0][1]}")
                else:
                    right = (got[0][0].as_numpy("y") == rows + 1).all()
                    counts.add("gRPC, right") if right else counts.add("wrong", f"gRPC: {rows}")
                stop.wait(server.pause * 2 * rng.random())
    thread = threading.Thread(target=run)
    thread.start()
    return thread
