package transport

// Counters counts what happened on a queue pair since it was made. Names follow
// rdma_rxe and mlx5 where they have one.
type Counters struct {
	TxPackets, RxPackets uint64
	TxBytes, RxBytes     uint64 // payload
	// Retransmits counts request packets sent again.
	Retransmits uint64
	// Probes counts those of them sent to ask what had become of the oldest.
	Probes uint64
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
	// OutOfSequenceHeld counts those requests ahead that were kept until the gap was filled,
	// OutOfSequenceFull those for which there was no room.
	OutOfSequenceHeld, OutOfSequenceFull uint64
	// GapReports counts acknowledgements sent only to tell what is held.
	GapReports uint64
	// AcksSent and AcksReceived count ACKNOWLEDGE packets that are not NAKs.
	AcksSent, AcksReceived uint64
	// CNPsReceived counts congestion notifications, ECNMarked packets that arrived with CE.
	CNPsReceived, ECNMarked uint64
}

// Add adds what o counted to c.
func (c *Counters) Add(o *Counters) {
	c.TxPackets += o.TxPackets
	c.RxPackets += o.RxPackets
	c.TxBytes += o.TxBytes
	c.RxBytes += o.RxBytes
	c.Retransmits += o.Retransmits
	c.Probes += o.Probes
	c.Timeouts += o.Timeouts
	c.NAKsReceived += o.NAKsReceived
	c.RNRNAKsReceived += o.RNRNAKsReceived
	c.ImpliedNAKs += o.ImpliedNAKs
	c.NAKsSent += o.NAKsSent
	c.RNRNAKsSent += o.RNRNAKsSent
	c.OutOfSequence += o.OutOfSequence
	c.DuplicateRequests += o.DuplicateRequests
	c.OutOfSequenceHeld += o.OutOfSequenceHeld
	c.OutOfSequenceFull += o.OutOfSequenceFull
	c.GapReports += o.GapReports
	c.AcksSent += o.AcksSent
	c.AcksReceived += o.AcksReceived
	c.CNPsReceived += o.CNPsReceived
	c.ECNMarked += o.ECNMarked
}
