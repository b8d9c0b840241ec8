"""A client that pings more often than the server lets it loses its connection, and nobody else notices."""

# SPDX-License-Identifier: Apache-2.0

import grpc
import pytest

import load_requests
from http2 import Connection, Ended
from ledger import small_requests
from load_requests import Stub
from served_process import ServedProcess

ENHANCE_YOUR_CALM = 0xB
CHECK_HEALTH = "/grpc.health.v1.Health/Check"
#: One, and two too early.
PINGS_AT_ONCE = 3


@pytest.fixture(scope="module")
def server():
    with ServedProcess(flags=("--threads", "2")) as running:
        yield running


def test_pings_without_end_cost_the_connection_and_no_other(server):
    asked = small_requests(server.address)
    with load_requests.connect(server.address) as channel, Connection(server.address) as pinging:
        stub = Stub(channel)
        assert load_requests.read(stub.Trace(asked[0].message)).digest == asked[0].digest
        call = stub.Trace(asked[1].message)
        answered = 0
        with pytest.raises(Ended) as ended:
            for _ in range(100):
                pinging.ping()
                answered += 1
        assert (ended.value.error, ended.value.why) == (ENHANCE_YOUR_CALM, "too_many_pings")
        # The server's own first frames start the count anew, and the one too many may be answered before the connection ends.
        assert PINGS_AT_ONCE <= answered <= 3 * PINGS_AT_ONCE
        assert load_requests.read(call).digest == asked[1].digest
        states = []
        channel.subscribe(states.append)
        assert load_requests.read(stub.Trace(asked[0].message)).digest == asked[0].digest
        assert set(states) <= {grpc.ChannelConnectivity.READY}


def test_pings_between_answers_are_answered(server):
    with Connection(server.address) as client:
        for _ in range(40):
            for _ in range(PINGS_AT_ONCE):
                client.ping()
            client.call(CHECK_HEALTH)
