package transport

import (
	"testing"

	"github.com/go-roce/roce/bth"
)

// Each counter counts what its name says, once.
func TestCounters_OfARequester(t *testing.T) {
	s := newScript(t, nil)
	s.send(s.sendWR(1, 1500))           // 0 1
	s.send(s.read(2, 0, 100, s.far, 0)) // 2
	s.send(s.fetchAdd(3, 0, s.far, 0, 1))
	s.send(s.sendWR(4, 10)) // 4
	s.transmit()            // 5 packets, 1510 bytes
	s.arrives(s.ack(0), s.rnr(1, 1))
	s.clk.Advance(1e4)
	s.qp.HandleTimeout(s.now())
	s.transmit() // 4 again, 486 bytes
	s.arrives(s.ack(1), s.nak(bth.NAKSequence, 3), s.packet(bth.RCReadResponseOnly, 2, data(100, 0)))
	s.transmit() // 3 again for the NAK before whose PSN the READ is missing, 2 of them overtaken by its response
	s.arrives(s.atomicAck(3, 0))
	s.clk.Advance(1e9)
	s.qp.HandleTimeout(s.now())
	s.transmit() // the last one again, 10 bytes
	s.arrives(s.ack(4), s.ack(4), s.ack(7))
	s.wantDone("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS")
	want := Counters{
		TxPackets: 12, TxBytes: 1510 + 486 + 10 + 10, RxPackets: 9, RxBytes: 100, Retransmits: 7, Timeouts: 1,
		NAKsReceived: 1, RNRNAKsReceived: 1, ImpliedNAKs: 1, AcksReceived: 3,
	}
	if got := *s.qp.Counters(); got != want {
		t.Errorf("counted\n%+v, want\n%+v", got, want)
	}
}

func TestCounters_OfAResponder(t *testing.T) {
	s := newScript(t, nil)
	s.recv(1, 0, 10)
	s.arrives(s.packet(bth.RCSendOnly, 0, data(10, 0)), s.rdma(bth.RCReadRequest, 1, 0, 1500, nil))
	s.transmit() // ACK, 2 responses
	s.arrives(s.packet(bth.RCSendOnly, 0, data(10, 0)), s.packet(bth.RCSendOnly, 5, nil), s.packet(bth.RCSendOnly, 6, nil))
	s.transmit() // ACK, NAK
	s.arrives(s.packet(bth.RCSendOnly, 3, nil))
	s.transmit() // RNR NAK
	s.arrives(s.packet(bth.RCSendOnly, 0, data(10, 0)))
	s.transmit() // ACK
	s.arrives(s.rdma(bth.RCWriteOnly, 3, -8, 4, data(4, 0)))
	s.transmit() // NAK
	want := Counters{
		TxPackets: 8, TxBytes: 1500, RxPackets: 8, RxBytes: 34, NAKsSent: 2, RNRNAKsSent: 1, OutOfSequence: 2, DuplicateRequests: 2, AcksSent: 3,
	}
	if got := *s.qp.Counters(); got != want {
		t.Errorf("counted\n%+v, want\n%+v", got, want)
	}
}
