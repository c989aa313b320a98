package transport

// Counters counts what happened on a queue pair since it was made. Names follow
// rdma_rxe and mlx5 where they have one.
type Counters struct {
	TxPackets, RxPackets uint64
	TxBytes, RxBytes     uint64 // payload
	// Retransmits counts request packets sent again.
	Retransmits uint64
	// Timeouts counts ACK timers that ran out.
	Timeouts uint64
	// NAKsReceived counts sequence and error NAKs, RNRNAKsReceived the receiver-not-ready ones.
	NAKsReceived, RNRNAKsReceived uint64
	// ImpliedNAKs counts READs and atomics whose response went missing while a later answer came.
	ImpliedNAKs uint64
	// NAKsSent and RNRNAKsSent count what this responder refused.
	NAKsSent, RNRNAKsSent uint64
	// OutOfSequence counts requests ahead of the expected PSN, DuplicateRequests those behind.
	OutOfSequence, DuplicateRequests uint64
	// AcksSent and AcksReceived count ACKNOWLEDGE packets that are not NAKs.
	AcksSent, AcksReceived uint64
	// CNPsReceived counts congestion notifications, ECNMarked packets that arrived with CE.
	CNPsReceived, ECNMarked uint64
}
