"""What a refusal tells the caller: against a server that refuses everything."""

from concurrent import futures

import grpc
import pytest

import phitap


@pytest.fixture()
def refusing():
    """Starts a server that ends every call so, and returns a client of it."""
    stops = []

    def start(code, message, metadata):
        def refuse(_request, context):
            context.set_trailing_metadata(metadata)
            context.abort(code, message)

        class Refusals(grpc.GenericRpcHandler):
            def service(self, _details):
                return grpc.unary_unary_rpc_method_handler(refuse)

        server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Refusals()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        client = phitap.Client(f"127.0.0.1:{port}")
        stops.extend([client.close, lambda: server.stop(None)])
        return client

    yield start
    for stop in stops:
        stop()


def test_a_refusal_for_now_says_when_to_try_again(refusing):
    client = refusing(grpc.StatusCode.UNAVAILABLE, "the queue is full; try again in 1.5s", [("grpc-retry-pushback-ms", "1500")])
    with pytest.raises(phitap.RequestError, match="try again in 1.5s") as refused:
        client.plan("a", "logits")
    assert refused.value.retry_after == 1.5


def test_a_refusal_for_good_does_not(refusing):
    client = refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "ask for less", [])
    with pytest.raises(phitap.RequestError, match="ask for less") as refused:
        client.plan("a", "logits")
    assert refused.value.retry_after is None
